"""Real coding agents from npm, against a model server of ours: what they do, and what is left."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.session import Memory, ToolEnded
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.stdio import StdioSession
from tests.support.clis import EVERY_TIME, each_of
from tests.support.coding_agents import KINDS, PROMPT, SLOW, Heard, Kind, converse, settings
from tests.support.model_server_agents import AgentServer, agent_server
from tests.support.trees import host, new_spot, spotted, wait_until_gone

pytestmark = pytest.mark.clis

AGENT = Agent("scout", PROMPT, approve="allow")


@pytest.fixture(params=each_of(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


# One takes seconds to start, and shows the same in the other tests.
quick_to_start = pytest.mark.parametrize(
    "kind", each_of(name for name in KINDS if name != "opencode"), indirect=True
)


@asynccontextmanager
async def opened(
    kind: Kind, server: AgentServer, home: Path, spot: str, agent: Agent = AGENT, **more: Any
) -> AsyncGenerator[StdioSession]:
    model = None if kind.opens is open_acp else "stub/stub"
    named = Agent(agent.name, agent.mind, model=model, approve=agent.approve)
    async with kind.opens(named, **settings(kind, server.url, home, spot), **more) as session:
        yield session


async def test_a_conversation(kind: Kind, tmp_path: Path) -> None:
    spot = new_spot()
    async with agent_server() as server:
        async with opened(kind, server, tmp_path, spot) as session:
            said = await converse(kind, session)
        turns = [turn for turn, _ in said]
        assert [turn.error and turn.error.kind for turn in turns] == [
            None,
            None,
            None,
            None,
            "stopped",
            "provider",
            None,
        ]
        assert "hello" in turns[0].text
        assert "from the tool" in turns[1].text
        assert any(message.text == "put in" for message in turns[2].messages)
        assert "and then" in turns[3].text
        assert turns[4].text.startswith("w0 ")
        assert "400" in str(turns[5].error)
        assert "last" in turns[6].text
        ended = [
            event for _, heard in said for event in heard.events if isinstance(event, ToolEnded)
        ]
        assert len(ended) == 2
        if "output" not in kind.silent_on:
            assert "from the tool" in ended[0].output
        # Of every answer that was given whole, all is counted, once.  Where it is
        # the program that counts, one that was cut may be missing.
        talk = [seen for seen in server.seen if not seen.aside]
        whole = sum(1 for seen in talk if not seen.cut and seen.plan.status == 200)
        if "usage" in kind.silent_on:
            assert session.usage.unreported == session.usage.requests
        else:
            missing = 2 + ("earlier" in kind.silent_on)
            assert session.usage.input_tokens >= 100 * (whole - missing)
            assert session.usage.input_tokens <= 100 * len(talk)
        if "level" not in kind.silent_on:
            assert session.usage.context_tokens in range(100, 110)
            assert session.capabilities.context_tokens is not None
        # The word was read by the model.
        assert any("put in" in str(seen.body) for seen in server.seen)
    assert spotted(spot) == []


@quick_to_start
async def test_it_goes_on_where_another_left(kind: Kind, tmp_path: Path) -> None:
    spot = new_spot()
    async with agent_server() as server:
        async with opened(kind, server, tmp_path, spot) as session:
            await session.ask("remember the heron", Heard(session))
            memory = Memory(session.transcript(), resume=session.resume_id)
        assert memory.resume
        async with opened(kind, server, tmp_path, spot, memory=memory) as session:
            turn = await session.ask("what was it", Heard(session))
        assert turn.error is None
        assert "remember the heron" in str(server.seen[-1].body)
    assert spotted(spot) == []


async def test_a_cancelled_turn_closes_its_request_and_the_next_is_answered(
    kind: Kind, tmp_path: Path
) -> None:
    spot = new_spot()
    async with agent_server() as server, opened(kind, server, tmp_path, spot) as session:
        await session.ask("hello", Heard(session))
        with trio.CancelScope() as scope:
            cancelled = Heard(session, at_text=lambda _: scope.cancel())
            await session.ask(SLOW, cancelled)
        assert scope.cancelled_caught
        (slow,) = [seen for seen in server.seen if seen.plan.seconds]
        with trio.fail_after(5):
            await slow.over.wait()
        assert slow.cut
        assert session.transcript()[-1].partial
        turn = await session.ask("and now", Heard(session))
        assert turn.error is None
        assert "and now" in turn.text
    assert spotted(spot) == []


async def test_one_that_is_killed_ends_its_turn_and_its_tools_and_is_gone_on_from(
    kind: Kind, tmp_path: Path
) -> None:
    spot = new_spot()
    async with agent_server() as server:
        async with opened(kind, server, tmp_path, spot) as session:
            await session.ask("remember the heron", Heard(session))
            pid = session.pid
            assert pid is not None

            def kill(_: StdioSession) -> None:
                os.kill(pid, signal.SIGKILL)

            turn = await session.ask(kind.call("sleep 600"), Heard(session, at_tool=kill))
            assert turn.dead
            assert turn.error is not None
            assert turn.error.kind == "crash"
            assert "SIGKILL" in turn.error.message
            await trio.to_thread.run_sync(wait_until_gone, spot, 5.0)
            # What it had told is counted: of the whole answer, and of the one with the call,
            # of which some tell when the call is answered, or when the prompt is.
            told_at_once = kind.name in ("pi", "claude")
            if "usage" not in kind.silent_on:
                assert session.usage.input_tokens >= 100 * (1 + told_at_once)
            assert session.usage.requests == 2
            # The call that was cut has an answer, so that the history can be sent.
            assert turn.messages[-1].role == "tool"
            after = await session.ask("anybody there", Heard(session))
            assert after.error is not None
            assert after.error.kind == "dead"
            memory = Memory(session.transcript(), resume=session.resume_id)
        async with opened(kind, server, tmp_path, spot, memory=memory) as session:
            # One that lost its conversation is told of it: of the call too, which
            # the stub must not take for a new one.
            turn = await session.ask("what was it SLOW:1", Heard(session))
            assert turn.error is None
        assert "remember the heron" in str(server.seen[-1].body)
    assert spotted(spot) == []


HOST = """
import trio
from standby_actors.agent import Agent
from standby_actors.session import ToolStarted
from standby_actors.sessions.acp import open_acp
from tests.support.coding_agents import KINDS

async def main():
    kind = KINDS[{name!r}]
    model = None if kind.opens is open_acp else "stub/stub"
    agent = Agent("scout", "Be short.", model=model, approve="allow")
    def hear(event):
        if isinstance(event, ToolStarted):
            print("at work")
    async with kind.opens(agent, **{how!r}) as session:
        await session.ask({task!r}, hear)

trio.run(main)
"""


async def test_nothing_is_left_of_it_and_its_tools_when_we_are_killed(
    kind: Kind, tmp_path: Path
) -> None:
    spot = new_spot()
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        source = textwrap.dedent(HOST).format(name=kind.name, how=how, task=kind.call("sleep 600"))
        with host(source) as process:
            assert process.stdout is not None
            assert await trio.to_thread.run_sync(process.stdout.readline) == "at work\n"
            # The program, its helpers, the shell and the sleep.
            assert len(spotted(spot)) >= 2
            process.kill()
            took = await trio.to_thread.run_sync(wait_until_gone, spot, 5.0)
    print(f"{kind.name}: all gone {took:.2f} s after the kill of the host")


async def test_what_it_asks_for_is_refused_where_nobody_allows_it(
    kind: Kind, tmp_path: Path
) -> None:
    if kind.name == "pi":
        # It has no such questions: what it may use is said by its tools.
        await refuses_by_tools(kind, tmp_path)
        return
    spot = new_spot()
    wary = Agent("scout", PROMPT)
    more = {"ask_for": "untrusted"} if kind.name == "codex" else {}
    async with (
        agent_server() as server,
        opened(kind, server, tmp_path, spot, wary, **more) as session,
    ):
        heard = Heard(session)
        turn = await session.ask(kind.call(f"touch {tmp_path}/made"), heard)
        # One of them ends its turn with a refusal; the others are told, and go on.
        refused = None if kind.name != "codex-acp" else "refused"
        assert (turn.error and turn.error.kind) == refused
    (ended,) = [event for event in heard.events if isinstance(event, ToolEnded)]
    assert ended.is_error
    assert not (tmp_path / "made").exists()
    assert spotted(spot) == []


async def refuses_by_tools(kind: Kind, home: Path) -> None:
    spot = new_spot()
    agent = Agent("scout", PROMPT, model="stub/stub", tools=("read",))
    async with agent_server() as server:
        how = settings(kind, server.url, home, spot)
        async with kind.opens(agent, **how) as session:
            await session.ask(kind.call(f"touch {home}/made"), Heard(session))
        names = [tool["function"]["name"] for tool in server.seen[0].body["tools"]]
    assert names == ["read"]
    assert not (home / "made").exists()


async def test_all_of_them_idle_for_half_a_minute_and_answer(tmp_path: Path) -> None:
    spot = new_spot()
    async with agent_server() as server, trio.open_nursery() as nursery:

        async def idle(kind: Kind) -> None:
            home = tmp_path / kind.name
            await trio.Path(home).mkdir()
            async with opened(kind, server, home, spot) as session:
                await session.ask("hello", Heard(session))
                pid = session.pid
                await trio.sleep(30)
                turn = await session.ask("still there", Heard(session))
                assert turn.error is None, kind.name
                assert session.pid == pid

        for name in EVERY_TIME:
            nursery.start_soon(idle, KINDS[name])
    assert spotted(spot) == []


@quick_to_start
async def test_it_is_told_no_secret_that_was_not_named(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "canary-0123456789"
    monkeypatch.setenv("MY_SERVICE_TOKEN", canary)
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    spot = new_spot()
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        how["env"] = {**os.environ, "HOME": str(tmp_path)}
        agent = Agent("scout", PROMPT, approve="allow", model=None)
        async with kind.opens(agent, **how) as session:
            turn = await session.ask(kind.call("env"), Heard(session))
        assert turn.error is None
        told = str(server.seen[-1].body)
        assert "PATH=" in told
        assert canary not in " ".join(message.text for message in turn.messages)
        assert canary not in "".join(str(seen.body) for seen in server.seen)
    assert canary not in repr(session)
