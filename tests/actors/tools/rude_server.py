"""An MCP server that does what a good one does not: made by hand, and so quick to start."""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else ""

TOOLS: list[dict[str, Any]] = [
    {"name": "env", "description": "Say the environment.", "inputSchema": {"type": "object"}},
    {"name": "noise", "description": "x" * 10_000, "inputSchema": {"type": "object"}},
    {"name": "big", "inputSchema": {"type": "object"}},
    {"name": "huge line", "inputSchema": {"type": "object"}},
    {"name": "garbage", "inputSchema": {"type": "object"}},
    {"name": "picture", "inputSchema": {"type": "object"}},
    {"name": "never", "inputSchema": {"type": "object"}},
    {"name": "die", "inputSchema": {"type": "object"}},
    {"name": "pid", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
    {"name": "odd", "inputSchema": {"type": "object"}},
]


def say(message: dict[str, Any]) -> None:
    """Send a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def call(name: str) -> dict[str, Any] | None:
    """The result of a tool; None for no answer."""
    text = "done"
    match name:
        case "env":
            text = "\n".join(f"{key}={value}" for key, value in os.environ.items())
        case "noise":
            os.write(
                1, b"a log entry\n\xff\xfe\n[]\n{}\n\n\x00\n" + b'{"jsonrpc": "2.0", "id": 99}\n'
            )
        case "big":
            text = "x" * 1_000_000
        case "huge line":
            text = "x" * 17_000_000
        case "garbage":
            return {"content": [{"type": "riddle", "text": 5}]}
        case "picture":
            good = base64.b64encode(b"pixels").decode()
            return {
                "content": [
                    {"type": "image", "data": good, "mimeType": "image/png"},
                    {"type": "image", "data": "!!!", "mimeType": "image/png"},
                    {"type": "resource_link", "name": "page", "uri": "http://x/y"},
                    {"type": "resource", "resource": {"uri": "a://b", "text": "inside"}},
                ]
            }
        case "never":
            return None
        case "die":
            print(f"dying with {os.environ.get('SHOP_KEY')}", file=sys.stderr, flush=True)
            os._exit(3)
        case _:
            text = str(os.getpid())
    return {"content": [{"type": "text", "text": text}]}


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for no answer."""
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "rude", "version": "0"},
            }
        case "tools/list" if MODE == "endless":
            cursor = int(request.get("params", {}).get("cursor") or 0)
            page = [
                {"name": f"t{cursor + n}", "inputSchema": {"type": "object"}} for n in range(40)
            ]
            return {"tools": page, "nextCursor": str(cursor + 40)}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            return call(request["params"]["name"])
        case _:
            return None


def main() -> None:
    """Serve until the input ends."""
    if MODE == "silent":
        time.sleep(600)
    if MODE == "wrong":
        print("I am not an MCP server", flush=True)
        print(f"no licence: {os.environ.get('SHOP_KEY')}", file=sys.stderr, flush=True)
        sys.exit(4)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] == "server/discover":
            error = {"code": -32601, "message": "unknown method"}
            say({"id": request["id"], "error": error})
        elif (result := answer(request)) is not None:
            say({"id": request["id"], "result": result})


if __name__ == "__main__":
    main()
