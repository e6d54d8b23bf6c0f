"""The pool plays the turns of a combinator: it alone spawns subagents for one, and closes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import trio
from attrs import define, field

from standby_actors.agent import Agent, Lifetime, MindFunction, agent_of, resolve_lifetime
from standby_actors.events import emit
from standby_actors.models import ModelError
from standby_actors.result import Result, TurnError, failed

from .trail import Trail


class Player(Protocol):
    """Whatever plays turns: a subagent, as far as a pool needs it."""

    @property
    def id(self) -> str:
        """As in "scout#2"."""
        ...

    async def ask(self, task: str, /) -> Result:
        """Play one turn.  A failure is a Result."""
        ...


class Spawner(Protocol):
    """How a pool spawns: `standby.spawn`, or something that stands for it."""

    def __call__(
        self, agent: Agent, /, *, lifetime: Lifetime | None
    ) -> AbstractAsyncContextManager[Player]:
        """A block that holds one subagent of `agent`, and closes it."""
        ...


AgentLike: TypeAlias = Agent | MindFunction


@define(eq=False)
class _Kept:
    """One subagent that outlives its turns, in a block on a task of its own."""

    agent: Agent
    key: str
    turns: trio.Lock = field(factory=trio.Lock)
    """Whoever holds it has the subagent; it is handed on in the order of asking."""
    player: Player | None = None
    failure: Exception | None = None
    """Why there is no player, or why its close failed."""
    settled: trio.Event = field(factory=trio.Event)
    """Set once there is a player or a failure."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """Cancelling it ends the subagent: its block turns that into an ordered stop."""
    over: trio.Event = field(factory=trio.Event)
    """Set once nothing of it is left."""


class Held:
    """A subagent kept for a conversation; it lives until its pool closes it."""

    def __init__(self, id: str, ask: Callable[[str], Awaitable[Result]]) -> None:  # noqa: A002 - as a subagent has it
        self.id = id
        """As in "scout#2"; the key, if none could be spawned."""
        self._ask = ask

    async def ask(self, task: str, /) -> Result:
        """Play one turn.  It is recorded on the pool's trail, as every turn is."""
        return await self._ask(task)


class SubagentPool:
    """Plays turns of agents, and closes what it spawned for them.

    ``async with SubagentPool() as pool: result = await pool.turn(scout, task)``.
    When the block is left nothing of it is alive, whatever happened inside; the
    body's own error passes as it is.

    A failure is a Result, also when a subagent cannot be spawned or crashes: no
    turn harms another.  A cancellation is never made one; it ends the turn and
    passes.

    Args:
        lifetime: of the subagents; None lets each agent say it, and those that
            say nothing live for one task.
        trail: where the turns are recorded; a new one unless given.
        spawn: how a subagent is opened; `standby.spawn` with what it should
            know besides, such as the model.

    Raises:
        ValueError: `lifetime` is none.
    """

    def __init__(
        self,
        *,
        lifetime: Lifetime | None = None,
        trail: Trail | None = None,
        spawn: Spawner,
    ) -> None:
        resolve_lifetime(lifetime, _ANYBODY)
        self._lifetime: Lifetime | None = lifetime
        self._spawn = spawn
        self._trail = trail
        self._kept: dict[str, list[_Kept]] = {}
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None

    @property
    def trail(self) -> Trail:
        """Every turn that ended, refusals included.  It outlives the pool."""
        if self._trail is None:
            self._trail = Trail()
        return self._trail

    async def __aenter__(self) -> SubagentPool:
        if self._manager is not None:
            raise RuntimeError("a pool is entered once; make another one")
        # Its clock begins with the block, unless it was given a running one.
        _ = self.trail
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._manager is not None
        assert self._nursery is not None
        nursery, self._nursery = self._nursery, None
        # Shielded: each subagent's block bounds its own closing, and to leave
        # now would only hide the error that the body is being left with.
        with trio.CancelScope(shield=True):
            await self._end([kept for each in self._kept.values() for kept in each])
        nursery.cancel_scope.cancel()
        await self._manager.__aexit__(None, None, None)

    async def turn(self, agent: AgentLike, task: str, *, key: str | None = None) -> Result:
        """Play one turn of `agent`, and record it.

        With lifetime "task" a fresh subagent plays it and is closed before this
        returns.  With any other, everybody who names the same agent and key
        shares one subagent, which is spawned once and serves them in the order
        of asking; it lives until the pool is closed.

        Args:
            agent: who plays.
            task: what it is asked.
            key: who shares a memory; the agent's name unless given.  Two agents
                never share one, even if they have the same name.

        Raises:
            ModelError: there is no model to ask; nothing was recorded.
            RuntimeError: the pool is not open.
        """
        agent = agent_of(agent)
        key = agent.name if key is None else key
        lifetime, _ = resolve_lifetime(self._lifetime, agent)
        if lifetime == "task":
            self._open()
            return self.trail.record(await self._once(agent, task, key))
        return self.trail.record(await self._play(self._keeper(agent, key, self._lifetime), task))

    async def hold(self, agent: AgentLike, *, key: str | None = None) -> Held:
        """A subagent for a conversation: it outlives its turns whatever the lifetime.

        If it cannot be spawned, its `id` is the key and every ask answers why.

        Raises:
            ModelError: there is no model to ask.
            RuntimeError: the pool is not open.
        """
        agent = agent_of(agent)
        key = agent.name if key is None else key
        lifetime, _ = resolve_lifetime(self._lifetime, agent)
        kept = self._keeper(agent, key, "workflow" if lifetime == "task" else self._lifetime)
        await kept.settled.wait()
        if isinstance(kept.failure, ModelError):
            raise kept.failure

        async def ask(task: str) -> Result:
            return self.trail.record(await self._play(kept, task))

        return Held(key if kept.player is None else kept.player.id, ask)

    async def close_all(self) -> None:
        """Close every subagent that is kept, all at the same time.

        A turn in progress is cut, and is a Result.  The record stays.  Once is
        enough, more does nothing; several callers wait for the same end.
        """
        await self._end([kept for each in self._kept.values() for kept in each])

    async def _once(self, agent: Agent, task: str, key: str) -> Result:
        result: Result | None = None
        try:
            # What was asked for, not what it came to: the source is on the event.
            async with self._spawn(agent, lifetime=self._lifetime) as player:
                result = await _asked(player, task, key)
        except ModelError:
            raise
        # A combinator counts failures: one that cannot be spawned, or that
        # crashes, fails its own turn and nobody else's.
        except Exception as error:
            if result is None:
                return _not_started(agent, error)
            # The answer was given; a close that fails does not take it back.
            emit("turn.close_failed", result.subagent, key=key, error=_sentence(error))
        assert result is not None
        return result

    async def _play(self, kept: _Kept, task: str) -> Result:
        async with kept.turns:
            await kept.settled.wait()
            if isinstance(kept.failure, ModelError):
                raise kept.failure
            if kept.player is None:
                error = kept.failure or RuntimeError("it was closed before it was ready")
                return _not_started(kept.agent, error)
            if kept.scope.cancel_called:
                return failed(
                    kept.agent.name,
                    "closed",
                    f"{kept.player.id} was closed by its pool",
                    subagent=kept.player.id,
                )
            return await _asked(kept.player, task, kept.key)

    def _keeper(self, agent: Agent, key: str, lifetime: Lifetime | None) -> _Kept:
        """The one that is kept for `agent` under `key`, begun now if there is none.

        It waits for nothing, so that two who ask at once find the same.
        """
        nursery = self._open()
        same_key = self._kept.setdefault(key, [])
        for kept in same_key:
            # Equal agents are one agent: a function becomes a new one each time.
            if kept.agent == agent and kept.failure is None and not kept.scope.cancel_called:
                return kept
        kept = _Kept(agent, key)
        same_key.append(kept)
        nursery.start_soon(self._keep, kept, lifetime)
        return kept

    async def _keep(self, kept: _Kept, lifetime: Lifetime | None) -> None:
        try:
            with kept.scope:
                async with self._spawn(kept.agent, lifetime=lifetime) as player:
                    kept.player = player
                    kept.settled.set()
                    await trio.sleep_forever()
        # As in a single turn: whoever asks is told, and nobody else is harmed.
        except Exception as error:
            kept.failure = error
            if kept.player is not None:
                emit("turn.close_failed", kept.player.id, key=kept.key, error=_sentence(error))
        finally:
            kept.settled.set()
            kept.over.set()
            same_key = self._kept[kept.key]
            same_key.remove(kept)
            if not same_key:
                del self._kept[kept.key]

    async def _end(self, many: list[_Kept]) -> None:
        for kept in many:
            kept.scope.cancel()
        for kept in many:
            await kept.over.wait()

    def _open(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("the pool is not open: turns are played inside `async with`")
        return self._nursery


async def _asked(player: Player, task: str, key: str) -> Result:
    emit("turn.began", player.id, key=key)
    status = "cancelled"
    usage = (0, 0)
    try:
        result = await player.ask(task)
        status, usage = result.status, (result.usage.input_tokens, result.usage.output_tokens)
        return result
    finally:
        # Also when it is cut: who shows what is going on must see it end.
        emit(
            "turn.ended",
            player.id,
            key=key,
            status=status,
            input_tokens=usage[0],
            output_tokens=usage[1],
        )


def _not_started(agent: Agent, error: Exception) -> Result:
    why = TurnError("start_failed", f"no subagent could be spawned: {_sentence(error)}")
    return failed(agent.name, why.with_cause(error))


def _sentence(error: BaseException) -> str:
    """What `error` says; of a group, what its first error does."""
    while isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[Any] = error
        error = group.exceptions[0]
    return f"{type(error).__name__}: {error}".removesuffix(": ")


async def _nothing(task: str) -> str:
    return task


_ANYBODY = Agent("anybody", _nothing)
