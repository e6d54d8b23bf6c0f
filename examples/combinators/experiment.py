"""Experiment: each model, each task, several times; kept in a folder, and counted.

Prints:

    played 8 of 8, 0 of them before
    careful: ok 4/4 100% [51-100], right 4/4 100% [51-100]
    hasty: ok 4/4 100% [51-100], right 2/4 50% [15-85]
    played 12 of 12, 8 of them before
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio

from standby import Agent, ExperimentCell, Result, ScriptedSession, experiment


class Model:
    """Stands in for the name of a model, as in "openai/gpt-5-mini"."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers
        self.asked = 0

    def session(self, agent: Agent, /) -> ScriptedSession:
        self.asked += 1
        return ScriptedSession([self.answers[self.asked % len(self.answers)]])


def judge(cell: ExperimentCell, result: Result) -> dict[str, bool]:
    return {"right": result.output == {"2 + 2": "4", "3 + 1": "4"}[cell.task]}


async def main() -> None:
    solver = Agent("solver", "Answer with a number, and nothing else.")
    tasks = ["2 + 2", "3 + 1"]
    models = {"careful": Model("4"), "hasty": Model("5", "4")}
    with tempfile.TemporaryDirectory() as folder:
        for repetitions in (2, 3):
            # Killed and begun again, or asked for more, it goes on where it was.
            done = await experiment(
                solver, tasks, models=models, repetitions=repetitions, judge=judge, folder=folder
            )
            print(f"played {len(done.cells)} of {done.planned}, {done.resumed} of them before")
            if repetitions == 2:
                for row in done.rows:
                    print(row.said().partition(";")[0])
        done.plot(Path(folder) / "models.png")


if __name__ == "__main__":
    trio.run(main)
