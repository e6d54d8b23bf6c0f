"""A program that is killed with -9 at a given write of its run, and played again.

Started by `test_killed_runs`: ``python -m tests.supervision.runs.killed FOLDER CASE…``, where a
case is ``point:number`` as in ``before:3``.  Everything is imported once; each play is a
process of its own that is forked from there, and each case has a folder of its own.  Prints
one JSON object for each case.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from standby import fan_out
from standby_supervision.runs import Run, RunOver, current_step, open_workspace
from standby_supervision.store.backend import Outcome
from standby_supervision.store.records import Command
from standby_supervision.store.sqlite import SqliteBackend

POINTS = ("before", "within", "after")
"""Where in the writing of a transaction: before it, after its statements and before its
commit, or after the commit and before anybody is told."""


def log(folder: Path, line: str) -> None:
    """Do something outside that cannot be taken back."""
    file = os.open(folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line.encode() + b"\n")
    os.close(file)


async def program(folder: Path, run: Run) -> str:
    """A team, effects, and a conversation."""

    async def scout(task: str) -> str:
        log(folder, f"turn {task}")
        return f"seen {task}"

    async def charge(amount: int) -> int:
        step = current_step()
        log(folder, f"effect {step.key} {step.maybe_repeated}")
        return amount * 2

    report = await fan_out(scout, ["a", "b", "c"], spawn=run.spawn, concurrency=2)
    said = [result.output for result in report.results]
    for amount in (1, 2):
        said.append(str(await run.step("charge", charge, amount)))
    async with run.spawn(scout, lifetime="workflow") as player:
        for task in ("d", "e"):
            said.append((await player.ask(task)).output)
    return ", ".join(said)


def play(folder: Path, point: str, number: int) -> None:
    """Play the program in this process, which is killed at the write of that number."""
    written = 0

    def kill(here: str) -> None:
        if here == point and written == number:
            os.kill(os.getpid(), signal.SIGKILL)

    apply = SqliteBackend.apply

    def watched(self: SqliteBackend, commands: Sequence[Command]) -> list[Outcome]:
        nonlocal written
        written += 1
        kill("before")
        connection = self._connection  # pyright: ignore[reportPrivateUsage]  # to be killed within
        assert connection is not None
        if point == "within" and written == number:
            # The last that SQLite does before it says that the commit is done.
            connection.set_trace_callback(
                lambda statement: kill("within") if statement == "COMMIT" else None
            )
        outcomes = apply(self, commands)
        kill("after")
        return outcomes

    SqliteBackend.apply = watched  # type: ignore[method-assign] # the point to be killed at

    async def main() -> None:
        async with open_workspace(folder) as workspace:
            try:
                async with workspace.open_run("nightly", id="r") as run:
                    run.output = await program(folder, run)
            except RunOver:
                pass  # it was killed when its end was on the disk
            (folder / "output").write_text((await workspace.state("r")).output)

    trio.run(main)


def forked(folder: Path, point: str, number: int) -> int:
    """Play it in a process of its own; how that ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            play(folder, point, number)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


async def found(folder: Path) -> dict[str, Any]:
    """What the record of a folder's run comes to."""
    async with open_workspace(folder) as workspace:
        rows = await workspace.runs()
        if not rows:
            return {"status": None, "outcomes": 0, "open": 0, "again": []}
        state = await workspace.state("r")
        events = await workspace.events("r")
        kinds = Counter(event.kind for event in events)
        return {
            "status": state.status,
            "outcomes": len(state.outcomes),
            "open": len(state.open),
            "agents": len(state.agents),
            "registered": kinds["live_agent.registered"],
            "exited": kinds["agent.exited"],
            "again": (await workspace.sweep()).interrupted,
        }


def case(folder: Path, point: str, number: int) -> dict[str, Any]:
    """Kill it once, look, play it to its end, and say what was seen."""
    folder.mkdir(parents=True)
    first = forked(folder, point, number)
    between = trio.run(found, folder)
    done = (folder / "effects").read_text().split("\n") if (folder / "effects").exists() else []
    last = first if first == 0 else forked(folder, "never", 0)
    effects = (folder / "effects").read_text().splitlines()
    return {
        "point": point,
        "number": number,
        "first": first,
        "last": last,
        "between": between,
        "done": len(done),
        "end": trio.run(found, folder),
        "output": (folder / "output").read_text(),
        "effects": effects,
    }


def main() -> None:
    """Play the cases that the command line names."""
    folder = Path(sys.argv[1])
    for named in sys.argv[2:]:
        point, _, number = named.partition(":")
        print(json.dumps(case(folder / named.replace(":", "-"), point, int(number))), flush=True)


if __name__ == "__main__":
    main()
