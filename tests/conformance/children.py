"""Children for supervisors under test: they do what they are told, and write down their lives."""

from __future__ import annotations

import collections
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

import trio
import trio.testing
from attrs import define, field

from standby_actors import Actor, Crashed, ExitReason, Killed, Normal, Ref, Shutdown
from standby_actors.cell import Cell
from standby_supervision import (
    Branch,
    ChildSpec,
    Ignore,
    SupervisorSpec,
    child,
    open_supervisor,
    supervisor,
)

Outcome = BaseException | None
Script = Callable[[int], Outcome] | Callable[[int], Awaitable[Outcome]]


class Died(Exception):
    """How a child crashes."""


class NotToday(Exception):
    """What a start hook fails with."""


@define(eq=False)
class World:
    """What the children of one test share: their diary, and what their starts shall do."""

    diary: list[tuple[str, str, Any]] = field(factory=list)
    """("up", name, number of its starts) and ("down", name, reason), in order."""
    starts: collections.Counter[str] = field(factory=collections.Counter)
    scripts: dict[str, Script] = field(factory=dict)
    """By name: what the n-th start of a child ends with; None lets it live."""
    hangs: bool = False
    """Whether the start of a :class:`D` takes two seconds, and fails."""

    def take(self) -> list[tuple[str, str, Any]]:
        """What was written since the last look."""
        taken, self.diary = self.diary, []
        return taken


def word(reason: ExitReason) -> str:
    """How Erlang would write `reason`."""
    match reason:
        case Normal():
            return "normal"
        case Shutdown(""):
            return "shutdown"
        case Shutdown(detail):
            return f"{{shutdown,{detail}}}"
        case Killed():
            return "killed"
        case Crashed():
            return "crash"
        case _:
            return str(reason)


class W(Actor):
    """Ends at once when it is stopped, and otherwise does what the message says."""

    def __init__(self, world: World, name: str, *rest: object) -> None:
        self.world = world
        self.name = name

    async def on_start(self) -> None:
        self.world.starts[self.name] += 1
        number = self.world.starts[self.name]
        script = self.world.scripts.get(self.name)
        if script is not None:
            outcome = script(number)
            if isinstance(outcome, Awaitable):
                outcome = await outcome
            if outcome is not None:
                raise outcome
        self.world.diary.append(("up", self.name, number))

    async def receive(self, message: Any) -> Any:
        match message:
            case "stop":
                return self.stop()
            case "die":
                raise Died(self.name)
            case "sleep", seconds:  # deaf: nothing but a kill ends this
                for _ in itertools.count():
                    await trio.sleep(seconds)
            case "end", Crashed(error):
                raise error
            case "end", reason:
                return self.stop(reason)
            case _:
                return message
        raise AssertionError("an endless sleep")

    def on_stop(self, reason: ExitReason) -> Any:
        self.world.diary.append(("down", self.name, word(reason)))


class Z(W):
    """Takes its time to clean up."""

    def __init__(self, world: World, name: str, seconds: float) -> None:
        super().__init__(world, name)
        self.seconds = seconds

    async def on_stop(self, reason: ExitReason) -> None:
        await trio.sleep(self.seconds)
        super().on_stop(reason)


class E(W):
    """Has a reason of its own to end with: on "stop", and where it is an error, always."""

    def __init__(self, world: World, name: str, reason: ExitReason) -> None:
        super().__init__(world, name)
        self.reason = reason

    async def receive(self, message: Any) -> Any:
        return await super().receive(("end", self.reason) if message == "stop" else message)

    def on_stop(self, reason: ExitReason) -> None:
        super().on_stop(reason)
        if isinstance(self.reason, Crashed):
            raise self.reason.error


class D(W):
    """Starts at once, or, while the world hangs, takes two seconds to fail."""

    async def on_start(self) -> None:
        if self.world.hangs:
            await trio.sleep(2)
            raise NotToday(self.name)
        await super().on_start()


class N(W):
    """Wants nothing to do with its supervisor."""

    async def on_start(self) -> None:
        above = cast("Cell[Any]", self.ref).parent
        assert above is not None
        self.unlink(above)
        await super().on_start()


def ignored_first(number: int) -> Outcome:
    """W(ignore): the first start finds nothing to run."""
    return Ignore() if number == 1 else None


def fails_later(number: int) -> Outcome:
    """W(error): only the first start succeeds."""
    return NotToday(f"start {number}") if number > 1 else None


def fails_always(number: int) -> Outcome:
    """No start succeeds."""
    return NotToday(f"start {number}")


class Answers:
    """A: each start asks the test what it shall end with."""

    def __init__(self, world: World, *names: str) -> None:
        self._asked, self._question = trio.open_memory_channel[tuple[str, trio.Event, list[Any]]](9)
        for name in names:
            world.scripts[name] = self._ask_about(name)

    def _ask_about(self, name: str) -> Script:
        async def ask(_: int) -> Outcome:
            answered, box = trio.Event(), list[Any]()
            await self._asked.send((name, answered, box))
            await answered.wait()
            return cast("Outcome", box[0])

        return ask

    async def next_asks(self, name: str, outcome: Outcome = None) -> None:
        """Wait for the next start, which is that of `name`, and tell it `outcome`."""
        asker, answered, box = await self._question.receive()
        assert asker == name
        box.append(outcome)
        answered.set()


# ---- supervisors under test


@asynccontextmanager
async def supervised(*children: ChildSpec, **flags: Any) -> AsyncGenerator[Branch]:
    """A supervisor whose end is nobody's error: it stands below another, as a temporary child."""
    flags = {"intensity": 1, **flags}
    spec = supervisor(*children, id="sup", restart="temporary", **flags)
    async with open_supervisor(spec) as top:
        yield top.branch("sup")


def flags(**values: Any) -> SupervisorSpec:
    """A supervisor's flags and children, for `update_specs`."""
    options: dict[str, Any] = {"intensity": 1, **values}
    return SupervisorSpec(**options)


def w(world: World, name: str, start: type[W] = W, /, *args: object, **options: Any) -> ChildSpec:
    """The specification of a child with the given name."""
    options = {"shutdown": 1.0, **options}
    return child(start, world, name, *args, id=name, **options)


def own(world: World, start: type[W] = W, **options: Any) -> ChildSpec:
    """A template: its children get their names, and what else they need, when they start."""
    options = {"shutdown": 1.0, **options}
    return child(start, world, id="template", **options)


async def quiet() -> None:
    """Wait until nothing more happens by itself."""
    await trio.testing.wait_all_tasks_blocked()


# ---- what can be seen of them


def life(ref: Ref[Any]) -> tuple[Ref[Any], int]:
    """What a pid is to OTP: this actor, in this life."""
    return ref, ref.incarnation


async def which(sup: Branch) -> list[tuple[str, str]]:
    """All children with their states, newest first; OTP's pid, undefined, restarting."""
    return [(each.id, each.state) for each in await sup.which_children()]


async def lives(sup: Branch) -> dict[str, tuple[Ref[Any], int]]:
    """The lives of the children that run."""
    return {each.id: life(each.ref) for each in await sup.which_children() if each.ref is not None}


async def counts(sup: Branch) -> list[int]:
    """OTP's four numbers: specs, active, supervisors, workers."""
    seen = await sup.count_children()
    return [seen.specs, seen.active, seen.supervisors, seen.workers]


Way = Literal["terminate", "kill", "crash", "normal"]


async def end(ref: Ref[Any], way: Way | ExitReason | str) -> ExitReason:
    """End this life of a child, and wait until its supervisor has dealt with it."""
    over = cast("Cell[Any]", ref).ended()
    if way == "kill":
        ref.kill()
    elif way == "crash":
        ref.tell("die")
    elif way == "normal":
        ref.tell("stop")
    else:
        ref.tell(("end", way))
    reason = await over
    await quiet()
    return reason


async def crash(ref: Ref[Any]) -> None:
    """Crash a child, and wait until its supervisor has dealt with it."""
    await end(ref, "crash")


async def crash_together(sup: Branch, *keys: str) -> None:
    """Crash children, one after another, while their supervisor does not look."""
    sup.ref.suspend()
    for each in keys:
        sup[each].tell("die")
        await quiet()
    sup.ref.resume()
    await quiet()


async def reason_of(ref: Ref[Any], seconds: float = 1.0) -> ExitReason | None:
    """How `ref` ends within `seconds`; None if it does not."""
    with trio.move_on_after(seconds):
        return await ref.join()
    return None


async def stays(ref: Ref[Any], seconds: float = 1.0) -> bool:
    """Whether `ref` lives for another `seconds`."""
    return await reason_of(ref, seconds) is None
