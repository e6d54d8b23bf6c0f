"""Runs a program against the real supervisor, and against :mod:`model` beside it."""

from __future__ import annotations

import math
from typing import Any, cast

import trio
import trio.testing
from attrs import frozen

from standby.testing import PumpSeam
from standby_actors import (
    Actor,
    ActorCrashed,
    ActorStopped,
    Event,
    Ref,
    Reply,
    Shutdown,
    emit,
    open_events,
)
from standby_actors.reply import now
from standby_supervision import (
    Backoff,
    Branch,
    ChildSpec,
    Counts,
    Ignore,
    child,
    open_supervisor,
    supervisor,
)
from standby_supervision.supervisor import (
    CountChildren,
    DeleteChild,
    RestartChild,
    StartChild,
    TerminateChild,
    WhichChildren,
)
from tests.support.schedule import seeded

from . import model_rules as rules
from .model import Entry, Move, Path, Spec, State, Unexplained, explore, new_state

TOP = "supervisor/top/"


@frozen
class Program:
    """A tree, and what is done to it: bursts of actions, with time or rest between them."""

    spec: Spec
    extras: tuple[Spec, ...]
    """Children that may be added."""
    bursts: tuple[tuple[float, tuple[Move, ...]], ...]
    """Seconds that pass after the actions, and those: what, path, and what it takes."""
    scheduler: int
    pump: int
    budget: int


class Fails(Exception):
    """How a child of the model fails."""


class Plain(Actor):
    """A child without hooks, whose constructor may fail."""

    def __init__(self, scripts: dict[str, str], spec: Spec, name: str = "") -> None:
        self.spec = spec
        outcome, _ = rules.START_HOOK[scripts.get(name or spec.id, "ok")]
        if outcome != "up" and spec.kind == "plain":
            raise Ignore if outcome == "ignored" else Fails

    def receive(self, message: Any) -> Any:
        match message:
            case "die":
                raise Fails
            case "normal":
                self.stop()
            case "shutdown":
                self.stop(Shutdown("asked"))
            case _:
                pass
        return self.ref.incarnation


class Hooked(Plain):
    """A child whose hooks and handler may wait."""

    def __init__(self, scripts: dict[str, str], spec: Spec, name: str = "") -> None:
        super().__init__(scripts, spec)
        self.scripts = scripts
        self.name = name or spec.id

    async def on_start(self) -> None:
        outcome, seconds = rules.START_HOOK[self.scripts.get(self.name, "ok")]
        if seconds:
            await trio.sleep(seconds)
        if outcome != "up":
            raise Ignore if outcome == "ignored" else Fails

    async def receive(self, message: Any) -> Any:
        if message == "hang" and self.spec.can_hang:
            await trio.sleep_forever()
        return super().receive(message)

    async def on_stop(self, reason: object) -> None:
        if self.spec.slow_stop:
            await trio.sleep(rules.SLOW_STOP)


def real_spec(spec: Spec, scripts: dict[str, str]) -> ChildSpec:
    """What the library is told of `spec`."""
    common: dict[str, Any] = {
        "id": spec.id,
        "restart": spec.restart,
        "shutdown": spec.shutdown,
        "significant": spec.significant,
    }
    if spec.kind != "sup":
        return child(
            Hooked if spec.kind == "hooked" else Plain,
            scripts,
            spec,
            when_down="fail" if spec.fails_when_down else "wait",
            **common,
        )
    return supervisor(
        *(real_spec(each, scripts) for each in spec.children),
        strategy=cast("Any", spec.strategy),
        intensity=spec.intensity,
        period=rules.PERIOD,
        backoff=Backoff(0.5, 2.0, 2.0, 0.0, rules.RESET_AFTER) if spec.has_backoff else None,
        auto_shutdown=cast("Any", spec.auto_shutdown),
        max_children=spec.most,
        **common,
    )


def word(reason: str) -> str:
    """The kind of an end."""
    first = reason.split(" ", 1)[0]
    return {"crashed": "crash"}.get(first, first)


def entry_of(event: Event) -> Entry | None:
    """What the diary of the model has for `event`."""
    if not event.actor.startswith(TOP) and event.type != "act":
        return None
    path = event.actor.removeprefix(TOP)
    data = event.data
    match event.type:
        case "act":
            what, details = "act", str(data["how"])
        case "actor.stopped":
            what, details = "down", word(data["reason"])
        case "supervisor.progress":
            what, path, details = "up", f"{path}/{data['child']}", data["level"]
        case "supervisor.start_error":
            what, path, details = "start_error", f"{path}/{data['child']}", ""
        case "supervisor.child_terminated":
            what, path = "child_terminated", f"{path}/{data['child']}"
            details = word(data["reason"])
        case "supervisor.shutdown_error":
            what, details = "shutdown_error", f"{word(data['reason'])} {data['children']}"
            path = f"{path}/{data['child']}"
        case "supervisor.gave_up":
            what, path, details = "gave_up", f"{path}/{data['child']}", data["reason"]
        case _:
            return None
    return event.monotonic, what, path, details


class Runner:
    """One program, run."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.scripts: dict[str, str] = {}
        self.specs = {each.id: each for each in _all(program.spec, program.extras)}
        self.replies: dict[int, tuple[str, Reply[Any]]] = {}
        self.answers: dict[int, str] = {}
        self.diary: list[Entry] = []
        self.states: list[State] = [new_state(program.spec, self.specs)]
        self.number = 0
        self.most_states = 1

    def run(self) -> None:
        """Run it; raises :class:`Unexplained` where it does what no rule says."""
        program = self.program
        now.inline = 0  # a count of the whole process; from it depends who gives way when
        seam = PumpSeam(program.pump, budget=program.budget)
        with seeded(program.scheduler), seam.installed():
            trio.run(self._main, clock=trio.testing.MockClock(autojump_threshold=0))

    async def _main(self) -> None:
        with trio.fail_after(10_000):
            async with open_events(100_000) as events, trio.open_nursery() as nursery:
                nursery.start_soon(self._read, events)
                async with open_supervisor() as outer:
                    await self._drive(outer)
                await trio.testing.wait_all_tasks_blocked()
                self._check([(self.number, "stop", ("sup",))], math.inf, {}, last=True)
                nursery.cancel_scope.cancel()

    async def _read(self, events: Any) -> None:
        async for event in events:
            entry = entry_of(event)
            if entry is not None:
                self.diary.append(entry)

    async def _drive(self, outer: Branch) -> None:
        spec = real_spec(self.program.spec, self.scripts)
        self.replies[-1] = ("start", outer.ref.ask(StartChild(spec)))
        bursts = ((0.0, ()), *self.program.bursts)
        for seconds, actions in bursts:
            numbered = [(self.number + at, *each) for at, each in enumerate(actions)]
            for action in numbered:
                self._act(outer, action)
            self.number += len(actions)
            if seconds:
                await trio.sleep(seconds)
            await trio.testing.wait_all_tasks_blocked()
            alive = {
                each.path.removeprefix(TOP): each.incarnation
                for each in outer.ref.snapshot()
                if each.path.startswith(TOP) and each.state not in ("ended", "restarting", "down")
            }
            self._check(numbered, trio.current_time(), alive)

    def _act(self, outer: Branch, action: Move) -> None:
        number, what, path, *rest = action
        if what == "script":
            emit("act", str(number), how="done")
            self.scripts[path[0]] = rest[0]
            return
        ref = find(outer, path)
        if what == "call" and (ref is None or not _is_up(outer, path)):
            ref = None
        emit("act", str(number), how="done" if ref is not None else "nobody")
        if ref is None:
            return
        match what:
            case "stop":
                ref.stop()
            case "kill":
                ref.kill()
            case "call":
                self.replies[number] = (what, ref.ask(self._request(ref, *rest)))
            case _ if rest[0]:
                self.replies[number] = (what, ref.ask(what))
            case _:
                ref.tell(what)

    def _request(self, ref: Ref[Any], what: str, key: str) -> Any:
        match what:
            case "start":
                sup = self._spec_of(ref)
                if sup.strategy == "dynamic":
                    return StartChild(None, (key,), key)
                return StartChild(real_spec(self.specs[key], self.scripts))
            case "terminate":
                return TerminateChild(key)
            case "restart":
                return RestartChild(key)
            case "delete":
                return DeleteChild(key)
            case "which":
                return WhichChildren()
            case _:
                return CountChildren()

    def _spec_of(self, ref: Ref[Any]) -> Spec:
        return self.specs[ref.path.rpartition("/")[2]]

    def _check(
        self, actions: list[Move], until: float, alive: dict[str, int], *, last: bool = False
    ) -> None:
        for number, (what, reply) in list(self.replies.items()):
            if reply.done:
                self.answers[number] = answer_of(what, reply)
                del self.replies[number]
        diary, self.diary = self.diary, []
        if last:
            # The block has told it to stop; nobody else did anything.
            now = self.states[0].now
            diary.insert(0, (now, "act", str(self.number), "done"))
            if not self.states[0].root.is_alive:
                diary[0] = (now, "act", str(self.number), "nobody")
            assert not self.replies, f"open when all has ended: {self.replies}"
        self.states = explore(self.states, diary, actions, until, self.answers, alive)
        self.most_states = max(self.most_states, len(self.states))


def find(outer: Branch, path: Path) -> Ref[Any] | None:
    """The ref at `path`, if there is one."""
    try:
        branch = outer
        for each in path[:-1] or path:
            branch = branch.branch(each)
        return branch[path[-1]] if len(path) > 1 else branch.ref
    except (KeyError, TypeError, ActorStopped):
        return None


def _is_up(outer: Branch, path: Path) -> bool:
    try:
        branch = outer
        for each in path:
            branch = branch.branch(each)
    except (KeyError, TypeError, ActorStopped):
        return False
    return True


def answer_of(what: str, reply: Reply[Any]) -> str:
    """The model's word for what an ask resolved to."""
    try:
        value = reply.result()
    except ActorCrashed:
        return "crashed"
    except ActorStopped:
        return "stopped"
    if isinstance(value, tuple):
        return f"which {[f'{each.id} {each.state}' for each in value]}"
    if isinstance(value, Counts):
        return f"count {[value.specs, value.active, value.supervisors, value.workers]}"
    return type(value).__name__ if what in ("call", "start") else f"value {value}"


def _all(spec: Spec, extras: tuple[Spec, ...]) -> list[Spec]:
    found, todo = [], [spec, *extras]
    while todo:
        each = todo.pop()
        found.append(each)
        todo.extend(each.children)
    return found


__all__ = ["Program", "Runner", "Unexplained"]
