"""MCP servers as tools: real programs and a real address, good ones and rude ones."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from standby.testing import Baseline
from standby_actors.agent import Agent, McpServer
from standby_actors.result import ToolCall
from standby_actors.tools.calls import CallHistory, run_calls
from standby_actors.tools.mcp_client import (
    McpConnection,
    McpStartFailed,
    NoMcp,
    open_mcp_servers,
    open_mcp_tools,
    tool_name,
)
from standby_actors.tools.mcp_config import BadMcpConfig, read_servers
from standby_actors.tools.tool import ToolOutput
from standby_actors.tools.toolbox import tools_of
from tests.actors.tools.calling import call

HERE = Path(__file__).parent
CANARY = "s3cr3t-canary-0123"


def rude(mode: str = "", **options: Any) -> McpServer:
    return McpServer(
        "rude", command=sys.executable, args=("-S", str(HERE / "rude_server.py"), mode), **options
    )


def good() -> McpServer:
    return McpServer("good", command=sys.executable, args=(str(HERE / "mcp_server.py"),))


async def use(connection: McpConnection, name: str, /, **arguments: Any) -> ToolOutput:
    """One call of a server's tool."""
    calls = [call(tool_name(connection.name, name), **arguments)]
    answers = await run_calls(calls, connection.tools, CallHistory())
    return answers.answered[0].output


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def begin_and_cut(connection: McpConnection) -> list[str]:
    """Call `wait`, cut it when it says that it waits; what was heard of it."""
    heard: list[str] = []
    begun = trio.Event()

    def hear(_: ToolCall, text: str) -> None:
        heard.append(text)
        begun.set()

    async def wait() -> None:
        calls = [call(tool_name(connection.name, "wait"))]
        await run_calls(calls, connection.tools, CallHistory(), on_progress=hear)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await begun.wait()
        nursery.cancel_scope.cancel()
    return heard


@pytest.mark.real
async def test_a_servers_tools_are_tools() -> None:
    async with open_mcp_servers([good()], start_timeout=60) as [server]:
        tools = {each.name: each for each in server.tools}
        assert [*tools] == [f"mcp__good__{name}" for name in ("add", "wait", "how", "die", "fail")]
        assert tools["mcp__good__add"].description == "Add two numbers."
        assert (await use(server, "add", a=2)).text == "3"
        assert "`a` must be an integer, and is 'x'" in (await use(server, "add", a="x")).text
        assert (await use(server, "fail")).is_error

        assert await begin_and_cut(server) == ["waiting: 1 of 2"]
        # The server is told, and goes on to serve.
        assert (await use(server, "how")).text == "cut"

        lost = await use(server, "die")
        assert "ended during the call (it ended with exit code 3; its last words: " in lost.text
        assert "Whether it was done is not known." in lost.text


@pytest.fixture
def address() -> Iterator[str]:
    """Where a real server listens, on loopback."""
    command = [sys.executable, str(HERE / "mcp_server.py"), "http"]
    # Its errors are not ours: it is killed in the middle of requests.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()


@pytest.mark.real
async def test_a_server_over_http_is_the_same(address: str) -> None:
    url = address if address.startswith("http") else f"http://{address}"
    server = McpServer("web", url=f"{url}/mcp", headers={"Authorization": f"Bearer {CANARY}"})
    async with open_mcp_servers([server], start_timeout=60) as [web]:
        assert (await use(web, "add", a=2, b=5)).text == "7"
        # Calls that are cut keep no connection from those after them.
        for _ in range(10):
            assert await begin_and_cut(web) == ["waiting: 1 of 2"]
        assert (await use(web, "how")).text == " ".join(["cut"] * 10)
        lost = await use(web, "die")
        assert lost.is_error
        assert CANARY not in lost.text
        assert (await use(web, "add", a=2)).is_error
    assert CANARY not in repr(server)
    assert CANARY not in repr(web)


async def rude_http(stream: trio.SocketStream) -> None:
    """A server over HTTP whose every answer to a call is far too long."""
    async with stream:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some() or b"\r\n\r\n"
        head, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        while found and len(body) < int(found[1]):
            body += await stream.receive_some()
        asked: dict[str, Any] = json.loads(body) if body else {}
        result: dict[str, Any] = {}
        match asked.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rude", "version": "0"},
                }
            case "tools/list":
                result = {"tools": [{"name": "big", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": "x" * 20_000_000}]}
            case _:
                status = b"202 Accepted" if "id" not in asked else b"404 Not Found"
                await stream.send_all(
                    b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status
                )
                return
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
        with suppress(trio.BrokenResourceError):
            await stream.send_all(kind + answer)


@pytest.mark.real
async def test_an_answer_over_http_is_bounded_too() -> None:
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, rude_http, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        server = McpServer("web", url=f"http://127.0.0.1:{port}/mcp")
        async with open_mcp_servers([server]) as [web]:
            big = await use(web, "big")
            assert big.is_error
            assert "an answer of more than 16,000,000 bytes" in big.text
        nursery.cancel_scope.cancel()


@pytest.mark.real
async def test_a_server_that_ends_is_started_again_once() -> None:
    async with open_mcp_servers([rude()]) as [server]:
        first = int((await use(server, "pid")).text)
        lost = await use(server, "die")
        assert lost.is_error
        second = int((await use(server, "pid")).text)
        assert second != first
        await use(server, "die")
        gone = await use(server, "pid")
        assert "has ended, and is not started again" in gone.text
        assert server.starts == 2
    assert not alive(first)
    assert not alive(second)


@pytest.mark.real
async def test_a_rude_server_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = Baseline().files
    async with open_mcp_servers([rude()], restarts=3) as [server]:
        names = [each.name for each in server.tools]
        assert names.count("mcp__rude__odd") == 1
        assert "mcp__rude__huge_line" in names
        assert len(server.problems) == 2
        assert "the schema of mcp__rude__odd is not used" in server.problems[0]
        tools = {each.name: each for each in server.tools}
        assert len(tools["mcp__rude__noise"].description) < 4100
        assert tools["mcp__rude__pid"].read_only

        assert (await use(server, "noise")).text == "done"
        big = await use(server, "big")
        assert len(big.text) < 51_000
        assert "characters are not shown" in big.text
        garbage = await use(server, "garbage")
        assert garbage.is_error
        assert "not of the protocol" in garbage.text
        shown = await use(server, "picture")
        assert [each.data for each in shown.attachments] == [b"pixels"]
        assert shown.text.splitlines() == [
            "[attached: image/png]",
            "[an attachment of type image/png could not be read]",
            "page: http://x/y",
            "inside",
        ]
        huge = await use(server, "huge line")
        assert "it sent a message of more than 16,000,000 bytes" in huge.text
        assert (await use(server, "noise")).text == "done"
    assert Baseline().files <= files


@pytest.mark.real
async def test_a_call_that_is_never_answered_times_out_and_the_server_serves_on() -> None:
    async with open_mcp_servers([rude()], call_timeout=0.5) as [server]:
        late = await use(server, "never")
        assert "longer than its 0.5 s" in late.text
        assert (await use(server, "pid")).text.isdigit()


@pytest.mark.real
async def test_no_secret_goes_in_unnamed_or_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_API_KEY", "canary-that-is-not-named")
    monkeypatch.setenv("THE_SHOP", CANARY)
    server = rude(env={"SHOP_KEY": "${THE_SHOP}", "MODE": "${SPEED:-fast}"})
    assert CANARY not in repr(server)
    async with open_mcp_servers([server]) as [connection]:
        said = (await use(connection, "env")).text
        assert "canary-that-is-not-named" not in said
        assert "OTHER_API_KEY" not in said
        assert "SHOP_KEY=[secret]" in said
        assert "MODE=fast" in said
        lost = (await use(connection, "die")).text
        assert "dying with [secret]" in lost
        assert CANARY not in repr(connection)
    with pytest.raises(McpStartFailed) as failed:
        async with open_mcp_servers([rude("wrong", env={"SHOP_KEY": "${THE_SHOP}"})]):
            pass
    assert "it ended with exit code 4; its last words: no licence: [secret]" in str(failed.value)


@pytest.mark.real
@pytest.mark.parametrize(
    ("server", "why"),
    [
        pytest.param(rude("silent"), "did not say within 1 s which tools it has", id="silent"),
        pytest.param(McpServer("none", command="no-such-program"), "cannot run", id="no program"),
        pytest.param(McpServer("none", url="http://127.0.0.1:9/mcp"), "", id="nobody listens"),
    ],
)
async def test_a_server_that_does_not_start_is_an_error_and_ends(
    server: McpServer, why: str
) -> None:
    began = trio.current_time()
    with pytest.raises(McpStartFailed) as failed:
        # The one beside it is ended with it.
        async with open_mcp_servers([server], start_timeout=1):
            pytest.fail("the block must not begin")
    assert why in str(failed.value)
    assert trio.current_time() - began < 15


@pytest.mark.real
async def test_a_block_that_is_cut_ends_its_servers() -> None:
    pids: list[int] = []
    with trio.move_on_after(30) as scope:
        async with open_mcp_servers([rude()]) as [server]:
            pids.append(int((await use(server, "pid")).text))
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not alive(pids[0])


@pytest.mark.real
async def test_what_the_body_raises_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_mcp_servers([rude()]):
            raise KeyError("mine")


@pytest.mark.real
async def test_tools_can_be_allowed_by_name() -> None:
    async with open_mcp_servers([rude()], allow={"rude": ["pid"]}) as [server]:
        assert [each.name for each in server.tools] == ["mcp__rude__pid"]
    with pytest.raises(McpStartFailed, match="it has no tool 'pidd'; do you mean pid"):
        async with open_mcp_servers([rude()], allow={"rude": ["pidd"]}):
            pass


@pytest.mark.real
async def test_tools_without_end_are_cut_off_and_that_is_said() -> None:
    async with open_mcp_servers([rude("endless")]) as [server]:
        assert len(server.tools) == 500
        assert server.problems == ("rude offers more than 500 tools; the rest is left out",)


async def test_without_servers_nothing_is_started() -> None:
    async with open_mcp_servers([]) as connections:
        assert connections == ()


async def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoMcp, match="pip install"):
        async with open_mcp_servers([]):
            pass


def test_a_file_of_servers_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    held = {
        "mcpServers": {
            "git": {"command": "git-mcp", "args": ["-v"], "env": {"T": "${TOKEN}"}, "cwd": "/x"},
            "web": {"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}},
        }
    }
    path.write_text(json.dumps(held))
    servers = read_servers(path)
    assert servers["git"].env == {"T": "${TOKEN}"}
    assert servers["web"].url == "https://x/mcp"
    assert read_servers(held) == servers


@pytest.mark.parametrize(
    ("held", "says"),
    [
        pytest.param([], "servers are an object", id="a list"),
        pytest.param({"a": 1}, "server 'a' is no object", id="no object"),
        pytest.param({"a": {"comand": "x"}}, "do you mean 'command'", id="an unknown key"),
        pytest.param({"a": {}}, "either a command or a url", id="neither"),
        pytest.param({"a": {"command": "x", "url": "y"}}, "either a command or a url", id="both"),
        pytest.param({"a": {"url": "y", "type": "sse"}}, "type 'sse' is not spoken", id="sse"),
        pytest.param(
            {"a": {"command": "x", "env": {"K": 5}}}, "env is an object of texts", id="env"
        ),
        pytest.param({"a#": {"command": "x"}}, "server 'a#'", id="a name"),
    ],
)
def test_what_is_wrong_with_servers_is_said(held: Any, says: str) -> None:
    with pytest.raises(BadMcpConfig, match=says):
        read_servers(held)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    with pytest.raises(BadMcpConfig, match="No such file"):
        read_servers(path)
    path.write_text("{")
    with pytest.raises(BadMcpConfig, match="it is no JSON"):
        read_servers(path)


async def test_a_variable_that_is_not_set_starts_nothing() -> None:
    with pytest.raises(BadMcpConfig, match="'rude' needs the environment variable NOT_SET"):
        async with open_mcp_servers([rude(env={"A": "${NOT_SET}"})], env={}):
            pass


def test_names_of_tools_are_what_providers_take() -> None:
    long, longer = tool_name("s", "x" * 100), tool_name("s", "x" * 101)
    assert len(long) == len(longer) == 64
    assert long != longer
    assert os.fspath(tool_name("a b", "c/d")) == "mcp__a_b__c_d"


@pytest.mark.real
async def test_the_servers_of_an_agent_are_found_by_name_and_its_tools_by_its_list(
    tmp_path: Path,
) -> None:
    server = {"command": sys.executable, "args": ["-S", str(HERE / "rude_server.py")]}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"rude": server}}))
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)

    async def names(*tools: str, given: bool = True) -> list[str]:
        agent = Agent(
            "a", "Do it.", cwd=below, mcp_servers=["rude"], tools=tools if given else None
        )
        async with open_mcp_tools(agent) as found:
            return [each.name for each in tools_of(agent, found) if each.name.startswith("mcp")]

    everything = await names(given=False)
    assert len(everything) == 10
    assert await names("read") == everything
    assert await names("read", "mcp__rude__*") == everything
    assert await names("mcp__rude__pid", "ls") == ["mcp__rude__pid"]
    with pytest.raises(BadMcpConfig, match=r"'ruge' is not known: .*; do you mean 'rude'"):
        async with open_mcp_tools(Agent("a", "Do it.", cwd=below, mcp_servers=["ruge"])):
            pass
