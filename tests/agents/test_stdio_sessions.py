"""What a session over stdio promises, whatever the agent behind it: shown with one of ACP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.process import Frame
from standby_actors.result import Attachment, ChatMessage
from standby_actors.session import Memory
from standby_actors.sessions.acp import AcpSession, open_acp
from standby_actors.sessions.pi import open_pi
from standby_actors.sessions.stdio import StartFailed
from standby_actors.sessions.wire import Timing
from standby_actors.tools.approvals import ApprovalRequest, Approvals, Choice
from tests.support.coding_agents import Heard, recorded
from tests.support.fake_program import FakeProgram

Record = tuple[str, Frame]


def hello(resume: bool = True, started: str = "session/new", first: int = 1) -> list[Record]:
    """How a program begins; its first answers are to requests `first` and the next."""
    can: Frame = {"sessionCapabilities": {"resume": {}}} if resume else {}
    told = {"protocolVersion": 1, "agentCapabilities": can, "agentInfo": {"name": "fake"}}
    return [
        (">", {"method": "initialize"}),
        ("<", {"id": first, "result": told}),
        (">", {"method": started}),
        ("<", {"id": first + 1, "result": {"sessionId": "s"}}),
    ]


def update(**fields: Any) -> Record:
    return "<", {"method": "session/update", "params": {"sessionId": "s", "update": fields}}


def says(text: str) -> Record:
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def prompted() -> Record:
    return ">", {"method": "session/prompt"}


def ends(number: int, reason: str = "end_turn", **more: Any) -> Record:
    return "<", {"id": number, "result": {"stopReason": reason, **more}}


def works() -> Record:
    arguments = {"command": "rm -r build"}
    return update(sessionUpdate="tool_call", toolCallId="c", kind="execute", rawInput=arguments)


def asks() -> Record:
    kinds = ("allow_always", "allow_once", "reject_once")
    options = [{"kind": kind, "optionId": kind.upper(), "name": kind} for kind in kinds]
    params = {"sessionId": "s", "options": options, "toolCall": {"toolCallId": "c"}}
    return "<", {"id": 77, "method": "session/request_permission", "params": params}


ANSWERED: Record = (">", {"id": 77, "result": {}})
WORKED = update(sessionUpdate="tool_call_update", toolCallId="c", status="completed")
TURN_THAT_ASKS = [*hello(), prompted(), works(), asks(), ANSWERED, WORKED, says("done"), ends(3)]


@asynccontextmanager
async def opened(
    records: Sequence[Record], agent: Agent | None = None, **more: Any
) -> AsyncGenerator[tuple[AcpSession, FakeProgram]]:
    program = FakeProgram(
        records, **{k: more.pop(k) for k in ("deaf", "fate", "frames") if k in more}
    )
    agent = agent or Agent("scout", "")
    opens = open_acp(agent, command=["fake"], cwd="/", env={}, run=program.run, **more)
    async with opens as session:
        assert isinstance(session, AcpSession)
        yield session, program


def chosen(program: FakeProgram) -> str:
    (answer,) = [frame for frame in program.sent if frame.get("id") == 77]
    return str(answer["result"]["outcome"]["optionId"])


async def test_what_nobody_allows_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with opened(TURN_THAT_ASKS) as (session, program):
        turn = await session.ask("clean up", Heard(session))
    assert turn.text == "done"
    assert chosen(program) == "REJECT_ONCE"


async def test_a_person_may_think_longer_than_a_program_may_be_silent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked: list[ApprovalRequest] = []

    async def person(request: ApprovalRequest) -> Choice:
        asked.append(request)
        await trio.sleep(500)
        return "allow_once"

    agent = Agent("scout", "", approve=person, idle_timeout=60)
    async with opened(TURN_THAT_ASKS, agent) as (session, program):
        turn = await session.ask("clean up", Heard(session))
    assert turn.error is None
    assert chosen(program) == "ALLOW_ONCE"
    assert asked[0].tool == "execute"
    assert asked[0].arguments == '{"command":"rm -r build"}'


@pytest.mark.parametrize("how", ["interrupted", "cancelled"])
async def test_a_turn_that_is_cut_takes_its_questions_with_it(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    approvals = Approvals()
    cancelled = [("<", {"id": 3, "result": {"stopReason": "cancelled"}})]
    records = [
        *hello(),
        prompted(),
        works(),
        asks(),
        (">", {"method": "session/cancel"}),
        *cancelled,
    ]
    async with opened(records, Agent("scout", "", approve=approvals)) as (session, program):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "clean up", Heard(session))
            await trio.testing.wait_all_tasks_blocked()
            assert len(approvals.pending) == 1
            if how == "interrupted":
                session.interrupt()
            else:
                nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(approvals.pending) == 0
    assert chosen(program) == "REJECT_ONCE"
    # The call has an answer, so that the history can be sent.
    assert session.transcript()[-1] == ChatMessage(
        "tool", "cut: the turn ended before the tool did", call="c", is_error=True
    )


async def test_whoever_approves_and_fails_is_heard_where_it_was_asked(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def broken(request: ApprovalRequest) -> Choice:
        raise ZeroDivisionError

    cancelled: list[Record] = [(">", {"method": "session/cancel"}), ends(3, "cancelled")]
    records = [*hello(), prompted(), works(), asks(), *cancelled, prompted(), says("on"), ends(4)]
    async with opened(records, Agent("scout", "", approve=broken)) as (session, program):
        with pytest.raises(ZeroDivisionError):
            await session.ask("clean up", Heard(session))
        turn = await session.ask("go on", Heard(session))
    assert turn.text == "on"
    assert chosen(program) == "REJECT_ONCE"


async def test_a_silent_end_is_not_an_answer(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*hello(), prompted(), ends(3)]) as (session, _):
        turn = await session.ask("hello", Heard(session))
    assert turn.error is not None
    assert turn.error.kind == "provider"


async def test_an_answer_that_ends_another_prompt_is_not_taken_for_this_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Seen in the wild: after a cancelled prompt every answer came one prompt late."""
    records = [
        *hello(),
        prompted(),
        says("one"),
        (">", {"method": "session/cancel"}),
        ends(3, "cancelled"),
        prompted(),
        ends(4, usage={"inputTokens": 0, "outputTokens": 0}),
        # It is replaced, and asked the same again.
        *hello(started="session/resume", first=5),
        prompted(),
        says("two"),
        ends(7),
    ]
    async with opened(records) as (session, program):
        heard = Heard(session, at_text=lambda s: s.interrupt())
        first = await session.ask("first", heard)
        second = await session.ask("second", Heard(session))
    assert first.error is not None
    assert first.error.kind == "stopped"
    assert (second.text, second.error) == ("two", None)
    assert [message.text for message in second.messages] == ["second", "two"]
    assert program.lives == 2
    assert program.surprises == []


async def test_one_that_keeps_no_conversations_is_not_replaced_by_one_that_forgot(
    autojump_clock: trio.testing.MockClock,
) -> None:
    records = [*hello(resume=False), prompted(), says("one"), ends(3), prompted(), *hello()]
    async with opened(records) as (session, program):
        await session.ask("first", Heard(session))
        silent = await session.ask("second", Heard(session))
        after = await session.ask("third", Heard(session))
    assert silent.error is not None
    assert silent.error.kind == "idle_timeout"
    assert silent.dead
    assert after.error is not None
    assert after.error.kind == "dead"
    assert "keeps no conversations" in after.error.message
    assert program.lives == 1


async def test_one_that_was_silent_is_replaced_and_goes_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    again = hello(started="session/resume", first=5)
    records = [*hello(), prompted(), says("one"), ends(3), prompted(), *again]
    records += [prompted(), says("three"), ends(7)]
    async with opened(records) as (session, program):
        await session.ask("first", Heard(session))
        silent = await session.ask("second", Heard(session))
        assert silent.error is not None
        assert silent.error.kind == "idle_timeout"
        assert not silent.dead
        third = await session.ask("third", Heard(session))
    assert third.text == "three"
    assert program.lives == 2


async def test_a_tool_at_work_may_be_silent_for_longer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened([*hello(), prompted(), works()]) as (session, _):
        began = trio.current_time()
        turn = await session.ask("build", Heard(session))
        assert trio.current_time() - began == pytest.approx(session.timing.tool)
    assert turn.error is not None
    assert turn.error.kind == "idle_timeout"


async def test_every_request_has_its_limit(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(StartFailed, match="not answer 'session/new' within 5 s"):
        async with opened(hello()[:2], timing=Timing(request=5)):
            raise AssertionError


async def test_data_that_cannot_be_read_is_asked_for_once_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    agent = Agent("scout", "", schema=list[int])
    records = [*hello(), prompted(), says("one, two"), ends(3)]
    records += [prompted(), says('{"value": [1, 2]}'), ends(4)]
    async with opened(records, agent) as (session, _):
        turn = await session.ask("count", Heard(session))
    assert turn.error is None
    assert turn.value == [1, 2]
    records[-2] = says("three")
    async with opened(records, agent) as (session, _):
        turn = await session.ask("count", Heard(session))
    assert turn.error is not None
    assert turn.error.kind == "schema"


async def test_what_was_said_before_is_told_before_the_first_task_and_not_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    memory = Memory((ChatMessage("user", "the heron"), ChatMessage("assistant", "noted")))
    records = [*hello(), prompted(), says("a"), ends(3), prompted(), says("b"), ends(4)]
    agent = Agent("scout", "Be short.")
    async with opened(records, agent, memory=memory) as (session, program):
        first = await session.ask("what was it", Heard(session))
        await session.ask("and then", Heard(session))
    prompts = [f["params"]["prompt"][0]["text"] for f in program.sent if "prompt" in str(f)]
    assert prompts[0].startswith("Be short.\n\n")
    assert "user: the heron\nassistant: noted" in prompts[0]
    assert prompts[0].endswith("what was it")
    assert prompts[1] == "and then"
    assert first.messages[0].text == "what was it"


async def test_one_that_has_lost_its_conversation_is_told_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    lost = {"code": -32603, "message": "Internal error", "data": {"details": "none found"}}
    begun = hello(started="session/resume")[:3]
    records = [*begun, ("<", {"id": 2, "error": lost}), *hello(first=3)]
    records += [prompted(), says("a heron"), ends(5)]
    said = (ChatMessage("user", "remember the heron"), ChatMessage("assistant", "noted"))
    async with opened(records, memory=Memory(said, resume="old")) as (session, program):
        turn = await session.ask("what was it", Heard(session))
    assert turn.text == "a heron"
    assert session.resume_id == "s"
    (prompt,) = [f["params"]["prompt"][0]["text"] for f in program.sent if "prompt" in str(f)]
    assert "user: remember the heron" in prompt
    # It was not said in this session's own life.
    assert session.transcript()[0].text == "what was it"
    with pytest.raises(StartFailed, match="none found"):
        async with opened(records, memory=Memory(resume="old")):
            raise AssertionError


async def test_pictures_go_where_they_are_taken_and_are_refused_where_not(
    autojump_clock: trio.testing.MockClock,
) -> None:
    picture = Attachment("image/png", b"png")
    async with opened([*hello(), prompted(), says("a"), ends(3)]) as (session, _):
        turn = await session.ask("look", Heard(session), (picture,))
        assert turn.error is not None
        assert turn.error.kind == "refused"
        session.observe(images=True)
        turn = await session.ask("look", Heard(session), (picture,))
        assert turn.error is None


async def test_tools_of_ours_cannot_be_given(autojump_clock: trio.testing.MockClock) -> None:
    def lookup(word: str) -> str:
        return word

    program = FakeProgram(recorded("pi"))
    with pytest.raises(ValueError, match="its own tools, by name"):
        async with open_pi(
            Agent("scout", "", tools=(lookup,)), command=["fake"], run=program.run, env={}
        ):
            raise AssertionError
    assert program.lives == 0


async def test_its_error_quotes_no_secret(autojump_clock: trio.testing.MockClock) -> None:
    canary = "canary-0123456789"
    error = {"code": -32603, "message": f"401: bad key {canary}"}
    records = [*hello(), prompted(), ("<", {"id": 3, "error": error})]
    async with opened(records, set_env={"MY_API_KEY": canary}) as (session, _):
        turn = await session.ask("hello", Heard(session))
    assert turn.error is not None
    assert canary not in turn.error.message
    assert "[secret]" in turn.error.message
    assert canary not in repr(session)
