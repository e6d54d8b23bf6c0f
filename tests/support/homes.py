"""A place for actors that are going to crash: what happens there ends nobody else."""

from __future__ import annotations

from typing import Any

from standby_actors import Actor, Nursery, Ref


class Home(Actor):
    """Spawns what it is asked for, unlinked, so that a crash is nobody else's."""

    shutdown = 60.0

    def receive(self, message: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> Ref[Any]:
        actor, args, options = message
        spawned: Ref[Any] = self.spawn(actor, *args, link=False, **options)
        return spawned


async def apart(nursery: Nursery, actor: Any, *args: Any, **options: Any) -> Ref[Any]:
    """Spawn `actor` below a home of its own; in a plain block its crash would end the block."""
    home: Ref[Any] = nursery.spawn(Home)
    spawned: Ref[Any] = await home.ask((actor, args, options))
    return spawned
