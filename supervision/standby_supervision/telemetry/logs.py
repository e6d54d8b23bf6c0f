"""Which actor a line of a log is about, for `logging` and for structlog."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from standby_actors.block import open_blocks
from standby_actors.cell import Cell
from standby_actors.mind import Mind
from standby_actors.reply import current_cell


class ActorFilter(logging.Filter):
    """Adds `actor`, `incarnation` and `subagent` to records; empty outside of handlers.

    ``handler.addFilter(ActorFilter())``, and ``%(actor)s`` in its format.  It
    keeps every record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Say of `record` in whose handler it was written."""
        for name, value in facts().items():
            setattr(record, name, value)
        return True


def add_actor(
    logger: Any,
    method: str,
    event_dict: MutableMapping[str, Any],
) -> MutableMapping[str, Any]:
    """A structlog processor that does the same; what is there already stays."""
    for name, value in facts().items():
        if value:
            event_dict.setdefault(name, value)
    return event_dict


def facts() -> dict[str, Any]:
    """The actor in whose handler this is called; empty where it is none's."""
    try:
        cell = _cell_here()
    except RuntimeError:  # no trio here: a thread, or another loop
        cell = None
    if cell is None:
        return {"actor": "", "incarnation": 0, "subagent": ""}
    rare = cell.extra.rare if cell.extra is not None else None
    mind = rare.left if rare is not None else None
    return {
        "actor": cell.path,
        "incarnation": cell.incarnation,
        "subagent": mind.id if isinstance(mind, Mind) else "",
    }


def _cell_here() -> Cell[Any] | None:
    # A plain handler is on no task of its own: its block knows that it runs.  One that
    # answers an ask inline runs inside the one that asked.
    for block in open_blocks():
        if block.stack:
            return block.stack[-1]
    for block in open_blocks():
        if block.running is not None:
            return block.running
    return current_cell()
