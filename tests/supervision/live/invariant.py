"""What the journal of any run must say: each that was registered has exited, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from standby_supervision.runs import Workspace, open_workspace
from standby_supervision.store import Store, StoredEvent


def check_agents(events: Iterable[StoredEvent]) -> None:
    """Registered, terminated and exited come once each, in that order, for every life."""
    seen: dict[tuple[str, int], list[str]] = {}
    for event in events:
        if event.kind in ("live_agent.registered", "live_agent.terminated", "agent.exited"):
            fact = msgspec.json.decode(event.data)
            seen.setdefault((fact["subagent"], fact.get("incarnation", 1)), []).append(event.kind)
    for life, kinds in seen.items():
        assert kinds[0] == "live_agent.registered", (life, kinds)
        assert kinds[-1] == "agent.exited", (life, kinds)
        assert max(Counter(kinds).values()) == 1, (life, kinds)


def check_mail(events: Iterable[StoredEvent]) -> None:
    """A word is consumed at most once, and after that nothing happens to it."""
    over: dict[str, str] = {}
    for event in events:
        if event.kind in ("mail.injected", "mail.returned", "mail.consumed", "mail.refused"):
            for each in msgspec.json.decode(event.data)["mail"]:
                assert each not in over, (each, over[each], event.kind)
                if event.kind in ("mail.consumed", "mail.refused"):
                    over[each] = event.kind


@asynccontextmanager
async def checked_workspace(path: Path, store: Store) -> AsyncGenerator[Workspace]:
    """A workspace whose runs are all checked at the end, however that comes."""
    try:
        async with open_workspace(path, store) as workspace:
            yield workspace
    finally:
        for row in await store.runs():
            events = await store.read(row.run)
            if row.owner is None:
                check_agents(events)
            check_mail(events)
