"""Our agents as an MCP server: in memory, and as the command `standby mcp`."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import mcp
import pytest
import trio
from mcp.client.stdio import stdio_client

from standby.cli import call as command
from standby_actors.agent import Agent
from standby_actors.tools.mcp_serving import agent_server
from tests.support.model_server import SILENT, Answer, Asked, open_model_server, says
from tests.support.model_server_agents import agent_server as model_server


async def shout(task: str) -> str:
    """Answer loudly."""
    return task.upper()


async def fail(task: str) -> str:
    raise ValueError("it cannot be")


SHOUTER = Agent("shouter", shout, description="Says it louder.")


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


async def test_each_agent_is_a_tool_that_takes_a_task() -> None:
    async with mcp.Client(agent_server([SHOUTER, Agent("b ad", fail)])) as client:
        tools = (await client.list_tools()).tools
        assert [(each.name, each.description) for each in tools] == [
            ("shouter", "Says it louder."),
            ("b_ad", "b ad"),
        ]
        assert tools[0].input_schema["required"] == ["task"]
        answered = await client.call_tool("shouter", {"task": "hello"})
        assert (text_of(answered), answered.is_error) == ("HELLO", False)
        failed = await client.call_tool("b_ad", {"task": "x"})
        assert failed.is_error
        assert text_of(failed) == "crashed: ValueError: it cannot be"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        pytest.param("shooter", {"task": "x"}, "There is no agent 'shooter'", id="no agent"),
        pytest.param("shouter", {}, "`task` is missing", id="no task"),
        pytest.param("shouter", {"task": 5}, "`task` must be a string", id="a wrong task"),
    ],
)
async def test_a_wrong_call_begins_nothing(name: str, arguments: dict[str, Any], says: str) -> None:
    async with mcp.Client(agent_server([SHOUTER])) as client:
        result = await client.call_tool(name, arguments)
        assert result.is_error
        assert says in text_of(result)


async def test_an_agent_that_cannot_be_asked_is_an_error_of_its_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    scout = Agent("scout", "Look.", model="openai/gpt-5-mini")
    async with mcp.Client(agent_server([scout, SHOUTER])) as client:
        result = await client.call_tool("scout", {"task": "x"})
        assert result.is_error
        assert "scout could not be asked" in text_of(result)
        assert text_of(await client.call_tool("shouter", {"task": "still"})) == "STILL"


async def test_a_cancelled_call_cuts_the_turn() -> None:
    begun, ended = trio.Event(), trio.Event()

    async def hang(task: str) -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return ""

    async with mcp.Client(agent_server([Agent("hanger", hang), SHOUTER])) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "hanger", {"task": "x"})
            await begun.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(10):
            await ended.wait()
        assert text_of(await client.call_tool("shouter", {"task": "on"})) == "ON"


async def test_no_more_turns_than_the_bound_are_played_at_once() -> None:
    running = most = 0

    async def work(task: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        running -= 1
        return "done"

    server = agent_server([Agent("worker", work)], at_once=2)
    async with mcp.Client(server) as client, trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(client.call_tool, "worker", {"task": str(n)})
    assert most == 2


def test_two_agents_that_would_be_one_tool_are_refused() -> None:
    with pytest.raises(ValueError, match="would both be 'a_b'"):
        agent_server([Agent("a b", shout), Agent("a.b", shout)])


# ---- the command

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HEARD = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"task": "wait"}},
}


def standby_mcp(project: Path, base_url: str) -> dict[str, Any]:
    """How another program starts `standby mcp`."""
    agents = project / "agents"
    agents.mkdir()
    (agents / "echo.md").write_text(
        "---\nname: echo\ndescription: Says it again.\n"
        "model: openai/stub\ntools: []\n---\nRepeat.\n"
    )
    code = "import sys; from standby.cli import call; sys.exit(call(sys.argv[1:]))"
    args = ["-c", code, "mcp", "echo", "--in", str(project), "--scope", "project"]
    env = {"OPENAI_API_KEY": "sk-canary-0123456789", "OPENAI_BASE_URL": base_url}
    return {"command": sys.executable, "args": [*args], "env": env}


@pytest.mark.real
async def test_the_command_is_driven_by_the_real_client(tmp_path: Path) -> None:
    silent = trio.Event()
    gone: list[Asked] = []

    def script(asked: Asked) -> Answer:
        if "wait" in asked.last:
            gone.append(asked)
            silent.set()
            return SILENT
        return says("you said: ", asked.last)

    async with open_model_server(script) as model:
        held = standby_mcp(tmp_path, model.base_url)
        with (tmp_path / "errors").open("w") as errors:
            server = mcp.StdioServerParameters(**held)
            async with mcp.Client(stdio_client(server, errlog=errors)) as client:
                [offered] = (await client.list_tools()).tools
                assert (offered.name, offered.description) == ("echo", "Says it again.")

                heard: list[str] = []

                async def hear(progress: float, total: float | None, message: str | None) -> None:
                    heard.append(message or "")

                answered = await client.call_tool("echo", {"task": "hello"}, progress_callback=hear)
                assert text_of(answered).startswith("you said: hello")
                assert heard == ["echo#1 writes"]

                # A call that is cancelled closes the connection to the model.
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(client.call_tool, "echo", {"task": "wait"})
                    await silent.wait()
                    nursery.cancel_scope.cancel()
                with trio.fail_after(20):
                    await gone[0].gone.wait()
                again = await client.call_tool("echo", {"task": "again"})
                assert text_of(again).startswith("you said: again")
        said = (tmp_path / "errors").read_text()
    assert "serving echo" in said
    assert "canary" not in said


async def test_one_that_is_served_hands_over_to_one_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "model: openai/stub\ntools: []\n"
    (tmp_path / "agents").mkdir()
    for name, more in (("desk", "handoffs: [clerk]\n"), ("clerk", "")):
        text = f"---\nname: {name}\ndescription: It.\n{head}{more}---\nDo it."
        (tmp_path / "agents" / f"{name}.md").write_text(text)
    served: list[Any] = []
    monkeypatch.setattr(
        importlib.import_module("standby.cli.mcp"), "run", lambda _, server: served.append(server)
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    async with model_server() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{stub.url}/v1")
        assert command(["mcp", "desk", "--in", str(tmp_path), "--scope", "project"]) == 0
        async with mcp.Client(served[0]) as client:
            assert [each.name for each in (await client.list_tools()).tools] == ["desk"]
            task = 'CALL:handoff_to_clerk:{"message": "SLOW:2:0"}'
            answered = await client.call_tool("desk", {"task": task})
    assert (text_of(answered), answered.is_error) == ("w0 w1", False)


@pytest.mark.real
async def test_a_server_that_is_told_to_end_cuts_what_it_has_at_work_and_is_gone(
    tmp_path: Path,
) -> None:
    silent = trio.Event()
    asked: list[Asked] = []

    def script(question: Asked) -> Answer:
        asked.append(question)
        silent.set()
        return SILENT

    async with open_model_server(script) as model:
        held = standby_mcp(tmp_path, model.base_url)
        server: Any
        async with trio.open_nursery() as nursery:
            server = await nursery.start(
                partial(
                    trio.run_process,
                    [held["command"], *held["args"]],
                    env={**os.environ, **held["env"]},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                )
            )
            for line in (HELLO, HEARD, CALL):
                await server.stdin.send_all(json.dumps(line).encode() + b"\n")
            with trio.fail_after(60):
                await silent.wait()
                server.send_signal(signal.SIGTERM)
                # Its stdin is open still, which it does not wait for.
                assert await server.wait() == 143
                await asked[0].gone.wait()
            said = b"".join([piece async for piece in server.stderr]).decode()
            await server.stdin.aclose()
    assert said.splitlines() == ["standby: serving echo", "standby: ended by SIGTERM"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        pytest.param(["--in", "/nowhere/at/all"], 2, "there is no folder", id="no folder"),
        pytest.param(["--at-once", "0"], 2, "1 or more", id="no turn at a time"),
        pytest.param(["scoot"], 1, "scoot", id="an unknown agent"),
    ],
)
def test_what_cannot_be_served_is_said(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["mcp", *arguments]) == code
    out, err = capsys.readouterr()
    assert says in err
    assert out == ""
