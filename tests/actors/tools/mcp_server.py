"""An MCP server made with the library, for tests: over stdio, or over HTTP on a port it prints."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
import trio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("stub")
cut: list[str] = []


@server.tool()
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def wait(ctx: Context) -> str:
    """Say so, and wait for ever."""
    await ctx.report_progress(1, 2, "waiting")
    try:
        await anyio.sleep_forever()
    finally:
        cut.append("cut")
    return "waited"


@server.tool()
async def how() -> str:
    """How the calls of `wait` have ended."""
    # The word that a call is cut and the next call may be read at once.
    await anyio.sleep(0.1)
    return " ".join(cut)


@server.tool()
async def die() -> str:
    """End the process in the middle of a call."""
    print("going down", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
async def fail() -> str:
    """Raise."""
    raise ValueError("it cannot be")


async def serve_http() -> None:
    """Serve until killed."""
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = [sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:0"]
    app: Any = server.streamable_http_app()
    async with trio.open_nursery() as nursery:
        binds = await nursery.start(serve, app, config)
        print(binds[0], flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        trio.run(serve_http)
    else:
        server.run("stdio")
