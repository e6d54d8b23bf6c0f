"""What each key of a new specification changes: at once, or from the next life on."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import Actor, ActorStopped, MailboxFull, Ref
from standby_supervision import (
    AlreadyStarted,
    Backoff,
    Done,
    Refused,
    Started,
    SupervisorSpec,
    Tree,
    child,
    open_supervisor,
    supervisor,
)


class Says(Actor):
    """Answers with what it was made with; crashes, waits and leaves when it is told to."""

    def __init__(self, word: str = "first") -> None:
        self.word = word

    async def receive(self, message: Any) -> Any:
        match message:
            case "crash":
                raise ValueError(message)
            case "leave":
                return self.stop()
            case "wait", seconds:
                return await trio.sleep(seconds)
            case "join", group:
                return self.join_group(group)
            case _:
                return self.word


class Other(Says):
    """What becomes of it."""

    async def on_start(self) -> None:
        self.word = f"other {self.word}"


async def quiet() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def update(tree: Tree, *children: Any, **flags: Any) -> Any:
    options: dict[str, Any] = {"intensity": 20, **flags}
    return await tree.update_specs(SupervisorSpec(children=children, **options))


def say(**options: Any) -> Any:
    return child(Says, id="it", **options)


async def crash(ref: Ref[Any]) -> None:
    ref.tell("crash")
    await quiet()


# ---- at once


async def test_restart_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say()) as tree:
        assert await update(tree, say(restart="transient")) == Done()
        await tree["it"].ask("leave")
        await quiet()
        assert [each.state for each in await tree.which_children()] == ["undefined"]


async def test_significant_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say(restart="transient"), say_two()) as tree:
        spec = say(restart="transient", significant=True)
        await update(tree, spec, say_two(), auto_shutdown="any_significant")
        await tree["it"].ask("leave")
        await quiet()
        assert not tree.ref.is_alive


def say_two() -> Any:
    return child(Says, id="two")


async def test_shutdown_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say(shutdown=math.inf)) as tree:
        tree["it"].tell(("wait", 100))
        await quiet()
        await update(tree, say(shutdown=2.0))
        await tree.terminate_child("it")
        assert trio.current_time() == 2.0


async def test_when_down_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say(), intensity=5, backoff=Backoff(10)) as tree:
        await crash(tree["it"])
        await update(tree, say(when_down="fail"), backoff=Backoff(10))
        with pytest.raises(ActorStopped):
            await tree["it"].ask("hello")


async def test_redeliver_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say()) as tree:
        await update(tree, say(redeliver=3))
        await crash(tree["it"])
        assert tree["it"].incarnation == 5


async def test_stalled_after_holds_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say()) as tree:
        tree["it"].tell(("wait", 1000))
        await quiet()
        await update(tree, say(stalled_after=4))
        await trio.sleep(6)
        assert tree["it"].incarnation == 2
        tree["it"].tell(("wait", 10))
        await quiet()
        await update(tree, say())
        await trio.sleep(20)
        assert tree["it"].incarnation == 2


@pytest.mark.parametrize("has_crashed", [False, True])
async def test_a_name_moves_with_its_child(
    has_crashed: bool, autojump_clock: trio.testing.MockClock
) -> None:
    flags: dict[str, Any] = {"backoff": Backoff(10, jitter=0)} if has_crashed else {}
    async with open_supervisor(say(name="old"), intensity=20, **flags) as tree:
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        ref = tree["it"]
        await ref.ask(("join", "group"))
        if has_crashed:  # it is between two lives
            await crash(ref)
        assert ref.path == "supervisor/top/old"
        assert await update(tree, say(name="new"), **flags) == Done()
        assert (names.whereis("old"), names.whereis("new")) == (None, ref)
        assert ref.path == "supervisor/top/new"
        assert names.members("group") == (ref,)
        assert await ref.ask("hello") == "first"
        assert names.whereis("new") == ref
        assert await update(tree, say(), **flags) == Done()
        assert (names.whereis("new"), ref.path) == (None, "supervisor/top/it")
        assert names.names() == ()


async def test_names_may_be_swapped(autojump_clock: trio.testing.MockClock) -> None:
    def pair(one: str, two: str) -> Any:
        return child(Says, id="a", name=one), child(Says, id="b", name=two)

    async with open_supervisor(*pair("x", "y")) as tree:
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        assert await update(tree, *pair("y", "x")) == Done()
        assert (names.whereis("x"), names.whereis("y")) == (tree["b"], tree["a"])


async def test_a_name_that_somebody_has_is_refused_and_nothing_has_changed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    outside = supervisor(child(Says, id="o", name="taken"), id="sub")
    async with open_supervisor(say(name="old"), child(Says, id="k", name="kept"), outside) as tree:
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        ref = tree["it"]
        answer = await update(tree, say(name="taken", shutdown=9.0), strategy="one_for_all")
        assert answer == Refused(
            "name_taken", "supervisor/top/sub/taken has the name 'taken'", "it"
        )
        answer = await update(tree, say(name="kept", shutdown=9.0))
        assert isinstance(answer, Refused)
        assert answer.rule == "duplicate_name"
        assert (names.whereis("old"), ref.path) == (ref, "supervisor/top/old")
        spec: Any = await tree.get_spec("it")
        assert (spec.name, spec.shutdown) == ("old", 5.0)
        await crash(tree["it"])
        assert tree["k"].incarnation == 1  # one for one, still


async def test_a_terminated_child_gets_its_new_name_when_it_lives_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(say(name="old"), child(Says, id="b")) as tree:
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        await tree.terminate_child("it")
        assert await update(tree, say(name="new")) == Done()
        assert names.names() == ()
        assert isinstance(await tree.restart_child("it"), Started)
        assert names.whereis("new") == tree["it"]


async def test_a_template_may_give_one_child_a_name(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Says), strategy="dynamic") as tree:
        one = await tree.get_or_start("one")
        named = SupervisorSpec(children=(child(Says, name="only"),), strategy="dynamic")
        assert await tree.update_specs(named) == Done()
        names = tree._block.names  # pyright: ignore[reportPrivateUsage] # that of the tree
        assert names.whereis("only") == one
        assert await tree.start(id="two") == AlreadyStarted(one)
        plain = SupervisorSpec(children=(child(Says),), strategy="dynamic")
        assert await tree.update_specs(plain) == Done()
        await tree.get_or_start("two")
        answer = await tree.update_specs(named)
        assert isinstance(answer, Refused)
        assert answer.rule == "duplicate_name"


async def test_a_trace_outlives_an_update_and_does_not_undo_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[Any] = []
    async with open_supervisor(say(shutdown=math.inf)) as tree:
        ref = tree["it"]
        ref.trace(seen.append)
        await update(tree, say(shutdown=2.0))
        await ref.ask("hello")
        ref.trace(None)
        ref.tell(("wait", 100))
        await quiet()
        await tree.terminate_child("it")
        assert (seen, trio.current_time()) == (["hello"], 2.0)


# ---- from the next life on


async def test_start_and_args_hold_from_the_next_life_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(say()) as tree:
        ref = tree["it"]
        await update(tree, child(Other, "word", id="it"))
        assert await ref.ask("what?") == "first"
        await crash(ref)
        assert await ref.ask("what?") == "other word"
        await update(tree, say())
        ref.trace([].append)
        await crash(ref)
        ref.trace(None)
        assert await ref.ask("what?") == "first"


async def test_capacity_and_overflow_hold_from_the_next_life_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(say(capacity=1)) as tree:
        ref = tree["it"]
        await update(tree, say(capacity=2, overflow="drop_new"))

        async def fill() -> int:
            ref.tell(("wait", 1))
            await quiet()
            for number in range(5):
                ref.tell(number)
            return ref.snapshot().mailbox

        with pytest.raises(MailboxFull):
            await fill()
        await trio.sleep(2)
        await crash(ref)
        assert await fill() == 2


async def test_stop_mode_and_dedicated_hold_from_the_next_life_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(say()) as tree:
        ref = tree["it"]
        await update(tree, say(stop_mode="interrupt", dedicated=True))
        ref.tell(("wait", 3))
        await quiet()
        ref.stop()
        await trio.sleep(2)
        assert ref.incarnation == 1
        await trio.sleep(2)
        assert ref.incarnation == 2
        ref.tell(("wait", 3))
        await quiet()
        ref.stop()
        await quiet()
        assert ref.incarnation == 3


async def test_what_stands_below_a_supervisor_holds_from_its_next_life_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(supervisor(say(), id="sub")) as tree:
        ref = tree.branch("sub")["it"]
        below = supervisor(child(Other, id="it"), child(Says, id="new"), id="sub")
        await update(tree, below)
        assert [each.id for each in await tree.branch("sub").which_children()] == ["it"]
        tree["sub"].kill()
        await quiet()
        assert [each.id for each in await tree.branch("sub").which_children()] == ["new", "it"]
        assert await ref.ask("what?") == "other first"


async def test_children_of_a_template_keep_their_arguments(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Says), strategy="dynamic") as tree:
        ref = await tree.get_or_start("one", "mine")
        spec = SupervisorSpec(children=(child(Other),), strategy="dynamic")
        assert await tree.update_specs(spec) == Done()
        await crash(ref)
        assert await ref.ask("what?") == "other mine"


async def test_restarts_of_before_are_counted_on(autojump_clock: trio.testing.MockClock) -> None:
    async with open_supervisor(say(), intensity=5) as tree:
        for _ in range(2):
            await crash(tree["it"])
        assert await update(tree, say(), intensity=2) == Done()
        assert tree.ref.is_alive
        with pytest.raises(BaseExceptionGroup):  # noqa: PT012 - it is the block that raises
            async with open_supervisor(say(), intensity=5) as other:
                for _ in range(2):
                    await crash(other["it"])
                await other.update_specs(SupervisorSpec(children=(say(),), intensity=2))
                await crash(other["it"])
                await trio.sleep_forever()
