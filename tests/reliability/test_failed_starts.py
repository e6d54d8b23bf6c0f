"""Case C16 and its kind: a start that fails leaves nothing behind, and tells everybody at once.

The start begins at 0 s, is found by name, asked and watched at 0.1 s, and fails
at 0.5 s.  Who asked with a timeout of 60 s must not wait for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors import (
    Actor,
    ActorStopped,
    Crashed,
    Exit,
    NameTaken,
    Ref,
    open_nursery,
)
from standby_supervision import (
    Branch,
    GaveUp,
    Ignore,
    Ignored,
    Started,
    StartError,
    StartFailed,
    TooMany,
    child,
    open_supervisor,
    supervisor,
)

NAME = "worker"


class NotToday(Exception):
    """What a start fails with."""


class Starts(Actor):
    """Takes half a second to start, and then fails, unless it is said to be well."""

    def __init__(self, how: str = "fails") -> None:
        self.how = how

    async def on_start(self) -> None:
        await trio.sleep(0.5)
        match self.how:
            case "fails":
                raise NotToday
            case "fails at cleaning up":
                with trio.CancelScope() as scope:
                    try:
                        scope.cancel()
                        await trio.sleep(1)
                    finally:
                        raise NotToday
            case "hangs":
                await trio.sleep_forever()
            case "ignores":
                raise Ignore
            case _:
                return

    def receive(self, message: Any) -> Any:
        return message


class StartsOnItsTask(Starts):
    """The same on a task of its own."""

    dedicated = True


class WithAWorker(Starts):
    """Has a child of its own by the time that it fails."""

    async def on_start(self) -> None:
        self.spawn(Starts, "well", name="below")
        await super().on_start()


class Cannot(Actor):
    """Cannot even be made."""

    def __init__(self, how: str = "fails") -> None:
        if how != "well":
            raise NotToday

    def receive(self, message: Any) -> Any:
        return message


KINDS = [Starts, StartsOnItsTask, WithAWorker]


@define(eq=False)
class Witness:
    """Finds the starting actor by name at 0.1 s, asks it, and watches it in two ways."""

    whereis: Callable[[str], Ref[Any] | None]
    ended: list[tuple[str, float]] = field(factory=list)

    async def looks(self) -> None:
        """Write down what becomes of the ask and of the watching, and when."""
        await trio.sleep(0.1)
        ref = self.whereis(NAME)
        assert ref is not None
        assert ref.snapshot().state == "starting"

        async def asks() -> None:
            with pytest.raises(ActorStopped):
                await ref.ask("anybody?", timeout=60)
            self.ended.append(("ask", trio.current_time()))

        async def joins() -> None:
            reason = await ref.join()
            self.ended.append((type(reason).__name__, trio.current_time()))

        async with trio.open_nursery() as tasks:
            tasks.start_soon(asks)
            tasks.start_soon(joins)

    def saw(self, how: str, at: float) -> bool:
        """Whether the ask failed then, and the watcher heard of that end, once."""
        return sorted(self.ended) == sorted([("ask", at), (how, at)])


class Watches(Actor):
    """Monitors and links itself to what it is told of; keeps what it hears."""

    trap_exits = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, float]] = []

    def receive(self, ref: Ref[Any]) -> None:
        self.monitor(ref)
        self.link(ref)

    def on_down(self, down: Any) -> None:
        self.heard.append(("down", trio.current_time()))

    def on_exit(self, exit: Exit) -> None:  # noqa: A002 - the hook's own word
        self.heard.append(("exit", trio.current_time()))


# ---- in a plain block


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["fails", "fails at cleaning up"])
async def test_in_a_block_the_start_raises_and_name_and_ask_and_watchers_are_free_at_once(
    how: str, kind: type[Starts], autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        witness = Witness(nursery.whereis)
        watcher: Ref[Any] = nursery.spawn(Watches)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(witness.looks)

            async def watch() -> None:
                await trio.sleep(0.1)
                watcher.tell(nursery.whereis(NAME))

            tasks.start_soon(watch)
            with pytest.raises(NotToday):
                await nursery.start(kind, how, name=NAME)
            assert trio.current_time() == 0.5
            # Free at once: nobody else has run between the error and this.
            assert nursery.whereis(NAME) is None
            assert nursery.whereis("below") is None
            second = nursery.spawn(kind, "well", name=NAME)
        assert witness.saw("Crashed", at=0.5)
        assert (await watcher.get_state())["heard"] == [("down", 0.5), ("exit", 0.5)]
        assert await second.ask("here") == "here"


@pytest.mark.parametrize("kind", KINDS)
async def test_in_a_block_a_start_that_is_cancelled_leaves_as_little(
    kind: type[Starts], autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        witness = Witness(nursery.whereis)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(witness.looks)
            with trio.move_on_after(0.5) as scope:
                await nursery.start(kind, "hangs", name=NAME)
            assert scope.cancelled_caught
            assert nursery.whereis(NAME) is None
            assert nursery.whereis("below") is None
            second = nursery.spawn(kind, "well", name=NAME)
        assert witness.saw("Killed", at=0.5)
        assert await second.ask("here") == "here"
        # Nothing is left but the second, and what is below it.
        (only,) = nursery.tree().children
        assert only.path == second.path


@pytest.mark.parametrize("seconds", [0.2, 100.0])
async def test_a_cancelled_start_that_cleans_up_is_waited_for_until_it_is_stuck(
    seconds: float, autojump_clock: MockClock
) -> None:
    class Clings(Actor):
        """Cleans up in a shield when its start is cut."""

        async def on_start(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(seconds)

        def receive(self, message: Any) -> Any:
            return message

    async with open_nursery(grace=1) as nursery:
        with trio.move_on_after(0.5) as scope:
            await nursery.start(Clings, name=NAME)
        assert scope.cancelled_caught
        assert trio.current_time() == 0.5 + min(seconds, 1)
        assert nursery.whereis(NAME) is None
        assert await nursery.spawn(Starts, "well", name=NAME).ask("here") == "here"


async def test_in_a_block_what_cannot_be_made_never_had_the_name(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(NotToday):
            await nursery.start(Cannot, name=NAME)
        with pytest.raises(NotToday):
            nursery.spawn(Cannot, name=NAME)
        assert nursery.whereis(NAME) is None
        assert nursery.tree().children == ()
        assert await nursery.spawn(Cannot, "well", name=NAME).ask("here") == "here"


async def test_a_second_start_under_the_name_of_one_that_starts_is_refused_and_harms_it_not(
    autojump_clock: MockClock,
) -> None:
    async with open_nursery() as nursery:
        first = nursery.spawn(Starts, "well", name=NAME)
        with pytest.raises(NameTaken, match=f"the name 'worker' is taken by {first.path}"):
            await nursery.start(Starts, "well", name=NAME)
        assert await first.ask("here") == "here"
        assert nursery.whereis(NAME) is first


# ---- below a supervisor


async def by_start_child(tree: Branch, kind: Any, how: str, **options: Any) -> Any:
    return await tree.branch("static").start_child(child(kind, how, name=NAME, **options))


async def by_start(tree: Branch, kind: Any, how: str, **options: Any) -> Any:
    return await tree.branch("pool").start(kind, how, id=NAME)


class Made(Actor):
    """Whatever its first argument makes, so that one template has all kinds."""

    def __init__(self, kind: type[Starts], how: str) -> None:
        self.inner = kind(how)

    async def on_start(self) -> None:
        self.inner.ref = self.ref
        await self.inner.on_start()

    def receive(self, message: Any) -> Any:
        return self.inner.receive(message)


def two_supervisors() -> Any:
    """One with nothing in it yet, and one with a template and room for one."""
    return (
        supervisor(id="static"),
        supervisor(child(Made, id="t", name=NAME), id="pool", strategy="dynamic", max_children=1),
    )


WAYS = [by_start_child, by_start]


@pytest.mark.parametrize("start", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["fails", "fails at cleaning up"])
async def test_below_a_supervisor_the_answer_has_the_cause_and_place_and_name_are_free(
    how: str,
    kind: type[Starts],
    start: Callable[..., Awaitable[Any]],
    autojump_clock: MockClock,
) -> None:
    async with (
        open_nursery() as nursery,
        open_supervisor(*two_supervisors(), names=nursery.names) as tree,
    ):
        witness = Witness(nursery.whereis)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(witness.looks)
            answer = await start(tree, kind, how)
            assert isinstance(answer, StartError)
            assert isinstance(answer.error, NotToday)
            assert trio.current_time() == 0.5
            assert nursery.whereis(NAME) is None
            assert nursery.whereis("below") is None
        assert witness.saw("Crashed", at=0.5)
        for branch in (tree.branch("static"), tree.branch("pool")):
            assert (await branch.count_children()).workers == 0
            assert branch.find(NAME) is None
        second = await start(tree, kind, "well")
        assert isinstance(second, Started)
        assert await second.ref.ask("here") == "here"


@pytest.mark.parametrize("start", WAYS)
async def test_below_a_supervisor_a_start_that_says_there_is_nothing_to_run_is_as_clean(
    start: Callable[..., Awaitable[Any]], autojump_clock: MockClock
) -> None:
    async with (
        open_nursery() as nursery,
        open_supervisor(*two_supervisors(), names=nursery.names) as tree,
    ):
        witness = Witness(nursery.whereis)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(witness.looks)
            assert await start(tree, Starts, "ignores") == Ignored()
            assert nursery.whereis(NAME) is None
        assert witness.saw("Crashed", at=0.5)


@pytest.mark.parametrize("kind", KINDS)
async def test_below_a_supervisor_a_start_that_takes_too_long_fails_when_its_time_is_up(
    kind: type[Starts], autojump_clock: MockClock
) -> None:
    async with (
        open_nursery() as nursery,
        open_supervisor(*two_supervisors(), names=nursery.names) as tree,
    ):
        witness = Witness(nursery.whereis)
        async with trio.open_nursery() as tasks:
            tasks.start_soon(witness.looks)
            answer = await by_start_child(tree, kind, "hangs", start_timeout=0.7)
            assert isinstance(answer, StartError)
            assert "took longer than 0.7 s" in str(answer.error)
            assert nursery.whereis(NAME) is None
        assert witness.saw("Crashed", at=0.7)
        assert isinstance(await by_start_child(tree, kind, "well"), Started)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["terminated", "stopped", "killed", "left"])
async def test_a_supervisor_that_ends_while_a_child_starts_leaves_as_little(
    end: str, kind: type[Starts], autojump_clock: MockClock
) -> None:
    async with open_nursery() as nursery:
        witness = Witness(nursery.whereis)
        async with (
            trio.open_nursery() as tasks,
            open_supervisor(*two_supervisors(), names=nursery.names, shutdown=5) as tree,
        ):

            async def starts() -> None:
                with pytest.raises(ActorStopped):
                    await by_start_child(tree, kind, "hangs", shutdown=0.0)

            tasks.start_soon(witness.looks)
            tasks.start_soon(starts)
            await trio.sleep(0.5)
            if end == "terminated":
                await tree.terminate_child("static")
            elif end == "stopped":
                await tree["static"].stop()
            elif end == "killed":
                tree["static"].kill()
        assert witness.saw("Killed", at=0.5)
        assert nursery.whereis(NAME) is None
        assert await nursery.spawn(Starts, "well", name=NAME).ask("here") == "here"


async def test_who_is_cancelled_while_it_starts_a_child_leaves_the_child_to_its_supervisor(
    autojump_clock: MockClock,
) -> None:
    # The supervisor owns the child, not who asked for it: OTP's rule as well.
    async with open_supervisor(*two_supervisors()) as tree:
        with trio.move_on_after(0.3) as scope:
            await by_start(tree, Starts, "well")
        assert scope.cancelled_caught
        pool = tree.branch("pool")
        assert await pool.start(Starts, "well", id="another") == TooMany(1)
        assert trio.current_time() == 0.5
        assert await (await pool.get_or_start(NAME)).ask("here") == "here"


# ---- the first start of a tree, and every later one


@pytest.mark.parametrize("kind", [*KINDS, Cannot])
@pytest.mark.parametrize("depth", [0, 1, 3])
async def test_a_tree_that_cannot_start_raises_the_cause_and_leaves_no_name(
    depth: int, kind: Any, autojump_clock: MockClock
) -> None:
    spec = [child(Starts, "well", name="before"), child(kind, "fails", name=NAME)]
    for level in range(depth):
        spec = [supervisor(*spec, id=f"level {level}")]
    async with open_nursery() as nursery:
        with pytest.raises(StartFailed) as caught:
            async with open_supervisor(*spec, names=nursery.names):
                raise AssertionError("it was entered")
        cause: BaseException | None = caught.value
        while isinstance(cause, StartFailed):
            cause = cause.__cause__
        assert isinstance(cause, NotToday)
        assert nursery.names.names() == ()


async def test_between_two_failing_restarts_the_name_is_kept_and_asks_wait_for_the_end(
    autojump_clock: MockClock,
) -> None:
    lives = 0

    class Once(Starts):
        """Starts well only once."""

        def __init__(self) -> None:
            nonlocal lives
            lives += 1
            super().__init__("well" if lives == 1 else "fails")

        def receive(self, message: Any) -> Any:
            raise ConnectionResetError

    async with open_nursery() as nursery:
        watcher: Ref[Any] = nursery.spawn(Watches)
        with pytest.raises(GaveUp) as caught:  # noqa: PT012 - leaving the block raises
            async with open_supervisor(
                child(Once, name=NAME), intensity=2, names=nursery.names
            ) as tree:
                ref = tree[NAME]
                ref.tell("crash")
                await trio.sleep(0.1)
                watcher.tell(ref)
                await trio.lowlevel.checkpoint()
                with pytest.raises(NameTaken):
                    nursery.spawn(Starts, name=NAME)
                with pytest.raises(ActorStopped):
                    await ref.ask("anybody?", timeout=60)
                assert trio.current_time() == 1.5  # up at 0.5, and two starts that failed
        assert [type(each) for each in caught.value.exceptions] == [
            ConnectionResetError,
            NotToday,
            NotToday,
        ]
        assert nursery.whereis(NAME) is None
        assert isinstance(await ref.join(), Crashed)


async def test_a_kill_while_it_starts_again_is_followed_by_another_try(
    autojump_clock: MockClock,
) -> None:
    async with open_supervisor(child(Starts, "well", name=NAME)) as tree:
        ref = tree[NAME]
        ref.kill()
        await trio.sleep(0.3)
        assert ref.snapshot().state == "starting"
        ref.kill()
        assert await ref.ask("here") == "here"
        assert trio.current_time() == pytest.approx(0.5 + 0.3 + 0.5)
        assert ref.incarnation == 3
