"""A workspace: a folder, the runs in it, and the right to reach them.

There is no look-up beside it: whoever has no workspace reaches nothing, and whoever has
one reaches what belongs to it, by that object and not by an id that could be anybody's.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import trio
from attrs import frozen

from standby_actors import Limits
from standby_actors.failure import described
from standby_actors.process.nursed import beside

from ..live.keys import AgentKey
from ..live.mail import Rejected
from ..live.recent import Recent
from ..live.refs import AgentRef, NotOurs, Sought, find
from ..live.registry import AgentView, LiveAgent, Terminal
from ..owner import this_process, verdict
from ..store import (
    Append,
    Claim,
    Create,
    Fenced,
    Offer,
    Release,
    Renew,
    RunRow,
    RunTaken,
    Store,
    StoredEvent,
    StoreError,
    StoreUrl,
    open_store,
)
from .errors import DamagedRun, Quarantined, RunOver, RunOwned, WorkspaceDenied
from .facts import (
    AgentExited,
    CancelWanted,
    Forgiven,
    QuestionAnswered,
    RunEnded,
    RunInterrupted,
    RunOpened,
    RunReleased,
    RunResumed,
    event_of,
    fact_of,
)
from .player import Restore
from .run import ATTEMPTS, Run, check_answer
from .state import RunState

FOLDER = ".standby"
"""Where a workspace keeps what is its own."""
GONE = "owner gone"
WATCH_SECONDS = 2.0
"""How often an owner looks what is wanted of its runs from outside."""
RENEW_SECONDS = 10.0
"""How often an owner says that it lives."""
LEASE_SECONDS = 60.0
"""After how long without that an owner that cannot be seen counts as gone."""
RECOVERIES = 5
"""How often in a row the owners of a run may crash before they get anywhere."""
RESUME = "STANDBY_RUN"
"""The variable that tells a program which run it is to go on with."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

AGENTS_OF: dict[str, Terminal] = {"completed": "completed", "failed": "failed"}
"""How agents end that are there when their run does."""

Clock: TypeAlias = Callable[[], float]


@frozen
class Swept:
    """What the look at the runs of gone owners came to."""

    interrupted: tuple[str, ...]
    """Runs that nobody works on any more, as was found now."""
    broken: tuple[tuple[str, str], ...]
    """Runs that could not be looked at, and why; they are as they were."""


class Workspace:
    """One folder and its runs; opened by :func:`open_workspace`, and not by hand."""

    def __init__(self, path: Path, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._runs: dict[str, Run] = {}
        self._recent = Recent()
        self.path = path
        """Resolved: equal paths are one workspace."""
        self.swept = Swept((), ())
        """What was found of runs whose owners are gone, when this was opened."""

    @property
    def store(self) -> Store:
        """Where its runs are kept; it may be shared with other workspaces."""
        return self._store

    def __repr__(self) -> str:
        return f"<Workspace {self.path}>"

    @property
    def at_work(self) -> frozenset[str]:
        """The ids of those of its runs that are open here."""
        return frozenset(self._runs)

    async def runs(self) -> list[RunRow]:
        """Its runs, the newest first."""
        return await self._store.runs(str(self.path))

    def agents(self) -> list[AgentView]:
        """The live agents of its runs in this process: running, queued or waiting.

        Run by run, the oldest first.  An agent is listed as long as its task is there.
        """
        return [view for run in self._runs.values() for view in run.live.views()]

    def recent_agents(self) -> list[AgentView]:
        """Those that have ended, for ten minutes after that; the oldest end first."""
        return [each.view() for each in self._recent.all()]

    def evict(self) -> int:
        """Drop at once what may be dropped of :meth:`recent_agents`; how many those were.

        The workspace does so by itself; who does it again changes nothing else.
        """
        return len(self._recent.evict(trio.current_time()))

    def find(self, text: str) -> Sought | WorkspaceDenied:
        """The agent that is called `text`, as in "scout#2" or "nightly/scout#2".

        A text that names another workspace, or a run that is not at work in this one,
        is answered by :class:`WorkspaceDenied` without a look-up.
        """
        lives = [run.live for run in self._runs.values()]
        there = find(str(self.path), lives, self._recent, text)
        return WorkspaceDenied(str(self.path), text) if isinstance(there, NotOurs) else there

    def ref(self, key: AgentKey) -> AgentRef | Rejected | WorkspaceDenied:
        """By which the life that `key` means is reached, of a run at work here."""
        if key.workspace != str(self.path):
            return WorkspaceDenied(str(self.path), str(key))
        run = self._runs.get(key.run)
        return Rejected(key.name, "exited") if run is None else AgentRef(key, run.live)

    async def reap(self) -> None:
        """Evict agents that have ended, when it is time; for :func:`open_workspace`."""

        async def sync(entry: LiveAgent) -> None:
            run = self._runs.get(entry.key.run)
            if run is None or run.live is not entry.runs:
                entry.is_given_up = True  # the next owner of the run says that it is gone
            else:
                await run.settle(entry, entry.exit)

        await self._recent.reap(sync)

    async def state(self, run: str) -> RunState:
        """What the record of one of its runs comes to.

        Raises:
            WorkspaceDenied: it has no such run, whether or not another has.
            DamagedRun: an event of it cannot be read.
        """
        await self._row(run)
        return self._fold(run, await self._store.read(run))

    async def events(self, run: str, after: int = 0) -> list[StoredEvent]:
        """The events of one of its runs, as they are kept.

        Raises:
            WorkspaceDenied: as above.
        """
        await self._row(run)
        return await self._store.read(run, after)

    @asynccontextmanager
    async def open_run(
        self,
        name: str = "run",
        *,
        id: str | None = None,  # noqa: A002 - as a subagent has it
        restore: Restore = "replay",
        attempts: int = ATTEMPTS,
        recoveries: int = RECOVERIES,
        limits: Limits | None = None,
        **options: Any,
    ) -> AsyncGenerator[Run]:
        """A durable run for the length of the block: a new one, or one gone on with.

        It is on the disk before the block begins.  The block's end is recorded:
        `completed` if it was left, `failed` with what it raised, `cancelled` by
        :meth:`Run.cancel` (the block then ends without an error, as trio's scopes do);
        a cancellation from outside, Ctrl-C or the end of the process leaves it
        `interrupted`.  All but a completed one can be gone on with.

        Args:
            name: what it is called; letters, digits, ``.``, ``_`` and ``-``.
            id: which one: it is made if there is none, and else gone on with.  None
                for a new one, or for the one that ``standby resume`` named.
            restore: what a conversation knows of turns that are not played again.
            attempts: how often a step may begin without its end being recorded.
            recoveries: how often in a row its owners may crash without an outcome,
                before it is left alone.
            limits: what it may spend, over all its lives: what earlier ones have spent
                counts.  Time counts for each life anew.
            options: for each subagent, as :func:`standby.spawn` has them.

        Raises:
            RunOwned: somebody works on it.
            RunOver: it is completed.
            Quarantined: its owners have crashed too often.
            DamagedRun: an event of it cannot be read.
            WorkspaceDenied: the id is that of another workspace's run.
            StoreError: the store refuses; nothing was begun.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"a run is called by up to 100 letters, digits, '.', '_' and '-', not {name!r}"
            )
        run = await self._open(name, id or _told(name), restore, attempts, recoveries, options)
        if limits is not None:
            run.limit(limits)
        run.live.join(str(self.path), self._recent)
        self._runs[run.id] = run
        try:
            async with self._kept(run):
                yield run
        finally:
            del self._runs[run.id]

    async def cancel(self, run: str, why: str = "cancelled", *, by: str = "") -> bool:
        """End one of its runs; False if it is over already.

        One that is at work in this process ends at once, one in another process as soon
        as that looks, within some seconds; one that nobody works on is `cancelled` now.

        Raises:
            WorkspaceDenied: it has no such run.
            StoreError: the wish could not be written.
        """
        row = await self._row(run)
        if row.state in ("completed", "cancelled"):
            return False
        there = self._runs.get(run)
        if there is not None:
            there.cancel(why)
            return True
        now = self._clock()
        if row.owner is not None and not self._is_gone(row):
            wish = event_of(CancelWanted(why, by))
            await self._store.submit(Offer(run, now, (wish,))).wait()
            return True
        ended = (event_of(RunEnded("cancelled", why)),)
        epoch = await self._store.submit(
            Claim(run, row.epoch, this_process(), now, ended, "cancelled")
        ).wait()
        await self._store.submit(Release(run, epoch, now)).wait()
        return True

    async def respond(self, run: str, question: str, answer: str, *, by: str = "") -> bool:
        """Answer a question of one of its runs, at work or not; False if it waits for none.

        Raises:
            WorkspaceDenied: it has no such run.
            KeyError: the run has asked no such question.
            ValueError: the answer is none of its choices.
        """
        there = self._runs.get(run)
        if there is not None:
            return await there.respond(question, answer, by=by)
        state = await self.state(run)
        asked = state.questions[question]
        check_answer(asked, answer)
        if not asked.is_open:
            return False
        fact = QuestionAnswered(question, answer, by)
        await self._store.submit(Offer(run, self._clock(), (event_of(fact),))).wait()
        now = (await self.state(run)).questions[question]
        return now.answer == answer and now.by == by

    async def confirm(self, run: str, *, by: str = "") -> tuple[str, ...]:
        """Let the steps of a run that are in doubt be tried once more; their names.

        One that is in quarantine may be gone on with.  Somebody has looked whether their
        effects are there, and answers for it.

        Raises:
            WorkspaceDenied: it has no such run.
            RunOwned: it is at work.
        """
        row = await self._row(run)
        self._check_free(row)
        state = await self.state(run)
        facts: list[Any] = [Forgiven(step, by) for step in state.open]
        if state.crashes:
            facts.append(RunReleased(by))
        events = tuple(event_of(fact) for fact in facts)
        if events:
            await self._store.submit(Offer(run, self._clock(), events)).wait()
        return tuple(state.open.values())

    async def sweep(self) -> Swept:
        """Find the runs whose owners are gone, and say so in their records.

        Each becomes `interrupted`, and its live agents `orphaned`.  One that cannot be
        looked at is left as it is, and hinders no other.  Doing it again adds nothing.
        """
        interrupted: list[str] = []
        broken: list[tuple[str, str]] = []
        for row in await self.runs():
            if row.owner is None or not self._is_gone(row):
                continue
            try:
                if await self._take_from_the_gone(row):
                    interrupted.append(row.run)
            except DamagedRun as error:
                broken.append((row.run, str(error)))
                # Of what cannot be read nothing is changed but that nobody works on it.
                await self._give_back(row, (), "damaged")
            except StoreError as error:
                broken.append((row.run, str(error)))
        return Swept(tuple(interrupted), tuple(broken))

    async def watch(self) -> None:
        """Say of each run here that its owner lives, and take in what is wanted of it
        from outside; for :func:`open_workspace`."""
        renewed = self._clock()
        while True:
            await trio.sleep(WATCH_SECONDS)
            is_due = not 0 <= self._clock() - renewed < RENEW_SECONDS
            renewed = self._clock() if is_due else renewed
            for run in list(self._runs.values()):
                try:
                    await run.look()
                    if is_due:
                        await self._store.submit(Renew(run.id, run.epoch, renewed)).wait()
                except Fenced:
                    run.cancel("another process has taken it over")
                except StoreError:
                    continue  # it may be better next time; what is written says it as well

    async def _take_from_the_gone(self, row: RunRow) -> bool:
        state = self._fold(row.run, await self._store.read(row.run))
        status = "interrupted" if state.status == "running" else state.status
        return await self._give_back(row, _gone(state), status)

    async def _give_back(self, row: RunRow, facts: tuple[Any, ...], status: str) -> bool:
        """Record that the owner of a run is gone; False if somebody else has taken it."""
        events, now = tuple(event_of(fact) for fact in facts), self._clock()
        claim = Claim(row.run, row.epoch, this_process(), now, events, status)
        try:
            epoch = await self._store.submit(claim).wait()
            await self._store.submit(Release(row.run, epoch, now)).wait()
        except (RunTaken, Fenced):
            return False
        return True

    async def _open(
        self,
        name: str,
        id: str | None,  # noqa: A002 - as above
        restore: Restore,
        attempts: int,
        recoveries: int,
        options: dict[str, Any],
    ) -> Run:
        row = None if id is None else await self._store.run(id)
        more: dict[str, Any] = {
            "restore": restore,
            "attempts": attempts,
            "options": options,
            "clock": self._clock,
        }
        me, now = this_process(), self._clock()
        if row is None:
            run = id or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
            fact = RunOpened(name, me, tuple(sys.orig_argv), os.getcwd())
            made = Create(run, str(self.path), name, me, now, (event_of(fact),), "running")
            await self._store.submit(made).wait()
            state = RunState()
            state.apply(fact)
            return Run(self._store, run, 1, state, 1, **more)
        self._check_ours(row)
        self._check_free(row)
        if row.state == "completed":
            raise RunOver(row.run)
        known = await self._store.read(row.run)
        state = self._fold(row.run, known)
        if state.crashes >= recoveries:
            raise Quarantined(row.run, state.crashes)
        facts = (*_gone(state), RunResumed(me))
        events = tuple(event_of(fact) for fact in facts)
        claim = Claim(row.run, row.epoch, me, now, events, "running")
        try:
            epoch = await self._store.submit(claim).wait()
        except RunTaken as error:
            raise RunOwned(row.run, error.detail) from error
        # What we have written, and what came from outside between the reading and the claim.
        since = await self._store.read(row.run, known[-1].seq if known else 0)
        self._fold(row.run, since, state)
        resumed = Run(self._store, row.run, epoch, state, since[-1].seq, **more)
        resumed.live.recall([*known, *since])
        return resumed

    @asynccontextmanager
    async def _kept(self, run: Run) -> AsyncGenerator[None]:
        """Record how the block ends, and give the run back."""
        ended: Any = RunInterrupted("cancelled from outside")
        try:
            with run.scope:
                yield
            ended = RunEnded("completed", output=run.output)
            if run.scope.cancel_called:
                ended = RunEnded("cancelled", run.why)
        except (trio.Cancelled, KeyboardInterrupt, SystemExit):
            raise
        # It goes on as it is: here it is only written down.
        except BaseException as error:
            ended = RunInterrupted(described(error))
            if isinstance(error, Exception):
                ended = RunEnded("failed", described(error))
            raise
        finally:
            await self._end(run, ended)

    async def _end(self, run: Run, fact: Any) -> None:
        """Also when cancelled: the store bounds how long a transaction takes."""
        status = "interrupted" if isinstance(fact, RunInterrupted) else fact.how
        how = AGENTS_OF.get(status, "cancelled")
        await run.live.over(how, for_good=status == "completed")
        now = self._clock()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LEASE_SECONDS):
            ended = self._store.submit(
                Append(run.id, run.epoch, now, (event_of(fact),), status),
                lambda outcome: None if isinstance(outcome, StoreError) else run.state.apply(fact),
            )
            given_back = self._store.submit(Release(run.id, run.epoch, now))
            try:
                await ended.wait()
                await given_back.wait()
            except Fenced:
                pass  # its end is for its new owner to tell

    async def _row(self, run: str) -> RunRow:
        row = await self._store.run(run)
        if row is None:
            raise WorkspaceDenied(str(self.path), run)
        self._check_ours(row)
        return row

    def _check_ours(self, row: RunRow) -> None:
        if row.workspace != str(self.path):
            raise WorkspaceDenied(str(self.path), row.run)

    def _check_free(self, row: RunRow) -> None:
        if row.owner is not None and not self._is_gone(row):
            raise RunOwned(row.run, f"pid {row.owner.pid}, epoch {row.epoch}")

    def _is_gone(self, row: RunRow) -> bool:
        assert row.owner is not None
        seen = verdict(row.owner)
        if seen == "unknown":
            return self._clock() - row.renewed > LEASE_SECONDS
        # A run of this very process is here, or its block was left without an end.
        is_mine = row.owner == this_process()
        return seen == "gone" or (is_mine and row.run not in _at_work())

    def _fold(
        self, run: str, events: list[StoredEvent], before: RunState | None = None
    ) -> RunState:
        """What `events` come to, after those that have led to `before`, which goes on."""
        state = before or RunState()
        for event in events:
            try:
                fact = fact_of(event)
            except msgspec.DecodeError as error:
                raise DamagedRun(run, event.seq, str(error)) from error
            if fact is not None:
                state.apply(fact)
        return state


def _gone(state: RunState) -> tuple[Any, ...]:
    """The facts of an owner that went without a word."""
    if state.status != "running":
        return ()
    lost = [
        AgentExited(each.subagent, "orphaned", each.incarnation, why=GONE)
        for each in state.agents.values()
    ]
    return (*lost, RunInterrupted(GONE, crashed=True))


_open_workspaces: trio.lowlevel.RunVar[list[Workspace]] = trio.lowlevel.RunVar("standby workspaces")


def _at_work() -> set[str]:
    try:
        return {run for each in _open_workspaces.get() for run in each.at_work}
    except LookupError:
        return set()


@asynccontextmanager
async def open_workspace(
    path: Path | str,
    store: Store | StoreUrl | None = None,
    *,
    clock: Clock = time.time,
) -> AsyncGenerator[Workspace]:
    """A folder and its runs, for the length of a block.

    Runs whose owners are gone are found, and become `interrupted`; see
    :attr:`Workspace.swept`.

    Args:
        path: the folder; links and ``..`` are resolved, and equal ones are one.
        store: where runs are kept: an open store, a file, or the address of a
            PostgreSQL database; None for ``.standby/store.db`` in the folder, which
            only its user can read, and which git passes over.
        clock: seconds since the epoch; tests give another.

    Raises:
        FileNotFoundError: there is no such folder.
        StoreError: the store cannot be opened.
    """
    root = _folder(Path(path), is_own=store is None)
    if isinstance(store, Store):
        async with _entered(root, store, clock) as workspace:
            yield workspace
        return
    where = root / FOLDER / "store.db" if store is None else store
    async with open_store(where) as opened, _entered(root, opened, clock) as workspace:
        yield workspace


@asynccontextmanager
async def _entered(root: Path, store: Store, clock: Clock) -> AsyncGenerator[Workspace]:
    workspace = Workspace(root, store, clock)
    try:
        there = _open_workspaces.get()
    except LookupError:
        there = []
        _open_workspaces.set(there)
    there.append(workspace)
    try:
        workspace.swept = await workspace.sweep()
        async with beside() as nursery:
            nursery.start_soon(workspace.watch)
            nursery.start_soon(workspace.reap)
            yield workspace
    finally:
        there.remove(workspace)


def _folder(path: Path, *, is_own: bool) -> Path:
    root = path.resolve(strict=True)
    if not root.is_dir():
        raise NotADirectoryError(f"a workspace is a folder, and {root} is none")
    if is_own:
        own = root / FOLDER
        own.mkdir(mode=0o700, exist_ok=True)
        os.chmod(own, 0o700)
        ignore = own / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="ascii")
    return root


def _told(name: str) -> str | None:
    """The run that `standby resume` has this program go on with, once."""
    told = os.environ.get(RESUME, "")
    wanted, _, run = told.partition("=")
    if not run or wanted != name:
        return None
    del os.environ[RESUME]
    return run
