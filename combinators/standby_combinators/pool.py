"""The pool plays the turns of a combinator: it alone spawns subagents for one, and closes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

import msgspec
import trio
from attrs import define, field

from standby_actors.agent import Agent, Lifetime, agent_of, resolve_lifetime
from standby_actors.agent_checks import check_task, check_timeout
from standby_actors.brief import BriefStart, begin_brief, is_brief
from standby_actors.errors import ActorStopped
from standby_actors.events import current_stream, emit
from standby_actors.failure import described
from standby_actors.ids import next_id
from standby_actors.models import ModelError, default_model
from standby_actors.nursery import open_nursery
from standby_actors.opening import api_of, is_of_model
from standby_actors.result import ErrorKind, Result, TurnError, crash_of, failed
from standby_actors.session import Memory
from standby_actors.subagent import OutOfBudget, Subagent
from standby_actors.subagent import spawn as spawn_subagent
from standby_actors.usage import NOTHING, Usage

from .endings import without_failures
from .lent import Lent
from .member import Askable, spent_by
from .opened import OpenedModels
from .options import AgentLike, Options, Player, check_options
from .signal import Signal
from .trail import Trail


@define(eq=False)
class _Cut:
    """One turn that a signal may cut."""

    signal: Signal
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    result: Result | None = None
    """What it came to, if it had begun."""


class _Cast:
    """What a pool has worked out of one agent."""

    __slots__ = ("agent", "brief", "given", "lifetime")

    def __init__(
        self, given: AgentLike, lifetime: Lifetime | None, timeout: float | None, is_whole: bool
    ) -> None:
        self.given = given
        """Kept, so that its identity stays its own."""
        self.agent = agent_of(given)
        self.lifetime, _ = resolve_lifetime(lifetime, self.agent)
        self.brief: BriefStart | None = None
        """How to play it, where a turn is a call of its function and no more."""
        if is_whole and self.lifetime == "task" and is_brief(self.agent):
            self.brief = BriefStart(self.agent, timeout)


_CASTS_KEPT = 1_000


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
    heir_of: Subagent | None = None
    """Whose place it takes: one that has crashed, and of which it may know something."""
    beside: Usage = NOTHING
    """What that has cost; it is paid with the next turn."""
    dead: bool = False
    """It ended by itself, and answers no more."""
    wanted: int = 0
    """How many want it now, for a turn or to hold it."""
    settled: trio.Event = field(factory=trio.Event)
    """Set once there is a player or a failure."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    """Cancelling it ends the subagent: its block turns that into an ordered stop."""
    over: trio.Event = field(factory=trio.Event)
    """Set once nothing of it is left."""

    @contextmanager
    def want(self) -> Generator[None]:
        """Want it while the block is open: its spawn goes on as long as anybody does."""
        self.wanted += 1
        try:
            yield
        finally:
            self.wanted -= 1
            if not self.wanted and not self.settled.is_set():
                # Else it would be spawned for nobody, after all was called off.
                self.scope.cancel()


@define(eq=False)
class _Once:
    """One turn of a subagent of its own, in a block on a task of its own.

    So a mind that is deaf to its cut is closed there, and nobody waits for that.
    """

    id: str | None
    """What its subagent is called; None where whoever spawns it says so."""
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    result: Result | None = None
    error: BaseException | None = None
    """What is to be raised instead of a Result."""
    over: trio.Event = field(factory=trio.Event)
    """Set once the turn is; what is left is to close who played it."""
    gone: trio.Event = field(factory=trio.Event)
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


class AgentPool:
    """A :class:`~standby_combinators.team.SubagentPool` as it is for agents alone."""

    def __init__(self, *, trail: Trail | None = None, **options: Unpack[Options]) -> None:
        check_options(options)
        self._lifetime: Lifetime | None = options.get("lifetime")
        resolve_lifetime(self._lifetime, _ANYBODY)
        timeout = options.get("timeout")
        check_timeout(timeout)
        self.timeout = timeout
        """Seconds for each turn, where it is said for all."""
        self._options = options
        self._switch = options.get("switch")
        self._signal = options.get("signal")
        if self._switch is not None:
            if self._signal not in (None, self._switch.signal):
                raise ValueError(
                    "a switch has a signal of its own: say stop_switch(signal), and only switch="
                )
            self._signal = self._switch.signal
        self._trail = trail
        self._kept: dict[str, list[_Kept]] = {}
        self._models = OpenedModels()
        self._casts: dict[int, _Cast] = {}
        self._left: dict[_Once, None] = {}
        """Those whose mind is deaf: what they came to is known, and they are being closed."""
        self._crashed: dict[tuple[str, Agent], Subagent] = {}
        """Those whose place nobody has taken yet, and of which the next is to know something."""
        self._lent: dict[Subagent, trio.Lock] = {}
        """Of each that was handed in, whose turn it is: what its turns cost is told by what
        it has spent before and after, and so they may not overlap."""
        self._house = open_nursery(name="pool")
        """Where subagents live that are played for one turn and need nothing else."""
        self._manager: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None

    @property
    def trail(self) -> Trail:
        """Every turn that ended, refusals included.  It outlives the pool."""
        if self._trail is None:
            self._trail = Trail()
        return self._trail

    @property
    def signal(self) -> Signal | None:
        """What calls off all its turns, once it is set."""
        return self._signal

    async def __aenter__(self) -> Self:
        if self._manager is not None:
            raise RuntimeError("a pool is entered once; make another one")
        # Its clock begins with the block, unless it was given a running one.
        _ = self.trail
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        await self._house.__aenter__()
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
        try:
            with trio.CancelScope(shield=True):
                await self._end([kept for each in self._kept.values() for kept in each])
            # It raises what ends the program, and swallows nothing: nobody kills it.
            await self._house.__aexit__(kind, error, trace)
        finally:
            nursery.cancel_scope.cancel()
            # Last, because subagents talk to them to their end.
            self._models.close()
            await self._manager.__aexit__(None, None, None)

    async def turn(
        self,
        agent: AgentLike,
        task: str,
        *,
        key: str | None = None,
        signal: Signal | None = None,
    ) -> Result:
        """Play one turn of `agent`, and record it.

        With lifetime "task" a fresh subagent plays it and is closed before this
        returns, unless its mind does not let go when it is cut: then the pool closes
        it, and waits for that where it is closed itself.
        With any other, everybody who names the same agent and key shares one subagent,
        which is spawned once and serves them in the order of asking; it lives until
        the pool is closed.

        Args:
            agent: who plays.
            task: what it is asked.
            key: who shares a memory; the agent's name unless given.  Two agents
                never share one, even if they have the same name.
            signal: cuts this turn too, besides the pool's own.

        Raises:
            ModelError: there is no model to ask; nothing was recorded.
            RuntimeError: the pool is not open.
            TypeError: the task is no text, or `agent` no agent.
        """
        check_task(task)
        cast = self._casts.get(id(agent)) or self._cast(agent)
        signal = signal or self._signal
        if signal is None:
            return self.trail.record(await self._turn(cast, task, key, None))
        return await self._under(
            signal, cast.agent.name, lambda cut: self._turn(cast, task, key, cut)
        )

    def _cast(self, agent: AgentLike) -> _Cast:
        """What is worked out once of `agent`, which may play many turns."""
        options = self._options
        is_whole = all(options.get(each) is None for each in ("spawn", "export_dir", "budget"))
        cast = _Cast(agent, self._lifetime, self.timeout, is_whole)
        if len(self._casts) >= _CASTS_KEPT:
            # Closures are new each time, and so would be kept for ever.
            self._casts.clear()
        self._casts[id(agent)] = cast
        return cast

    async def _under(
        self, signal: Signal, name: str, play: Callable[[_Cut], Awaitable[Result]]
    ) -> Result:
        """A turn that `signal` may cut: then it ends as that says, and costs what it has cost."""
        self._running()
        cut = _Cut(signal)
        if not signal.is_set:
            with cut.scope, signal.calling(cut.scope.cancel):
                try:
                    cut.result = await play(cut)
                finally:
                    # Also when it is cut from outside at the same time.
                    if cut.result is not None:
                        self.trail.record(cut.result)
            if cut.result is not None:
                return cut.result
        assert signal.error is not None
        return self.trail.record(failed(name, signal.error))

    async def _turn(self, cast: _Cast, task: str, key: str | None, cut: _Cut | None) -> Result:
        if cast.brief is not None and not current_stream().listeners:
            self._running()
            return await self._briefly(cast.brief, task, cut)
        agent = cast.agent
        key = agent.name if key is None else key
        if cast.lifetime == "task":
            self._running()
            return await self._once(agent, task, key, cut)
        while True:
            result = await self._play(self._keeper(agent, key, self._lifetime), task, cut)
            # It had died before our turn came: whoever comes next has a new one.
            if result is not None:
                return result

    async def lend(
        self, member: Askable, task: str, *, key: str | None = None, signal: Signal | None = None
    ) -> Result:
        """Play one turn of somebody who is alive already, and is not closed; and record it.

        It has the timeout of the pool, and is paid from its budget, unless it pays from
        that itself.

        Args:
            member: who is asked.
            task: what.
            key: what the turn is called by; the member's name unless given.
            signal: cuts this turn too, besides the pool's own.

        Raises:
            RuntimeError: the pool is not open.
            TypeError: the task is no text.
        """
        check_task(task)
        self._running()
        lent = Lent(member, self.timeout, self._options.get("budget"))
        name = lent.name
        key = name if key is None else key
        its_turn: AbstractAsyncContextManager[object] = nullcontext()
        if isinstance(member, Subagent):
            its_turn = self._lent.setdefault(member, trio.Lock())

        async def play(cut: _Cut | None) -> Result:
            async with its_turn:
                return await self._asked(lent, task, key, name, cut)

        signal = signal or self._signal
        if signal is None:
            return self.trail.record(await play(None))
        return await self._under(signal, name, play)

    async def hold(
        self, agent: AgentLike, *, key: str | None = None, signal: Signal | None = None
    ) -> Held:
        """A subagent for a conversation: it outlives its turns whatever the lifetime.

        If it cannot be spawned, its `id` is the key and every ask answers why.  So it
        is when `signal`, or else the pool's, is set before it is there; set later, it
        cuts a turn in flight, and refuses every later one.  Called off or cancelled while
        it is spawned, nothing of it is left, unless others want it too.

        Raises:
            ModelError: there is no model to ask.
            RuntimeError: the pool is not open.
        """
        agent = agent_of(agent)
        key = agent.name if key is None else key
        lifetime, _ = resolve_lifetime(self._lifetime, agent)
        signal = signal or self._signal
        if signal is not None and signal.is_set:
            return self._refused(key, agent.name, signal)
        kept = self._keeper(agent, key, "workflow" if lifetime == "task" else self._lifetime)
        cut = trio.CancelScope()
        watched = nullcontext() if signal is None else signal.calling(cut.cancel)
        with kept.want(), cut, watched:
            await kept.settled.wait()
        if cut.cancelled_caught:
            assert signal is not None
            return self._refused(key, agent.name, signal)
        if isinstance(kept.failure, ModelError):
            raise kept.failure

        async def play(task: str, cut: _Cut | None) -> Result:
            result = await self._play(kept, task, cut)
            return _closed(kept) if result is None else result

        async def ask(task: str) -> Result:
            if signal is None:
                return self.trail.record(await play(task, None))
            return await self._under(signal, agent.name, lambda cut: play(task, cut))

        return Held(key if kept.player is None else kept.player.id, ask)

    def _refused(self, key: str, name: str, signal: Signal) -> Held:
        """What is held once all is called off: it answers that."""

        async def refuse(task: str) -> Result:
            await trio.lowlevel.checkpoint()
            assert signal.error is not None
            return self.trail.record(failed(name, signal.error))

        return Held(key, refuse)

    async def close_all(self) -> None:
        """Close every subagent that is kept, all at the same time.

        A turn in progress is cut, and is a Result.  The record stays.  Once is
        enough, more does nothing; several callers wait for the same end.
        """
        await self._end([kept for each in self._kept.values() for kept in each])

    async def _briefly(self, start: BriefStart, task: str, cut: _Cut | None) -> Result:
        """One turn of a function that nobody watches."""
        brief = begin_brief(self._house.root, start, task)
        try:
            if self._switch is None:
                return await brief.answer()
            with self._switch.standing(brief.id, partial(brief.end, "stopped", "stopped")):
                return await brief.answer()
        except trio.Cancelled:
            self._was_cut(brief.failed, cut)
            raise

    async def _once(self, agent: Agent, task: str, key: str, cut: _Cut | None) -> Result:
        # Numbered here, in the order of asking: tasks begin in any.
        once = _Once(None if self._options.get("spawn") else next_id(agent.name))
        self._running().start_soon(self._host, once, agent, task, key, cut)
        try:
            await once.over.wait()
        except trio.Cancelled:
            once.scope.cancel()
            with trio.CancelScope(shield=True):
                await once.over.wait()
            # It was over before it could be cut: what was paid for is recorded.
            if once.result is not None and cut is None:
                self.trail.record(once.result)
            raise
        if once.error is not None:
            raise once.error
        if once.result is None:
            return failed(agent.name, "closed", "its pool was left while it played")
        return once.result

    async def _host(self, once: _Once, agent: Agent, task: str, key: str, cut: _Cut | None) -> None:
        try:
            with once.scope:
                once.result = await self._play_once(once, agent, task, key, cut)
        # For whoever waits for the turn; nobody here is to end over it.
        except (ModelError, KeyboardInterrupt, SystemExit) as error:
            if once.over.is_set():
                raise
            once.error = error
        finally:
            once.over.set()
            once.gone.set()
            self._left.pop(once, None)

    def _leave(self, once: _Once, player: Player, result: Result | None) -> None:
        """Let whoever waits for the turn have what it came to, if its mind is deaf."""
        if isinstance(player, Subagent) and player.is_stuck:
            self._left[once] = None
            once.result = result
            once.over.set()

    async def _play_once(
        self, once: _Once, agent: Agent, task: str, key: str, cut: _Cut | None
    ) -> Result:
        player: Player | None = None
        result: Result | None = None
        was_cut: BaseException | None = None
        try:
            # What was asked for, not what it came to: the source is on the event.
            async with self._open(agent, key, self._lifetime, id=once.id) as player:
                try:
                    result = await self._asked(player, task, key, agent.name, cut)
                except (trio.Cancelled, BaseExceptionGroup) as error:
                    was_cut = error
                    raise
                finally:
                    self._leave(once, player, result)
        except ModelError:
            raise
        except trio.Cancelled:
            # Cut while it was closed: what was answered and paid for is recorded.
            if result is not None and cut is None and not once.over.is_set():
                self.trail.record(result)
            raise
        # A combinator counts failures: one that cannot be spawned, or that
        # crashes, fails its own turn and nobody else's.
        except Exception as error:
            if player is None:
                return _not_started(agent, error)
            if result is None and was_cut is None:
                return failed(agent.name, crash_of(_first(error)), subagent=player.id)
            # The answer was given; an end that fails does not take it back.
            emit("turn.close_failed", player.id, key=key, error=_sentence(error))
            if was_cut is not None:
                # Recorded already.  A close that fails is no reason to go on.
                raise was_cut from error
        except BaseExceptionGroup as group:
            # Cut while it crashed, or while its close failed: the cut is what passes.
            if result is not None and cut is None and not once.over.is_set():
                self.trail.record(result)
            raise without_failures(group) from None
        assert result is not None
        return result

    async def _play(self, kept: _Kept, task: str, cut: _Cut | None = None) -> Result | None:
        """One turn of `kept`, in its turn; None if it has died before."""
        with kept.want():
            return await self._play_next(kept, task, cut)

    async def _play_next(self, kept: _Kept, task: str, cut: _Cut | None) -> Result | None:
        async with kept.turns:
            await kept.settled.wait()
            if isinstance(kept.failure, ModelError):
                raise kept.failure
            if kept.player is None:
                error = kept.failure or RuntimeError("it was closed before it was ready")
                beside, kept.beside = kept.beside, NOTHING
                return _not_started(kept.agent, error, beside)
            if kept.scope.cancel_called:
                return _closed(kept)
            if kept.dead:
                return None
            try:
                beside, kept.beside = kept.beside, NOTHING
                result = await self._asked(
                    kept.player, task, kept.key, kept.agent.name, cut, beside
                )
            except ActorStopped:
                self._died(kept)
                return None
            # Its task learns of it later than we do.
            if result.error is not None and result.error.kind in ("crash", "dead"):
                self._died(kept)
            return result

    def _died(self, kept: _Kept) -> None:
        kept.dead = True
        if isinstance(kept.player, Subagent) and kept.agent.remember != "fresh":
            self._crashed[kept.key, kept.agent] = kept.player

    def _keeper(self, agent: Agent, key: str, lifetime: Lifetime | None) -> _Kept:
        """The one that is kept for `agent` under `key`, begun now if there is none.

        It waits for nothing, so that two who ask at once find the same.
        """
        nursery = self._running()
        same_key = self._kept.setdefault(key, [])
        for kept in same_key:
            # Equal agents are one agent: a function becomes a new one each time.
            ending = kept.dead or kept.failure is not None or kept.scope.cancel_called
            if kept.agent == agent and not ending:
                return kept
        kept = _Kept(
            agent, key, heir_of=self._crashed.pop((key, agent), None) if self._crashed else None
        )
        same_key.append(kept)
        nursery.start_soon(self._keep, kept, lifetime)
        return kept

    async def _keep(self, kept: _Kept, lifetime: Lifetime | None) -> None:
        try:
            with kept.scope:
                async with self._open(
                    kept.agent, kept.key, lifetime, await _inherited(kept)
                ) as player:
                    kept.player = player
                    kept.settled.set()
                    await trio.sleep_forever()
        # As in a single turn: whoever asks is told, and nobody else is harmed.
        except Exception as error:
            kept.failure = error
            if kept.player is not None:
                emit("turn.close_failed", kept.player.id, key=kept.key, error=_sentence(error))
        except BaseExceptionGroup as group:
            raise without_failures(group) from None
        finally:
            kept.settled.set()
            kept.over.set()
            same_key = self._kept[kept.key]
            same_key.remove(kept)
            if not same_key:
                del self._kept[kept.key]

    @asynccontextmanager
    async def _open(
        self,
        agent: Agent,
        key: str,
        lifetime: Lifetime | None,
        memory: Memory | None = None,
        id: str | None = None,  # noqa: A002 - as a subagent has it
    ) -> AsyncGenerator[Player]:
        """A block that holds one subagent, opened as the options say."""
        spawn = self._options.get("spawn")
        if spawn is not None:
            with ExitStack() as stack:
                async with spawn(agent, lifetime=lifetime) as player:
                    self._let_stop(player, agent, lifetime, stack)
                    yield player
            return
        options = self._options
        model = options.get("model")
        within = options.get("within")
        is_resident = resolve_lifetime(lifetime, agent)[0] == "session"
        if is_resident and within is None:
            # The pool is the session, as nobody names another block that is.
            lifetime, is_resident = "workflow", False
        # One that lives on in another block needs a model that lives as long: it opens its own.
        if is_of_model(agent) and (model is None or isinstance(model, str)) and not is_resident:
            name = model or agent.model or default_model()
            model = await self._models.get(name, api_of(agent), self._running())
        # Left last: one that was stopped is down when it has been closed.
        with ExitStack() as stack:
            async with spawn_subagent(
                agent,
                within=within if is_resident else None,
                key=key,
                lifetime=lifetime,
                id=id,
                model=model,
                timeout=self.timeout,
                export_dir=options.get("export_dir"),
                budget=options.get("budget"),
                prices=options.get("prices"),
                roster=options.get("roster"),
                memory=memory,
            ) as player:
                self._let_stop(player, agent, lifetime, stack)
                yield player

    def _let_stop(
        self, player: Player, agent: Agent, lifetime: Lifetime | None, stack: ExitStack
    ) -> None:
        """Let the switch stop `player` until `stack` is left, if there is one and it can be."""
        stop = getattr(player, "stop", None)
        if self._switch is not None and stop is not None:
            is_kept = resolve_lifetime(lifetime, agent)[0] != "task"
            whole = player if isinstance(player, Subagent) else None
            standing = self._switch.standing(player.id, stop, is_kept=is_kept, subagent=whole)
            stack.enter_context(standing)

    async def _end(self, many: list[_Kept]) -> None:
        for kept in many:
            kept.scope.cancel()
        for kept in many:
            await kept.over.wait()
        for once in list(self._left):
            await once.gone.wait()

    async def _asked(
        self,
        player: Player,
        task: str,
        key: str,
        name: str,
        cut: _Cut | None,
        beside: Usage = NOTHING,
    ) -> Result:
        """One turn of `player`, which costs `beside` as well."""
        emit("turn.began", player.id, key=key)
        before = spent_by(player)
        result: Result | None = None
        playing = nullcontext() if self._switch is None else self._switch.playing(player.id)

        def fail(error: TurnError) -> Result:
            # It costs what it has cost, whoever cut it.
            usage = spent_by(player).delta(before).accumulate(beside)
            return failed(name, error, subagent=player.id, usage=usage)

        try:
            try:
                with playing:
                    result = await player.ask(task)
                if beside is not NOTHING:
                    usage = result.usage.accumulate(beside)
                    result = msgspec.structs.replace(result, usage=usage)
            except (ActorStopped, ModelError):
                raise
            # A combinator counts failures: a player that raises fails its own turn. Here, and
            # not around its block, so that a cut while that is left does not lose it.
            except Exception as error:
                result = fail(crash_of(_first(error)))
            if cut is not None:
                why = cut.signal.error
                if why is not None and result.error is not None and result.error.kind == "crash":
                    # What it raises because it is cut is not why it has ended.
                    result = failed(name, why, subagent=player.id, usage=result.usage)
                cut.result = result
            return result
        except trio.Cancelled:
            result = self._was_cut(fail, cut)
            raise
        except BaseExceptionGroup as group:
            result = self._was_cut(fail, cut)
            raise without_failures(group) from None
        finally:
            # Also when it is cut: who shows what is going on must see it end.
            tell_end(player.id, key, result)

    def _was_cut(self, fail: Callable[[TurnError], Result], cut: _Cut | None) -> Result:
        """Record a turn that was cancelled, or hand it to the signal that has done it."""
        error = cut.signal.error if cut is not None else None
        result = fail(error or TurnError("cancelled", "cut from outside"))
        if error is None or cut is None:
            self.trail.record(result)
        else:
            cut.result = result
        return result

    def _running(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError("the pool is not open: turns are played inside `async with`")
        return self._nursery


def tell_end(who: str, key: str, result: Result | None) -> None:
    """Tell of the end of a turn of `who`; None for one that has no Result."""
    usage = NOTHING if result is None else result.usage
    emit(
        "turn.ended",
        who,
        key=key,
        status="crashed" if result is None else result.status,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


async def _inherited(kept: _Kept) -> Memory | None:
    """What `kept` is to know of the one whose place it takes."""
    if kept.heir_of is None:
        return None
    before = kept.heir_of.usage
    try:
        return await kept.heir_of.inheritance()
    finally:
        # Its time is nobody's turn.
        kept.beside = msgspec.structs.replace(
            kept.heir_of.usage.delta(before), wall_seconds=0.0, context_tokens=None
        )


def _not_started(agent: Agent, error: Exception, usage: Usage = NOTHING) -> Result:
    first = _first(error)
    kind: ErrorKind = "budget" if isinstance(first, OutOfBudget) else "start_failed"
    why = TurnError(kind, f"no subagent could be spawned: {_sentence(first)}")
    return failed(agent.name, why.with_cause(error), usage=usage)


def _closed(kept: _Kept) -> Result:
    who = kept.key if kept.player is None else kept.player.id
    return failed(kept.agent.name, "closed", f"{who} was closed", subagent=who)


def _first(error: BaseException) -> BaseException:
    """Of a group the first error in it, else `error` itself."""
    while isinstance(error, BaseExceptionGroup):
        group: BaseExceptionGroup[Any] = error
        error = group.exceptions[0]
    return error


def _sentence(error: BaseException) -> str:
    error = _first(error)
    return described(error).removesuffix(": ")


async def _nothing(task: str) -> str:
    return task


_ANYBODY = Agent("anybody", _nothing)
