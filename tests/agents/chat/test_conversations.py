"""A conversation is the same over every API: words, tools, steering, data, cuts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.result import Attachment, ChatMessage, ToolCall
from standby_actors.session import (
    Compacted,
    Memory,
    ModelCalled,
    Retrying,
    Steered,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from standby_actors.sessions.chat import open_chat_model
from standby_actors.subagent import reset_ids, spawn
from standby_actors.tools.approvals import ApprovalRequest
from standby_actors.tools.tool import ToolContext, tool
from tests.agents.chat.asking import on_every_api, settings, talking, until
from tests.support.model_server_agents import agent_server


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@tool
async def forever() -> str:
    """Take for ever."""
    await trio.sleep_forever()
    return "never"


@on_every_api
async def test_it_is_answered_piece_by_piece_and_counted(api: str) -> None:
    async with talking(api) as talk:
        turn = await talk.ask("hello there")
    assert turn.error is None
    assert turn.text == "echo: hello there ."
    assert "".join(event.text for event in talk.of(TextDelta)).strip() == turn.text
    usage = talk.session.usage
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (1, 100, 3)
    assert usage.context_tokens == 103
    (called,) = talk.of(ModelCalled)
    assert called.finish
    assert called.error is None
    assert called.usage.input_tokens == 100


@on_every_api
async def test_it_remembers_what_was_said(api: str) -> None:
    async with talking(api) as talk:
        await talk.ask("one")
        await talk.ask("two")
        sent = msgspec.json.encode(talk.server.seen[-1].body).decode()
    for said in ("one", "echo: one", "two"):
        assert said in sent


@on_every_api
async def test_a_tool_is_called_and_its_answer_goes_back(api: str) -> None:
    async with talking(api, tools=[double]) as talk:
        turn = await talk.ask('CALL:double:{"number": 21}')
    assert turn.error is None
    assert turn.text == "tool said: 42"
    assert [message.role for message in turn.messages] == ["user", "assistant", "tool", "assistant"]
    (started,), (ended,) = talk.of(ToolStarted), talk.of(ToolEnded)
    assert (started.call.name, ended.output, ended.is_error) == ("double", "42", False)
    assert talk.session.usage.tool_calls == 1
    assert talk.session.usage.requests == 2


@on_every_api
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('CALL:double:{"number": "x"}', "was not run"),
        ('CALL:triple:{"number": 2}', "There is no tool 'triple'"),
    ],
    ids=["wrong arguments", "unknown tool"],
)
async def test_a_call_that_cannot_be_run_is_answered_and_the_turn_goes_on(
    api: str, call: str, said: str
) -> None:
    async with talking(api, tools=[double]) as talk:
        turn = await talk.ask(call)
        assert turn.error is None
        (ended,) = talk.of(ToolEnded)
        assert ended.is_error
        assert said in ended.output
        # What is sent next is still taken.
        assert (await talk.ask("and now?")).text == "echo: and now? ."


@on_every_api
async def test_a_turn_makes_no_more_requests_than_its_agent_allows(api: str) -> None:
    agent = Agent("scout", "You are a scout.", max_requests=1)
    async with talking(api, agent, tools=[double]) as talk:
        turn = await talk.ask('CALL:double:{"number": 21}')
        assert turn.error is not None
        assert turn.error.kind == "runaway"
        assert "after 1 request, all that its agent allows" in turn.error.message
        # The tool was run, which is told; the next turn has requests of its own.
        assert [event.output for event in talk.of(ToolEnded)] == ["42"]
        assert (await talk.ask("and now?")).text == "echo: and now? ."
    assert talk.session.usage.requests == 2


@on_every_api
async def test_a_model_that_calls_a_tool_and_was_offered_none_has_failed(api: str) -> None:
    async with talking(api) as talk:
        turn = await talk.ask('CALL:double:{"number": 21}')
    assert turn.error is not None
    assert turn.error.kind == "protocol"


@on_every_api
async def test_an_agent_that_must_call_a_tool_has_failed_if_it_did_not(api: str) -> None:
    agent = Agent("scout", "", must_call_tool=True)
    async with talking(api, agent, tools=[double]) as talk:
        assert (await talk.ask('CALL:double:{"number": 21}')).error is None
        turn = await talk.ask("no call this time")
    assert turn.error is not None
    assert turn.error.kind == "no_tool"


@on_every_api
async def test_a_word_put_in_is_in_the_next_request_of_the_turn(api: str) -> None:
    sessions: list[Any] = []

    @tool
    def look() -> str:
        """Look around."""
        assert sessions[0].steer("rather say hello") == "queued"
        return "seen"

    async with talking(api, tools=[look]) as talk:
        sessions.append(talk.session)
        assert talk.session.steer("too early") == "idle"
        turn = await talk.ask("CALL:look:{}")
        assert turn.error is None
    assert [event.text for event in talk.of(Steered)] == ["rather say hello"]
    assert "rather say hello" in [message.text for message in turn.messages]
    assert "rather say hello" in msgspec.json.encode(talk.server.seen[-1].body).decode()


@on_every_api
async def test_a_follow_up_is_said_when_the_model_has_answered(api: str) -> None:
    async with talking(api) as talk:
        talk.at_next(TextDelta, lambda: talk.session.follow_up("and then?"))
        turn = await talk.ask("SLOW:5:0.05")
    assert turn.text == "echo: and then? ."
    assert [message.text for message in turn.messages if message.role == "user"] == [
        "SLOW:5:0.05",
        "and then?",
    ]


@on_every_api
async def test_an_interrupt_closes_the_connection_and_counts_what_came(api: str) -> None:
    async with talking(api) as talk:
        talk.at_next(TextDelta, talk.session.interrupt)
        turn = await talk.ask("SLOW:100:0.05")
        await until(lambda: talk.server.seen[0].cut)
        assert turn.error is not None
        assert turn.error.kind == "stopped"
        assert turn.text.startswith("w0")
        assert talk.session.usage.requests == 1
        # It is not shown to the model again.
        await talk.ask("and now?")
        assert "SLOW" not in msgspec.json.encode(talk.server.seen[-1].body).decode()


@on_every_api
async def test_a_tool_in_flight_is_cut_with_its_turn(api: str) -> None:
    async with talking(api, tools=[forever]) as talk:
        talk.at_next(ToolStarted, talk.session.interrupt)
        turn = await talk.ask("CALL:forever:{}")
        assert turn.error is not None
        assert turn.error.kind == "stopped"
        (ended,) = talk.of(ToolEnded)
        assert ended.is_error
        assert (await talk.ask("go on")).error is None


class Facts(msgspec.Struct):
    """What is to be found."""

    name: str
    count: int


@on_every_api
async def test_data_is_handed_in_by_a_tool(api: str) -> None:
    agent = Agent("scout", "Find it.", schema=Facts)
    async with talking(api, agent, tools=[double]) as talk:
        turn = await talk.ask('CALL:submit:{"name": "dates", "count": 3}')
        assert turn.error is None
        assert turn.value == Facts("dates", 3)
        assert msgspec.json.decode(turn.text) == {"name": "dates", "count": 3}
        # A turn that ends in prose is asked for it once, and has failed then.
        turn = await talk.ask("no data")
        assert turn.error is not None
        assert turn.error.kind == "schema"


@on_every_api
async def test_a_picture_goes_along(api: str) -> None:
    picture = Attachment("image/png", b"\x89PNG", "p.png")
    file = Attachment("application/pdf", b"%PDF-1", "f.pdf")
    async with talking(api) as talk:
        turn = await talk.ask("what is it?", picture, file)
        assert turn.error is None
        sent = msgspec.json.encode(talk.server.seen[-1].body).decode()
    assert "iVBORw==" in sent
    assert "JVBERi0x" in sent


@on_every_api
async def test_a_failing_server_fails_the_turn_and_no_secret_is_told(api: str) -> None:
    async with talking(api) as talk:
        for status, kind in (("500", "provider"), ("401", "provider"), ("429", "rate_limited")):
            turn = await talk.ask(f"ERR:{status}")
            assert turn.error is not None
            assert (status, turn.error.kind) == (status, kind)
            assert "canary" not in repr(turn)
        assert (await talk.ask("and now?")).error is None


@on_every_api
async def test_where_a_model_cannot_be_asked_the_next_one_is(api: str) -> None:
    async with agent_server() as server, open_chat_model(settings(server.url, api)) as spare:
        nobody = settings("http://127.0.0.1:9", api)
        async with open_chat_model(nobody, retries=0) as gone:
            heard: list[Any] = []
            session = gone.session(Agent("scout", ""), (), [spare])
            turn = await session.ask("hello", heard.append)
    assert turn.error is None
    assert turn.text == "echo: hello ."
    (told,) = [event for event in heard if isinstance(event, Retrying)]
    assert "is asked instead" in told.error.message


@on_every_api
async def test_a_model_that_fails_and_fails_is_left_alone_for_a_while(api: str) -> None:
    async with talking(api) as talk:
        for _ in range(5):
            await talk.ask("ERR:500")
        turn = await talk.ask("hello")
        assert turn.error is not None
        assert "not asked again for 10 s" in turn.error.message
        assert len(talk.server.seen) == 5


@on_every_api
async def test_older_turns_are_summed_up_and_the_latest_stay(api: str) -> None:
    async with talking(api, tools=[double]) as talk:
        for said in ("one", "two", 'CALL:double:{"number": 21}', "four"):
            await talk.ask(said)
        error = await talk.session.compact(talk.heard.append)
        assert error is None
        assert talk.of(Compacted) == [Compacted(103, None)]
        await talk.ask("five")
        sent = msgspec.json.encode(talk.server.seen[-1].body).decode()
        assert "What was said so far, in short" in sent
        # What calls and what answers stay together.
        assert "double" in sent
        assert "tool said: 42" in sent
        assert len(talk.session.shown) == 3
        texts = [message.text for message in talk.session.transcript()]
        assert "two" in texts


@on_every_api
async def test_a_summary_that_fails_changes_nothing(api: str) -> None:
    async with talking(api) as talk:
        assert await talk.session.compact(talk.heard.append) is not None
        for said in ("one", "two ERR:500", "three", "four", "five"):
            await talk.ask(said)
        shown = len(talk.session.shown)
        talk.model.breaker.failures = 1
        talk.model.breaker.failed(trio.current_time())
        assert await talk.session.compact(talk.heard.append) is not None
        assert len(talk.session.shown) == shown


@on_every_api
async def test_it_begins_with_what_it_is_given_to_remember(api: str) -> None:
    memory = Memory(
        (
            ChatMessage("user", "find it"),
            ChatMessage("assistant", "", calls=(ToolCall("c", "grep", "{}"),)),
            ChatMessage("tool", "found", call="c"),
            ChatMessage("assistant", "it is in dates.py"),
        )
    )
    async with talking(api) as talk:
        talk.session.recall(memory)
        turn = await talk.ask("where?")
        assert turn.error is None
        sent = msgspec.json.encode(talk.server.seen[-1].body).decode()
    assert "it is in dates.py" in sent
    # It has no such tool, so that is told in words.
    assert "grep {}\\nfound" in sent


@on_every_api
async def test_a_rate_is_kept_by_all_sessions_of_a_model(api: str) -> None:
    async with talking(api, requests_per_minute=2) as talk:
        other = talk.model.session(Agent("other", ""))
        assert (await talk.ask("one")).error is None
        assert (await other.ask("two", talk.heard.append)).error is None
        with trio.move_on_after(0.5):
            await talk.ask("three")
        assert len(talk.server.seen) == 2


@on_every_api
async def test_a_tool_and_whoever_approves_hear_whose_call_it_is(api: str) -> None:
    heard: list[str] = []

    async def approve(request: ApprovalRequest) -> str:
        heard.append(request.subagent)
        return "allow_once"

    @tool(approval="ask")
    def look(context: ToolContext) -> str:
        """Look around."""
        heard.append(context.subagent)
        return "seen"

    reset_ids()
    agent = Agent("scout", "", tools=[look], approve=approve)
    async with talking(api) as talk, spawn(agent, model=talk.model) as scout:
        result = await scout.ask("CALL:look:{}")
    assert result.ok, result.error
    assert heard == ["scout#1", "scout#1"]
