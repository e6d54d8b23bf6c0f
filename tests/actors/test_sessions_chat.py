from __future__ import annotations

import itertools
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from standby_actors.agent import Agent
from standby_actors.models import ModelSettings, Secret
from standby_actors.result import ChatMessage, ErrorKind
from standby_actors.session import (
    Capabilities,
    MessageEnded,
    Retrying,
    SessionEvent,
    TextDelta,
    Turn,
    ignore,
)
from standby_actors.sessions.chat import ChatModel, ChatSession, open_chat_model
from tests.support.model_server import (
    SILENT,
    Answer,
    Asked,
    ModelServer,
    chunk,
    fails,
    open_model_server,
    says,
    sse,
    streams,
)

CANARY = "sk-canary-9f8e7d6c5b4a"
SCOUT = Agent("scout", "You are a scout.")


@asynccontextmanager
async def open_model(to: ModelSettings, **options: Any) -> AsyncGenerator[ChatModel]:
    """A chat model that is ready for a virtual clock."""
    async with open_chat_model(to, **options) as model:
        model.breaker.failures = 1_000_000  # what a failure is, is the question here
        # The SDK asks for the platform in a thread, once a client; meanwhile
        # a clock that jumps when all tasks wait would jump.
        vars(model.client)["_platform"] = "Linux"
        yield model


def settings(base_url: str, **changes: Any) -> ModelSettings:
    given: dict[str, Any] = {
        "capabilities": Capabilities(schema=True, streaming=True),
        "api_key": Secret(CANARY),
    }
    return ModelSettings("openai", "m", base_url, **{**given, **changes})


async def ask(
    script: Any,
    *texts: str,
    agent: Agent = SCOUT,
    on_event: Callable[[SessionEvent], None] = ignore,
    **changes: Any,
) -> tuple[Turn, ChatSession, ModelServer]:
    """The last turn of a conversation with a server that plays `script`."""
    async with (
        open_model_server(script) as server,
        open_model(settings(server.base_url, **changes), random=lambda: 0.5) as model,
    ):
        session = model.session(agent)
        turn = Turn()
        for text in texts or ("go",):
            turn = await session.ask(text, on_event)
        return turn, session, server


def kind_of(turn: Turn) -> ErrorKind | None:
    return None if turn.error is None else turn.error.kind


async def test_an_answer_comes_piece_by_piece_and_is_counted() -> None:
    events: list[SessionEvent] = []
    turn, session, server = await ask([says("Hel", "lo. ")], on_event=events.append)
    assert turn.error is None
    assert turn.text == "Hello."
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hel", "lo. "]
    assert turn.messages == (ChatMessage("user", "go"), ChatMessage("assistant", "Hello. "))
    assert [e.message for e in events if isinstance(e, MessageEnded)] == list(turn.messages)
    usage = session.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 10, 5)
    assert (usage.context_tokens, usage.unreported) == (15, 0)
    [asked] = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {CANARY}"
    assert asked.body["stream_options"] == {"include_usage": True}
    assert asked.body["messages"][0] == {"role": "system", "content": "You are a scout."}


async def test_a_session_remembers_and_two_sessions_share_nothing() -> None:
    async with (
        open_model_server(lambda asked: says(f"to {asked.last}")) as server,
        open_model(settings(server.base_url)) as model,
    ):
        one, other = model.session(SCOUT), model.session(SCOUT)
        await one.ask("first", ignore)
        await one.ask("second", ignore)
        await other.ask("third", ignore)
    shown = [[m["content"] for m in asked.body["messages"][1:]] for asked in server.asked]
    assert shown == [["first"], ["first", "to first", "second"], ["third"]]
    assert [m.text for m in other.transcript()] == ["third", "to third"]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        pytest.param(fails(401, "bad key"), "provider", "did not accept the key", id="wrong key"),
        pytest.param(fails(403), "provider", "did not accept the key", id="forbidden"),
        pytest.param(
            fails(404, "no such model", code="model_not_found"),
            "provider",
            "openai/m is not known to its server",
            id="unknown model",
        ),
        pytest.param(fails(400, "odd request"), "provider", "odd request", id="bad request"),
        pytest.param(
            fails(400, "too long", code="context_length_exceeded"),
            "context_overflow",
            "longer than openai/m can take",
            id="context overflow, by its code",
        ),
        pytest.param(
            fails(400, "request (4019 tokens) exceeds the available context size (2048 tokens)"),
            "context_overflow",
            "2048 tokens",
            id="context overflow, in llama.cpp's words",
        ),
        pytest.param(
            fails(429, "pay first", code="insufficient_quota"),
            "provider",
            "nothing left to spend",
            id="no quota",
        ),
        pytest.param(says("Half", finish="length"), "truncated", "output limit", id="length"),
        pytest.param(says("Half", finish=None), "truncated", "before its finish", id="no finish"),
        pytest.param(
            says("Half", finish=None, done=False), "truncated", "before its finish", id="no end"
        ),
        pytest.param(streams(), "truncated", "before its finish", id="nothing at all"),
        pytest.param(
            says("Half", finish="content_filter"), "refused", "filter", id="content filter"
        ),
        pytest.param(
            streams(chunk({"refusal": "I will not."}), chunk({}, "stop")),
            "refused",
            "I will not.",
            id="refusal",
        ),
        pytest.param(says("Half", finish="weird"), "protocol", "'weird'", id="unknown reason"),
        pytest.param(
            says("Half", finish="tool_calls"), "protocol", "offered none", id="unasked tool"
        ),
        pytest.param(
            streams(chunk({"content": "Half"}), sse({"error": {"message": "overloaded"}})),
            "provider",
            "overloaded",
            id="error in the stream",
        ),
        pytest.param(streams(sse("{no json")), "protocol", "cannot be read", id="no JSON"),
        pytest.param(streams(sse("[1, 2]")), "protocol", "cannot be read", id="odd JSON"),
    ],
)
async def test_a_failing_server_is_named_for_what_it_did(
    answer: Answer, kind: ErrorKind, words: str
) -> None:
    turn, session, server = await ask([answer])
    assert turn.error is not None
    assert turn.error.kind == kind
    assert words in turn.error.message
    assert len(server.asked) == session.usage.requests == 1
    said = [m for m in turn.messages if m.role == "assistant"]
    assert all(m.partial and m.text == "Half" for m in said)


async def test_a_failed_turn_stays_in_the_transcript_and_is_not_shown_again() -> None:
    turn, session, server = await ask([says("Half", finish="length"), says("ok")], "one", "two")
    assert turn.error is None
    assert [m["content"] for m in server.asked[1].body["messages"][1:]] == ["two"]
    assert [(m.text, m.partial) for m in session.transcript()] == [
        ("one", False),
        ("Half", True),
        ("two", False),
        ("ok", False),
    ]


async def test_a_full_context_is_an_overflow_and_not_a_limit_of_the_answer() -> None:
    turn, _, _ = await ask(
        [says("long", finish="length", usage=(2000, 48))],
        capabilities=Capabilities(context_tokens=2048),
    )
    assert kind_of(turn) == "context_overflow"


async def test_a_server_that_tells_no_usage_is_counted_by_what_arrived() -> None:
    _, session, _ = await ask([says("a", "b", "c", usage=None)])
    usage = session.usage
    assert (usage.output_tokens, usage.input_tokens, usage.unreported) == (3, 0, 1)
    assert usage.context_tokens is None


async def test_a_server_that_refuses_to_tell_usage_is_asked_without() -> None:
    answers = [fails(400, "unknown field stream_options"), says("ok"), says("ok")]
    turn, session, server = await ask(answers, "one", "two")
    assert turn.error is None
    assert ["stream_options" in a.body for a in server.asked] == [True, False, False]
    assert session.usage.requests == 3


# Retries.


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504, 529])
async def test_a_server_in_trouble_is_asked_again_and_each_request_counted(
    status: int, autojump_clock: MockClock
) -> None:
    events: list[SessionEvent] = []
    turn, session, server = await ask([fails(status), says("ok")], on_event=events.append)
    assert turn.text == "ok"
    assert session.usage.requests == len(server.asked) == 2
    [retry] = [e for e in events if isinstance(e, Retrying)]
    assert retry.attempt == 1
    assert server.asked[1].at - server.asked[0].at == pytest.approx(retry.seconds, abs=0.1)


async def test_retries_are_bounded(autojump_clock: MockClock) -> None:
    turn, session, server = await ask(lambda _: fails(500, "down"))
    assert kind_of(turn) == "provider"
    assert "down" in str(turn.error)
    assert len(server.asked) == session.usage.requests == 3


async def test_a_refused_connection_says_where_nobody_is(autojump_clock: MockClock) -> None:
    with trio.socket.socket() as taken:
        await taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        port = taken.getsockname()[1]
        async with open_model(settings(f"http://127.0.0.1:{port}/v1")) as model:
            turn = await model.session(SCOUT).ask("go", ignore)
    assert kind_of(turn) == "provider"
    assert f"nothing answers at http://127.0.0.1:{port}/v1 (Connection refused)" in str(turn.error)


@pytest.mark.parametrize(
    ("header", "at_least", "below"),
    [
        pytest.param("600", 600.0, 720.1, id="seconds"),
        pytest.param("1.5", 1.5, 2.1, id="a fraction"),
        pytest.param("Thu, 01 Jan 1970 00:02:00 GMT", 20.0, 24.1, id="a date"),
        pytest.param("soon", 0.4, 1.1, id="garbage"),
        pytest.param("-5", 0.4, 1.1, id="negative"),
        pytest.param(None, 0.4, 1.1, id="missing"),
    ],
)
async def test_retry_after_is_obeyed_and_never_early(
    header: str | None, at_least: float, below: float, autojump_clock: MockClock
) -> None:
    headers = {} if header is None else {"Retry-After": header}
    seeded = random.Random(1)
    async with (
        open_model_server([fails(429, headers=headers), says("ok")]) as server,
        open_model(settings(server.base_url), random=seeded.random, wall=lambda: 100.0) as model,
    ):
        turn = await model.session(SCOUT).ask("go", ignore)
    assert turn.text == "ok"
    waited = server.asked[1].at - server.asked[0].at
    assert at_least <= waited <= below


async def test_who_asks_for_too_long_a_wait_is_not_waited_for() -> None:
    turn, _, server = await ask([fails(429, headers={"Retry-After": "1000000000"})])
    assert kind_of(turn) == "rate_limited"
    assert "1000000000 s" in str(turn.error)
    assert len(server.asked) == 1


async def test_a_wait_that_cannot_be_in_time_is_not_begun() -> None:
    with trio.fail_after(60):
        turn, _, _ = await ask([fails(429, headers={"Retry-After": "600"})])
    assert kind_of(turn) == "rate_limited"


async def test_thirty_who_were_told_to_wait_do_not_strike_together(
    autojump_clock: MockClock,
) -> None:
    start = trio.current_time()

    def script(asked: Asked) -> Answer:
        early = asked.at < start + 600
        return fails(429, headers={"Retry-After": "600"}) if early else says("ok")

    seeded = random.Random(7)
    turns: list[Turn] = []
    async with (
        open_model_server(script) as server,
        open_model(settings(server.base_url), random=seeded.random) as model,
    ):

        async def one(delay: float) -> None:
            await trio.sleep(delay)
            turns.append(await model.session(SCOUT).ask("go", ignore))

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(one, 0.0)
            # One more, who never had a 429: the limit belongs to the key.
            nursery.start_soon(one, 5.0)
    assert [t.text for t in turns] == ["ok"] * 31
    late = sorted(a.at - start for a in server.asked if a.at >= start + 1)
    assert len(server.asked) == 30 + len(late) == 61
    assert late[0] >= 600
    assert late[-1] - late[0] >= 60
    assert len({round(at) for at in late}) >= 20


# Silence and slowness.


async def test_a_silent_server_is_given_up_and_not_asked_again(autojump_clock: MockClock) -> None:
    agent = Agent("scout", "", idle_timeout=30.0)
    turn, session, server = await ask(lambda _: SILENT, agent=agent)
    assert kind_of(turn) == "idle_timeout"
    assert "said nothing for 30 s" in str(turn.error)
    assert len(server.asked) == session.usage.requests == 1


async def test_a_server_that_falls_silent_keeps_what_it_said(autojump_clock: MockClock) -> None:
    agent = Agent("scout", "", idle_timeout=30.0)
    answer = says("Half", finish=None, done=False, usage=None).holding()
    turn, session, _ = await ask([answer], agent=agent)
    assert kind_of(turn) == "idle_timeout"
    assert turn.text == "Half"
    assert session.usage.unreported == 1


async def test_one_byte_a_second_is_slow_and_whole(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    turn, _, _ = await ask([says("Hello").byte_by_byte()])
    assert (turn.error, turn.text) == (None, "Hello")
    assert trio.current_time() - start > 500


async def test_after_the_finish_reason_nobody_waits_long(autojump_clock: MockClock) -> None:
    start = trio.current_time()
    turn, session, server = await ask([says("Hello", done=False, usage=None).holding()])
    assert (turn.error, turn.text) == (None, "Hello")
    assert trio.current_time() - start < 6
    assert session.usage.unreported == 1
    assert server.asked[0].gone.is_set()


# Cuts.


@pytest.mark.parametrize("ending", ["end", "reset"])
@pytest.mark.parametrize("framing", ["to the end", "chunked"])
async def test_a_stream_cut_after_any_byte_is_ok_only_with_its_terminal_signal(
    ending: Any, framing: str, autojump_clock: MockClock
) -> None:
    whole = says("One ", "two ", "three", usage=(10, 3))
    if framing == "chunked":
        whole = whole.chunked()
    terminal = whole.raw.index(b'"finish_reason": "stop"')
    terminal = whole.raw.index(b"\n\n", terminal) + 2
    told = whole.raw.index(b"\n\n", whole.raw.index(b'"usage"')) + 2
    cuts = range(0, len(whole.raw) + 1, 1 if framing == "to the end" else 5)
    async with (
        open_model_server(lambda asked: whole.cut(int(asked.last), ending)) as server,
        # Without retries, because each would be cut at the same byte.
        open_model(settings(server.base_url), retries=0) as model,
    ):
        for cut in cuts:
            session = model.session(SCOUT)
            turn = await session.ask(str(cut), ignore)
            if cut >= terminal:
                assert (turn.error, turn.text) == (None, "One two three"), cut
                assert session.usage.input_tokens == (10 if cut >= told else 0), cut
                continue
            assert kind_of(turn) == "truncated", (cut, turn)
            assert "One two three".startswith(turn.text), cut
            said = [m for m in turn.messages if m.role == "assistant"]
            assert all(m.partial for m in said), cut
            assert "".join(m.text for m in said).strip() == turn.text, cut
            assert session.usage.requests == 1
    assert len(server.asked) == len(cuts)


async def test_a_cut_before_anything_was_said_is_asked_again(autojump_clock: MockClock) -> None:
    whole = says("Hello")
    turn, session, _ = await ask([whole.cut(40, "reset"), whole.cut(0, "end"), whole])
    assert (turn.error, turn.text) == (None, "Hello")
    assert session.usage.requests == 3


async def test_a_cut_after_something_was_said_is_not_asked_again() -> None:
    whole = says("One ", "two")
    cut = whole.raw.index(b"two")
    turn, _, server = await ask([whole.cut(cut, "reset")])
    assert kind_of(turn) == "truncated"
    assert turn.text == "One"
    assert len(server.asked) == 1


async def test_damaged_streams_never_pass_for_answers(autojump_clock: MockClock) -> None:
    whole = says("One ", "two")
    seeded = random.Random(48)

    def damage(asked: Asked) -> Answer:
        body = bytearray(b"".join(whole.events))
        for _ in range(seeded.randint(1, 6)):
            at = seeded.randrange(len(body))
            how = seeded.randrange(3)
            if how == 0:
                body[at] = seeded.randrange(256)
            elif how == 1:
                del body[at : at + seeded.randint(1, 40)]
            else:
                body[at:at] = body[at : at + seeded.randint(1, 40)]
        sent.append(bytes(body))
        return streams(bytes(body))

    sent: list[bytes] = []
    async with (
        open_model_server(damage) as server,
        open_model(settings(server.base_url), retries=0) as model,
    ):
        for _ in range(500):
            turn = await model.session(SCOUT).ask("go", ignore)
            if turn.error is None:
                assert b'"finish_reason": "stop"' in sent[-1]


# Being cut by us.


async def test_a_cancelled_turn_closes_its_connection_and_is_counted(
    autojump_clock: MockClock,
) -> None:
    answer = says("a", "b", "c", finish=None, done=False, seconds=1.0).holding()
    async with (
        open_model_server([answer]) as server,
        open_model(settings(server.base_url)) as model,
    ):
        session = model.session(SCOUT)
        with trio.move_on_after(3.5) as scope:
            await session.ask("go", ignore)
        assert scope.cancelled_caught
        with trio.fail_after(0.5):
            await server.asked[0].gone.wait()
        assert session.usage.output_tokens == 2
        assert (session.usage.requests, session.usage.unreported) == (1, 1)
        assert session.transcript()[-1] == ChatMessage("assistant", "ab", partial=True)
        assert not session.interrupt()


async def test_an_interrupted_turn_is_stopped_with_what_was_said(
    autojump_clock: MockClock,
) -> None:
    answers = [says("a", "b", "c", seconds=1.0), says("again")]
    async with (
        open_model_server(answers) as server,
        open_model(settings(server.base_url)) as model,
    ):
        session = model.session(SCOUT)
        turns: list[Turn] = []

        async def one() -> None:
            turns.append(await session.ask("go", ignore))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            await trio.sleep(3.5)
            assert session.interrupt()
        assert kind_of(turns[0]) == "stopped"
        assert turns[0].text == "ab"
        assert (await session.ask("more", ignore)).text == "again"


async def test_a_session_plays_one_turn_at_a_time(autojump_clock: MockClock) -> None:
    async with (
        open_model_server([says("a", seconds=1.0)]) as server,
        open_model(settings(server.base_url)) as model,
    ):
        session = model.session(SCOUT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "go", ignore)
            await trio.sleep(0.5)
            with pytest.raises(RuntimeError, match="one turn at a time"):
                await session.ask("too", ignore)


async def test_a_hundred_sessions_at_once_are_all_answered() -> None:
    async with (
        open_model_server(lambda asked: says(asked.last)) as server,
        open_model(settings(server.base_url)) as model,
    ):
        answers: dict[str, str] = {}

        async def one(text: str) -> None:
            answers[text] = (await model.session(SCOUT).ask(text, ignore)).text

        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(one, f"task {n}")
    assert answers == {text: text for text in answers}
    assert len(server.asked) == len(answers) == 100


async def test_a_server_that_answers_one_at_a_time_is_asked_so(autojump_clock: MockClock) -> None:
    async with (
        open_model_server(lambda asked: says(asked.last, seconds=1.0)) as server,
        open_model(settings(server.base_url, at_once=1)) as model,
    ):
        cut = trio.CancelScope()

        async def impatient() -> None:
            with cut:
                await model.session(SCOUT).ask("never", ignore)

        async with trio.open_nursery() as nursery:
            for n in range(3):
                nursery.start_soon(model.session(SCOUT).ask, f"task {n}", ignore)
            await wait_all_tasks_blocked()
            nursery.start_soon(impatient)
            await trio.sleep(0.5)
            cut.cancel()
    times = [asked.at for asked in server.asked]
    assert len(times) == 3
    assert all(later - earlier >= 5 for earlier, later in itertools.pairwise(times))


async def test_the_patience_of_an_agent_is_at_least_its_servers(autojump_clock: MockClock) -> None:
    agent = Agent("scout", "", idle_timeout=30.0)
    turn, _, _ = await ask(lambda _: SILENT, agent=agent, least_patience=600.0)
    assert "said nothing for 600 s" in str(turn.error)


# Answers that are data.


class Finding(msgspec.Struct):
    """What was found."""

    purpose: Annotated[str, msgspec.Meta(max_length=40)]
    names: list[str] = []


FINDER = Agent("finder", "Find.", schema=Finding)
GOOD = '{"purpose": "reads dates", "names": ["parse"]}'


async def test_an_answer_with_a_schema_is_data() -> None:
    turn, _, server = await ask([says(GOOD)], agent=FINDER)
    assert turn.error is None
    assert turn.value == Finding("reads dates", ["parse"])
    sent = server.asked[0].body["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"]) == ("Finding", True)
    assert sent["schema"]["required"] == ["purpose", "names"]
    assert sent["schema"]["additionalProperties"] is False


async def test_a_type_that_is_no_object_is_asked_for_inside_one() -> None:
    agent = Agent("lister", "", schema=list[Finding])
    turn, _, server = await ask([says(f'{{"value": [{GOOD}]}}')], agent=agent)
    assert turn.value == [Finding("reads dates", ["parse"])]
    assert server.asked[0].body["response_format"]["json_schema"]["schema"]["type"] == "object"


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("no JSON", id="no JSON"),
        pytest.param('{"names": []}', id="a field is missing"),
        pytest.param('{"purpose": 3}', id="a field of another type"),
        pytest.param('{"purpose": "' + "x" * 41 + '"}', id="too long"),
    ],
)
async def test_a_wrong_answer_is_corrected_once(bad: str) -> None:
    turn, session, server = await ask([says(bad), says(GOOD)], agent=FINDER)
    assert turn.value == Finding("reads dates", ["parse"])
    assert [m.role for m in turn.messages] == ["user", "assistant", "user", "assistant"]
    assert "does not fit the JSON schema" in server.asked[1].last
    assert session.usage.requests == 2
    assert session.usage.output_tokens == 10


async def test_who_answers_wrong_twice_has_failed() -> None:
    turn, _, server = await ask(lambda _: says("still no JSON"), agent=FINDER)
    assert kind_of(turn) == "schema"
    assert "Finding" in str(turn.error)
    assert turn.value is None
    assert len(server.asked) == 2


async def test_half_an_answer_with_a_schema_is_cut_short_and_not_corrected() -> None:
    turn, _, server = await ask([says('{"purpose": "re', finish="length")], agent=FINDER)
    assert kind_of(turn) == "truncated"
    assert len(server.asked) == 1


async def test_a_server_without_schemas_is_told_in_words() -> None:
    no_schemas = Capabilities(streaming=True)
    turn, _, server = await ask(
        [says(f"```json\n{GOOD}\n```")], agent=FINDER, capabilities=no_schemas
    )
    assert turn.value == Finding("reads dates", ["parse"])
    assert "response_format" not in server.asked[0].body
    assert '"purpose"' in server.asked[0].body["messages"][0]["content"]


async def test_a_server_that_turns_out_to_have_no_schemas_is_told_in_words() -> None:
    answers = [fails(400, "response_format is not supported"), says(GOOD)]
    turn, session, server = await ask(answers, agent=FINDER)
    assert turn.value is not None
    assert not session.capabilities.schema
    assert "response_format" not in server.asked[1].body


# Secrets.


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(fails(401, f"no such key: {CANARY}"), id="401"),
        pytest.param(fails(500, f"failed for {CANARY}"), id="500"),
        pytest.param(streams(sse({"error": {"message": f"odd {CANARY}"}})), id="in the stream"),
        pytest.param(says("Half").cut(300, "reset"), id="reset"),
    ],
)
async def test_the_key_is_in_no_error_event_repr_or_export(
    answer: Answer, autojump_clock: MockClock, tmp_path: Path
) -> None:
    events: list[SessionEvent] = []
    async with open_model_server(lambda _: answer) as server:
        asked = settings(f"http://{CANARY}:{CANARY}@127.0.0.1:{server.port}/v1?key={CANARY}")
        async with open_model(asked) as model:
            session = model.session(SCOUT)
            turn = await session.ask("go", events.append)
            path = session.export(tmp_path, "scout-1")
            shown = [repr(each) for each in (asked, model, session, turn, turn.error, events)]
    assert turn.error is not None
    cause: Any = turn.error.cause
    shown += [turn.error.message, repr(cause), str(cause)]
    shown += [path.read_text(), str(msgspec.json.encode(events), "utf-8")]
    assert not [text for text in shown if CANARY in text]
    assert server.asked


async def test_a_transcript_is_exported_whole(tmp_path: Path) -> None:
    _, session, _ = await ask([says("One"), says("Half", finish="length")], "first", "second")
    path = session.export(tmp_path / "new", "scout-1")
    lines = msgspec.json.Decoder(ChatMessage).decode_lines(path.read_bytes())
    assert tuple(lines) == session.transcript()
    assert [p.name for p in path.parent.iterdir()] == ["scout-1.jsonl"]


async def test_the_model_is_closed_also_when_cancelled() -> None:
    async with open_model_server(lambda asked: says(asked.last)) as server:
        model = ChatModel(settings(server.base_url))
        await model.session(SCOUT).ask("go", ignore)
        client = model.client
        with trio.CancelScope() as scope:
            scope.cancel()
            await model.close()
        await model.close()
    assert client.is_closed()
