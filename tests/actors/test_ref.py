"""What a ref promises, what may stand for an actor, and what is said of one that is none."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    ActorCrashed,
    ActorError,
    ActorStopped,
    AskCycle,
    AskTimeout,
    Crashed,
    ExitReason,
    LeakedScope,
    MailboxFull,
    NameTaken,
    Ref,
    Shutdown,
    StartTimeout,
    WrongThread,
    errors,
    open_nursery,
)
from tests.actors.workers import LOG, Boom, Echo, Stops
from tests.support.homes import apart

ERRORS: list[ActorError] = [
    ActorCrashed("n/a"),
    ActorStopped("n/a", "killed"),
    AskCycle("n/a", ("n/a", "n/b", "n/a")),
    AskTimeout("n/a", 1.5),
    LeakedScope("n/a", "a handler"),
    MailboxFull("n/a", 7),
    NameTaken("n/a", "a"),
    StartTimeout("n/a", 30.0),
    WrongThread("n/a"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_keeps_its_facts_and_its_words_over_a_trip_between_processes(
    error: ActorError,
) -> None:
    there = pickle.loads(pickle.dumps(error))
    assert type(there) is type(error)
    assert vars(there) == vars(error)
    assert there.args == error.args
    assert str(there) == str(error)
    assert "n/a" in str(error)


def test_every_error_of_the_tree_is_among_those_that_were_tried() -> None:
    own = {each for each in vars(errors).values() if isinstance(each, type)}
    assert {type(error) for error in ERRORS} == own - {ActorError}


def twice(message: int) -> int:
    return 2 * message


async def thrice(message: int) -> int:
    await trio.sleep(1)
    return 3 * message


def times(factor: int, message: int) -> int:
    return factor * message


async def times_slowly(factor: int, message: int) -> int:
    await trio.sleep(1)
    return factor * message


class Multiplier:
    """A callable object."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, message: int) -> int:
        return self.factor * message

    def bound(self, message: int) -> int:
        return self.factor * message

    async def bound_slowly(self, message: int) -> int:
        await trio.sleep(1)
        return self.factor * message


class SlowMultiplier(Multiplier):
    """A callable object whose call is a coroutine."""

    async def __call__(self, message: int) -> int:  # type: ignore[override]  # the point of it
        await trio.sleep(1)
        return self.factor * message


class NoActorButReceives:
    """Inherits nothing, and receives."""

    ref: Any

    def __init__(self, factor: int = 5) -> None:
        self.factor = factor

    def receive(self, message: int) -> int:
        return self.factor * message


@pytest.mark.parametrize(
    ("actor", "answer", "seconds", "kind"),
    [
        pytest.param(twice, 20, 0, "twice", id="a function"),
        pytest.param(thrice, 30, 1, "thrice", id="a coroutine function"),
        pytest.param(lambda n: n + 1, 11, 0, "lambda", id="a lambda"),
        pytest.param(functools.partial(times, 4), 40, 0, "times", id="a partial"),
        pytest.param(
            functools.partial(times_slowly, 4), 40, 1, "times_slowly", id="an async partial"
        ),
        pytest.param(
            functools.partial(functools.partial(times_slowly), 6),
            60,
            1,
            "times_slowly",
            id="a partial of a partial",
        ),
        pytest.param(Multiplier(7), 70, 0, "Multiplier", id="a callable object"),
        pytest.param(SlowMultiplier(7), 70, 1, "SlowMultiplier", id="an async callable object"),
        pytest.param(Multiplier(8).bound, 80, 0, "bound", id="a bound method"),
        pytest.param(Multiplier(8).bound_slowly, 80, 1, "bound_slowly", id="an async bound method"),
        pytest.param(NoActorButReceives, 50, 0, "NoActorButReceives", id="any class that receives"),
    ],
)
async def test_what_can_be_called_with_a_message_may_stand_for_an_actor(
    actor: Any, answer: int, seconds: float, kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(actor)
        assert await ref.ask(10) == answer
        assert trio.current_time() == seconds
        assert ref.path == f"nursery/{kind}#1"
        assert ref.snapshot().kind == kind


class NoReceive:
    """Has nothing to receive with."""


class NoReceiveOfItsOwn(Actor):
    """Has forgotten it."""


@pytest.mark.parametrize(
    "actor", [42, "a name", None, NoReceive()], ids=lambda actor: type(actor).__name__
)
async def test_what_is_no_actor_is_refused_and_nothing_is_started(actor: Any) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(TypeError, match="is not an actor: give an actor class, or a function"):
            nursery.spawn(actor)
        assert nursery.tree().children == ()


async def test_a_class_without_receive_is_refused_with_what_is_missing() -> None:
    async with open_nursery() as nursery:
        with pytest.raises(TypeError, match="NoReceive has no receive method: an actor is"):
            nursery.spawn(NoReceive)  # type: ignore[call-arg, arg-type]  # the point of it


async def test_an_actor_that_forgot_receive_crashes_saying_so(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref = await apart(nursery, NoReceiveOfItsOwn)
        with pytest.raises(ActorCrashed, match="must define receive"):
            await ref.ask("hello")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"capacity": 0}, "capacity must be a whole number of messages"),
        ({"capacity": 1.5}, "capacity must be a whole number of messages"),
        ({"capacity": -1}, "capacity must be a whole number of messages"),
        ({"overflow": "block"}, "overflow must be one of"),
        ({"shutdown": -1}, "shutdown must be a number of seconds"),
        ({"shutdown": float("nan")}, "shutdown must be a number of seconds"),
        ({"start_timeout": -1}, "start_timeout must be a number of seconds"),
        ({"stop_mode": "never"}, "stop_mode must be one of"),
    ],
)
async def test_an_option_out_of_its_range_is_refused_by_name_and_nothing_is_started(
    options: dict[str, Any], words: str
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match=words):
            nursery.spawn(Echo, **options)
        with pytest.raises(ValueError, match=words):
            nursery.spawn(type("Wrong", (Echo,), options))
        assert nursery.tree().children == ()


async def test_an_init_that_fails_is_raised_to_the_spawner_and_leaves_no_name() -> None:
    class Fails(Actor):
        """Cannot even be made."""

        def __init__(self) -> None:
            raise LookupError("no such thing")

        def receive(self, message: Any) -> None: ...

    async with open_nursery() as nursery:
        with pytest.raises(LookupError):
            nursery.spawn(Fails, name="fails")
        with pytest.raises(TypeError):
            nursery.spawn(Stops, name="fails")
        assert nursery.whereis("fails") is None
        assert nursery.tree().children == ()


async def test_stops_one_after_the_other_and_at_once_are_one_stop(
    autojump_clock: trio.testing.MockClock,
) -> None:
    reasons: list[Any] = []

    async def stop(ref: Ref[Any]) -> None:
        reasons.append(await ref.stop())

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Stops, "once")
        async with trio.open_nursery() as tasks:
            for _ in range(5):
                tasks.start_soon(stop, ref)
        for _ in range(5):
            await stop(ref)
        assert reasons == [Shutdown()] * 10
        assert LOG == ["once"]


async def test_a_stop_begins_at_the_call_whether_or_not_it_is_awaited(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Stops, "x")
        ref.stop()
        with pytest.raises(ActorStopped):
            await ref.ask("too late")
        assert ref.is_alive
        await trio.sleep(1)
        assert not ref.is_alive


async def test_a_join_returns_how_it_ended_and_never_raises_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref = await apart(nursery, Boom)
        ref.tell("now")
        reason = await ref.join()
        assert isinstance(reason, Crashed)
        assert isinstance(reason.error, ValueError)
        assert await ref.join() is reason


async def test_whatever_is_done_to_an_ended_actor_does_no_harm(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Echo)
        await ref.stop()
        ref.kill()
        ref.suspend()
        ref.resume()
        ref.trace(None)
        ref.tell("dead letter")
        for refused in (ref.ask("x"), ref.get_state()):
            with pytest.raises(ActorStopped):
                await refused
        with pytest.raises(ActorStopped):
            await ref.send("x")
        assert ref.snapshot().state == "ended"
        assert repr(ref) == f"<Ref {ref.path} ended>"
        assert await ref.join() == Shutdown()


async def test_a_ref_says_where_it_is_and_is_equal_to_itself_only() -> None:
    async with open_nursery(name="shop") as nursery:
        one: Ref[Any] = nursery.spawn(Echo)
        two: Ref[Any] = nursery.spawn(Echo, name="till")
        assert (repr(one), repr(two)) == ("<Ref shop/Echo#1>", "<Ref shop/till>")
        assert one == one
        assert one != two
        assert len({one, two, one}) == 2
        assert one.incarnation == 1


async def test_an_actor_knows_its_own_ref_from_its_start_hook_to_its_stop_hook(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Knows(Actor):
        """Logs its path in each place."""

        def on_start(self) -> None:
            LOG.append(self.ref.path)

        def receive(self, message: Any) -> Ref[Any]:
            LOG.append(self.ref.path)
            return self.ref

        def on_stop(self, reason: ExitReason) -> None:
            LOG.append(self.ref.path)

    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Knows)
        assert await ref.ask("you?") is ref
    assert [ref.path] * 3 == LOG
