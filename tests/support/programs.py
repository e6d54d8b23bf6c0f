"""Programs in processes of their own, and a hand on their signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterable
from typing import IO

from attrs import frozen

PATIENCE = 60.0
"""Seconds after which a program that hangs is killed, so that its test fails."""

# A shell starts background jobs with SIGINT ignored, nohup any with SIGHUP, and
# children inherit that.
_PRELUDE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""


HOLDS_THE_LOOP = """
class Held(Actor):
    def receive(self, message):
        print("ready")
        end = time.monotonic() + 60
        while not received: pass
        print("again")
        while time.monotonic() < end: pass
        print("span to the end")
received = []
import standby_actors.running as running
class Counted(running.Interrupts):
    def __call__(self, signum, frame):
        received.append(signum)
        super().__call__(signum, frame)
running.Interrupts = Counted
async def main():
    async with open_nursery() as nursery:
        nursery.spawn(Held).tell(1)
        await trio.sleep_forever()
"""
"""An actor that lets go of the loop only when it is interrupted, at the second signal."""


@frozen
class Ended:
    """How a program ended."""

    code: int
    lines: list[str]
    """What it printed."""
    errors: str


def run_program(source: str, *cues: str, signals: Iterable[int] | int = signal.SIGINT) -> Ended:
    """Run `source`; at each of the `cues`, a line that it prints, press Ctrl-C.

    Args:
        source: the program.
        cues: lines that it prints, in this order.
        signals: what it is sent instead of Ctrl-C: one at each cue, or the same at all.
    """
    sent = [signals] * len(cues) if isinstance(signals, int) else [*signals]
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _PRELUDE + textwrap.dedent(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))},
    )
    killer = threading.Timer(PATIENCE, process.kill)
    killer.start()
    errors: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    reader = threading.Thread(target=_read_all, args=(process.stderr, errors))
    reader.start()
    lines: list[str] = []
    open_cues = list(cues)
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            if open_cues and lines[-1] == open_cues[0]:
                del open_cues[0]
                process.send_signal(sent.pop(0))
        code = process.wait()
    finally:
        killer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
        killer.join()
        reader.join()
        process.stdout.close()
        process.stderr.close()
    assert not open_cues, (open_cues, lines, errors)
    return Ended(code, lines, "".join(errors))


def _read_all(stream: IO[str], into: list[str]) -> None:
    into.extend(stream)
