"""Review: work is done again until all approve and nothing is owed.

Prints:

    approved in round 2: code, tested
    o1 addressed: Test it.
"""

from __future__ import annotations

import json

import trio

from standby import review


async def work(task: str) -> str:
    """Stands in for a worker: does what is owed."""
    return "code, tested" if "Test it." in task else "code"


async def judge(task: str) -> str:
    """Stands in for a reviewer; one with a model calls the tool `verdict` instead."""
    if "tested" in task:
        return json.dumps({"approved": True, "resolved": [{"id": "o1"}]})
    return json.dumps({"approved": False, "raised": ["Test it."]})


async def main() -> None:
    done = await review(work, judge, "Write the parser.")
    print("approved" if done.approved else "open", f"in round {done.rounds}: {done.output}")
    for each in done.obligations:
        print(each.id, each.closed and each.closed.how, end=f": {each.text}\n")


if __name__ == "__main__":
    trio.run(main)
