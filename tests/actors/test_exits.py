"""How an actor ended is a value: compared, printed, matched, and sent on."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors import (
    Actor,
    Crashed,
    ExitReason,
    Killed,
    Linked,
    NoProcess,
    Normal,
    Ref,
    Shutdown,
    open_nursery,
)
from standby_actors.exits import abnormal, path_of_cause, root_cause
from tests.support.homes import apart

ERROR = ValueError("boom")
DEEP = Linked("a", Linked("b", Crashed(ERROR)))


class Ends(Actor):
    """Ends as the word says, and logs the reason that its stop hook got."""

    shutdown = 1.0

    def __init__(self, seen: list[ExitReason]) -> None:
        self.seen = seen

    async def receive(self, message: Any) -> Any:
        if message == "crash":
            raise ERROR
        if message == "hang":
            await trio.sleep_forever()
        if isinstance(message, Normal | Shutdown | Killed | Crashed | Linked | NoProcess):
            self.stop(message)
        elif message == "leave":
            self.stop()
        return message

    def on_stop(self, reason: ExitReason) -> None:
        self.seen.append(reason)


@pytest.mark.parametrize(
    ("reason", "words", "is_abnormal"),
    [
        (Normal(), "normal", False),
        (Shutdown(), "shutdown", False),
        (Shutdown("new version"), "shutdown (new version)", False),
        (Killed(), "killed", True),
        (Killed("too slow"), "killed (too slow)", True),
        (Crashed(ERROR), "crashed (ValueError: boom)", True),
        (Linked("a", Killed()), "linked to a, which killed", True),
        (NoProcess(), "no process", False),
    ],
)
def test_a_reason_says_in_words_what_it_is(
    reason: ExitReason, words: str, is_abnormal: bool
) -> None:
    assert str(reason) == words
    assert abnormal(reason) is is_abnormal
    assert reason == reason
    assert hash(reason) == hash(reason)


@pytest.mark.parametrize(
    "reason", [Normal(), Shutdown("x"), Killed("x"), NoProcess(), Linked("a", Killed())]
)
def test_a_reason_survives_a_trip_between_processes(reason: ExitReason) -> None:
    assert pickle.loads(pickle.dumps(reason)) == reason


def test_a_crash_survives_a_trip_with_its_error() -> None:
    there = pickle.loads(pickle.dumps(Linked("a", Crashed(ERROR))))
    assert str(there) == str(Linked("a", Crashed(ERROR)))


def test_a_chain_of_links_knows_its_start() -> None:
    assert root_cause(DEEP) is ERROR
    assert path_of_cause(DEEP, "top") == "b"
    assert root_cause(Linked("a", Killed())) is None
    assert path_of_cause(Crashed(ERROR), "top") == "top"


@pytest.mark.parametrize("dedicated", [False, True])
@pytest.mark.parametrize(
    ("how", "expected", "hook_runs"),
    [
        pytest.param("leave", Normal(), True, id="it leaves"),
        pytest.param(Shutdown("done"), Shutdown("done"), True, id="it leaves with a reason"),
        pytest.param("stop", Shutdown(), True, id="it is stopped"),
        pytest.param("stop with", Shutdown("new version"), True, id="stopped with a reason"),
        pytest.param("kill", Killed(), False, id="it is killed"),
        pytest.param("crash", Crashed(ERROR), True, id="it crashes"),
        pytest.param("hang", Killed("it did not stop within 1 s"), False, id="it hangs"),
    ],
)
async def test_the_stop_hook_and_all_who_join_get_the_same_reason(
    how: Any,
    expected: ExitReason,
    hook_runs: bool,
    dedicated: bool,
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[ExitReason] = []
    joined: list[ExitReason] = []

    async def join(ref: Ref[Any]) -> None:
        joined.append(await ref.join())

    async with open_nursery() as nursery:
        ref = await apart(nursery, Ends, seen, dedicated=dedicated)
        await ref.ask("hello")
        async with trio.open_nursery() as tasks:
            for _ in range(3):
                tasks.start_soon(join, ref)
            await trio.testing.wait_all_tasks_blocked()
            if how == "stop":
                ref.stop()
            elif how == "stop with":
                ref.stop(Shutdown("new version"))
            elif how == "kill":
                ref.kill()
            else:
                ref.tell(how)
                await trio.testing.wait_all_tasks_blocked()
                if how == "hang":
                    ref.stop()
        assert joined == [expected] * 3
        assert await ref.join() == await ref.stop() == expected
        assert seen == ([expected] if hook_runs else [])


async def test_the_first_reason_counts(autojump_clock: trio.testing.MockClock) -> None:
    async with open_nursery() as nursery:
        ref: Ref[Any] = nursery.spawn(Ends, [])
        ref.tell("hang")
        await trio.testing.wait_all_tasks_blocked()
        ref.stop(Shutdown("first"))
        ref.stop(Shutdown("second"))
        ref.kill()
        # A kill on the way says more than the wish that it overtook.
        assert await ref.join() == Killed()


async def test_an_actor_that_is_linked_ends_with_the_path_and_the_reason_of_the_other(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Owner(Actor):
        """Spawns a linked child."""

        def receive(self, message: Any) -> Ref[Any]:
            return self.spawn(Ends, [])

    async with open_nursery() as nursery:
        owner = await apart(nursery, Owner)
        child = await owner.ask("spawn")
        child.tell("crash")
        assert await owner.join() == Linked(child.path, Crashed(ERROR))
