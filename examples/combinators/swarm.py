"""Swarm: members hear each other on a board, and share the work by claims.

Prints:

    rounds 2 [('north', 'done', 'ant@1'), ('south', 'done', 'bee@1')]
    ant@1: north is clear
    bee@1: south is clear
"""

from __future__ import annotations

import trio

from standby import Agent, Board, Claims, swarm

board, claims = Board(), Claims(["north", "south"])


def scout(name: str) -> Agent:
    """Stands in for an agent of a model, which is given the tool `board` instead."""

    async def search(task: str) -> str:
        me = f"{name}@1"
        for key in claims.held(me):
            claims.finish(me, key, "clear")
            board.post(me, "result", f"{key} is clear")
            return key
        for key in claims.free():
            claims.take(me, key)
            return f"taking {key}"
        return "nothing left"

    return Agent(name, search)


async def main() -> None:
    # One at a time, so that what is printed is always the same.
    members = [scout("ant"), scout("bee")]
    done = await swarm(members, "Search.", rounds=2, board=board, claims=claims, concurrency=1)
    print(done.stopped_by, done.rounds, [(each.key, each.state, each.by) for each in done.claims])
    for post in done.posts:
        print(f"{post.by}: {post.text}")


if __name__ == "__main__":
    trio.run(main)
