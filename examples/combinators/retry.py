"""Retry: what failed on the way is asked again after a while.

Prints:

    ok third time lucky
    ['crashed', 'crashed', 'ok']
"""

from __future__ import annotations

import trio

from standby import Backoff, retry

attempts = 0


async def flaky(task: str) -> str:
    """Stands in for a server that is down for a moment."""
    global attempts
    attempts += 1
    if attempts < 3:
        raise ConnectionError("down")
    return "third time lucky"


async def main() -> None:
    done = await retry(flaky, "Go.", backoff=Backoff(0.01))
    print(done.status, done.output)
    print([step.status for step in done.steps])


if __name__ == "__main__":
    trio.run(main)
