"""A coding agent that speaks ACP, in a process of its own: starts at once, and does as it is told.

    python -S fake_acp.py [--child] [--stays] [--deaf] [--floods]

A prompt is said back, or ``LATE:<seconds>:<word>``: that word, so much later; or
``HUGE:<bytes>``: so many in one line, in pieces.

- ``--child``: a tool of its works in a session of its own, and heeds no hangup;
- ``--stays``: it heeds neither the end of its input nor SIGTERM;
- ``--deaf``: it does not end a prompt when it is told to, but answers it;
- ``--floods``: it writes megabytes to its stderr before each frame.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-S", str(Path(__file__).resolve()))
_LATE = re.compile(r"LATE:([\d.]+):(\S+)")
_HUGE = re.compile(r"HUGE:(\d+)")
_CHILD = "trap '' HUP; while :; do sleep 600; done"


class Fake:
    """Its state: the prompts that wait for their answers."""

    def __init__(self, flags: set[str]) -> None:
        self.flags = flags
        self.lock = threading.Lock()
        self.waiting: dict[Any, threading.Timer] = {}

    def say(self, **frame: Any) -> None:
        """Write one frame."""
        if "--floods" in self.flags:
            sys.stderr.write("\x1b[31mtrouble\x1b[0m \xff \0\n" * 100_000)
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        sys.stdout.flush()

    def hear(self, frame: Any) -> None:
        """Answer one frame."""
        number, method, params = frame.get("id"), frame.get("method"), frame.get("params") or {}
        match method:
            case "initialize":
                can = {"sessionCapabilities": {"resume": {}}, "loadSession": True}
                told = {"protocolVersion": 1, "agentCapabilities": can}
                self.say(id=number, result={**told, "agentInfo": {"name": "fake"}})
            case "session/new" | "session/resume":
                self.say(id=number, result={"sessionId": params.get("sessionId") or "s"})
            case "session/prompt":
                text = params["prompt"][-1]["text"]
                found = _LATE.search(text)
                seconds, word = (float(found[1]), found[2]) if found else (0.0, text)
                if huge := _HUGE.search(text):
                    word = "x" * int(huge[1])
                timer = threading.Timer(seconds, self.answer, [number, word])
                with self.lock:
                    self.waiting[number] = timer
                timer.daemon = True
                timer.start()
            case "session/cancel" if "--deaf" not in self.flags:
                with self.lock:
                    for each, timer in self.waiting.items():
                        timer.cancel()
                        self.say(id=each, result={"stopReason": "cancelled"})
                    self.waiting.clear()
            case _:
                pass

    def answer(self, number: Any, word: str) -> None:
        """Say it, and end the prompt, unless it was cut."""
        with self.lock:
            if self.waiting.pop(number, None) is None:
                return
            content = {"type": "text", "text": f"echo: {word}"}
            said = {"sessionUpdate": "agent_message_chunk", "content": content}
            self.say(method="session/update", params={"sessionId": "s", "update": said})
            usage = {"inputTokens": 100, "outputTokens": 1}
            self.say(id=number, result={"stopReason": "end_turn", "usage": usage})


def main(flags: set[str]) -> None:
    """Serve until the end of the input."""
    if "--stays" in flags:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--child" in flags:
        subprocess.Popen(["sh", "-c", _CHILD], start_new_session=True, stdin=subprocess.DEVNULL)
    fake = Fake(flags)
    for line in sys.stdin:
        fake.hear(json.loads(line))
    while "--stays" in flags:
        time.sleep(600)
    # A timer of a prompt is no reason to live on.
    os._exit(0)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
