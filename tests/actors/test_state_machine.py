"""One handler a state; what belongs to another state waits for it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import trio
import trio.testing

from standby_actors import MailboxFull, Ref, StateMachine, open_nursery
from tests.support.homes import apart


class Door(StateMachine[Literal["closed", "open", "locked"]]):
    """A door that closes by itself; who walks has to wait until it is open."""

    initial = "closed"

    def __init__(self, seconds: float = 10) -> None:
        super().__init__()
        self.seconds = seconds
        self.entered: list[tuple[str, str]] = []

    def on_enter(self, state: str, before: str) -> None:
        self.entered.append((before, state))
        if state == "open":
            self.state_timeout(self.seconds, "close")

    def closed(self, message: str) -> Any:
        if message == "open":
            self.become("open")
            return "opened"
        if message == "lock":
            self.become("locked")
            return "locked"
        return self.postpone(message) if message.startswith("walk") else "closed already"

    def open(self, message: str) -> Any:
        if message == "close":
            self.become("closed")
            return "closed"
        if message == "hold":
            self.become("open")
            return "held"
        return f"{message}: through"

    def locked(self, message: str) -> Any:
        if message == "unlock":
            self.become("closed")
            return "unlocked"
        return self.postpone(message)


async def test_each_message_goes_to_the_handler_of_the_state(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        door: Ref[Any] = nursery.spawn(Door)
        assert await door.ask("close") == "closed already"
        assert await door.ask("open") == "opened"
        assert await door.ask("walk") == "walk: through"
        state = await door.get_state()
        assert (state["_state"], state["entered"]) == ("open", [("closed", "open")])


async def test_postponed_messages_come_in_their_order_before_any_other_once_the_state_changes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    answers: list[str] = []

    async def ask(door: Ref[Any], word: str) -> None:
        answers.append(await door.ask(word))

    async with open_nursery() as nursery, trio.open_nursery() as tasks:
        door: Ref[Any] = nursery.spawn(Door)
        for word in ("walk 1", "walk 2", "walk 3"):
            tasks.start_soon(ask, door, word)
            await trio.testing.wait_all_tasks_blocked()
        door.suspend()
        for word in ("open", "walk 4"):
            tasks.start_soon(ask, door, word)
            await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        door.resume()
        await trio.testing.wait_all_tasks_blocked()
        # Answers of one pass of trio reach their tasks in no order; only the last
        # word was handled after them all.
        assert sorted(answers) == ["opened", *[f"walk {n}: through" for n in range(1, 5)]]


async def test_a_message_may_be_postponed_over_several_states(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        door: Ref[Any] = nursery.spawn(Door)
        assert await door.ask("lock") == "locked"
        walk = door.ask("walk")
        opening = door.ask("open")
        await trio.sleep(1)
        assert (walk.done, opening.done) == (False, False)
        assert await door.ask("unlock") == "unlocked"
        assert await opening == "opened"
        assert await walk == "walk: through"


async def test_a_state_times_out_unless_it_was_left_or_set_anew(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        door: Ref[Any] = nursery.spawn(Door, 10)
        await door.ask("open")
        await trio.sleep(9)
        assert (await door.get_state())["_state"] == "open"
        await trio.sleep(2)
        assert (await door.get_state())["_state"] == "closed"
        await door.ask("open")
        await trio.sleep(5)
        await door.ask("close")
        await door.ask("open")
        await trio.sleep(7)
        # The timeout of the first opening, due now, is not this one's.
        assert (await door.get_state())["_state"] == "open"


async def test_to_become_what_it_is_changes_nothing_and_keeps_the_timeout(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        door: Ref[Any] = nursery.spawn(Door, 10)
        await door.ask("open")
        await trio.sleep(5)
        assert await door.ask("hold") == "held"
        await trio.sleep(6)
        state = await door.get_state()
        assert state["_state"] == "closed"
        assert state["entered"] == [("closed", "open"), ("open", "closed")]


@pytest.mark.parametrize("state", ["ajar", "become", "state", "_known", "on_enter", "receive"])
async def test_an_unknown_state_is_an_error_where_it_is_named_and_changes_nothing(
    state: Any, autojump_clock: trio.testing.MockClock
) -> None:
    class Wrong(Door):
        """Names a state that there is not."""

        def closed(self, message: str) -> Any:
            try:
                self.become(state)
            except ValueError as error:
                return str(error), self.state
            return None

    async with open_nursery() as nursery:
        door: Ref[Any] = nursery.spawn(Wrong)
        said, now = await door.ask("go")
        assert said == (f"Wrong has no state {state!r}: define `def {state}(self, message)`")
        assert now == "closed"


async def test_a_first_state_that_there_is_not_is_refused_at_the_spawn() -> None:
    class Wrong(StateMachine[Any]):
        """Begins nowhere."""

        initial = "nowhere"

    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match="no state 'nowhere'"):
            nursery.spawn(Wrong)
        assert nursery.tree().children == ()


async def test_what_is_postponed_is_bounded_like_the_mailbox(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        door = await apart(nursery, Door, capacity=3)
        kept = [door.ask(f"walk {number}") for number in range(3)]
        with pytest.raises(Exception, match="is full") as caught:
            await door.ask("walk 4")
        assert isinstance(caught.value.__cause__, MailboxFull)
        assert all(reply.done for reply in kept)


async def test_states_may_be_coroutines(autojump_clock: trio.testing.MockClock) -> None:
    class Slow(StateMachine[Any]):
        """Waits in its states."""

        initial = "one"

        async def receive(self, message: Any, /) -> Any:
            return await super().receive(message)

        async def one(self, message: Any) -> str:
            await trio.sleep(1)
            self.become("two")
            return "one"

        async def two(self, message: Any) -> str:
            await trio.sleep(1)
            return "two"

    async with open_nursery() as nursery:
        slow: Ref[Any] = nursery.spawn(Slow)
        assert [await slow.ask(None) for _ in range(2)] == ["one", "two"]
        assert trio.current_time() == 2
