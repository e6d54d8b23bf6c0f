"""What every program can be asked: its trees, and what it runs on."""

from __future__ import annotations

import os
import platform
from typing import Annotated

import msgspec
import trio

from standby_actors import Snapshot
from standby_actors.block import open_blocks
from standby_actors.tree import look_at


class AskVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask what runs there."""


class About(msgspec.Struct, frozen=True):
    """What runs there."""

    pid: int
    title: str
    standby: str
    trio: str
    python: str
    protocol: int
    verbs: tuple[str, ...]


class LookAtTree(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask for all open blocks and what is in them."""

    most: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 50
    """Children of one actor that are shown one by one; the others are counted."""
    depth: Annotated[int, msgspec.Meta(ge=0, le=100)] = 32
    """Levels below a block."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 2_000
    """Actors in all; nearer ones first."""


class Forest(msgspec.Struct, frozen=True):
    """The open blocks of a program, oldest first, and what is in them."""

    pid: int
    blocks: tuple[Snapshot, ...]
    more_blocks: int = 0
    """Blocks that are not shown."""


async def look_at_tree(arguments: LookAtTree) -> Forest:
    """Look at everything that is open in this run of trio, letting others have their turns."""
    # A block that a handler holds is shown below its actor.
    roots = [block.root for block in open_blocks() if block.owner is None]
    shown = roots[: max(1, min(arguments.most, arguments.limit))]
    look = look_at(shown, most=arguments.most, depth=arguments.depth, limit=arguments.limit)
    while True:
        try:
            next(look)
        except StopIteration as done:
            return Forest(os.getpid(), done.value, len(roots) - len(shown))
        await trio.lowlevel.checkpoint()


def about(protocol: int, title: str, verbs: tuple[str, ...]) -> About:
    """What runs here."""
    return About(
        pid=os.getpid(),
        title=title,
        standby=_version("standby"),
        trio=trio.__version__,
        python=platform.python_version(),
        protocol=protocol,
        verbs=verbs,
    )


def _version(name: str) -> str:
    # It takes longer to import than all of supervision.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"  # run from its sources
