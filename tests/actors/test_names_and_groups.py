"""Names belong to one actor alive; groups to whoever joined and has not ended."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from standby.testing import Probe
from standby_actors import Actor, MailboxFull, NameTaken, Ref, open_nursery
from tests.actors.workers import Echo
from tests.support.homes import apart


class Finds(Actor):
    """Answers who has the name that it gets, and joins and leaves groups."""

    def receive(self, message: Any) -> Any:
        match message:
            case "join", group:
                return self.join_group(group)
            case "leave", group:
                return self.leave_group(group)
            case "crash":
                raise ValueError(message)
            case _:
                return self.whereis(message)


async def test_an_actor_is_found_by_its_name_and_the_name_ends_its_path() -> None:
    async with open_nursery(name="shop") as nursery:
        till: Ref[Any] = nursery.spawn(Echo, name="till")
        assert nursery.whereis("till") is till
        assert till.path == "shop/till"
        assert nursery.names.names() == ("till",)
        finds: Ref[Any] = nursery.spawn(Finds)
        assert await finds.ask("till") is till
        assert await finds.ask("nobody") is None


@pytest.mark.parametrize("how", ["stop", "kill", "crash"])
async def test_a_name_is_free_before_anybody_hears_of_the_end(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        ref = await apart(nursery, Finds, name="till")
        with pytest.raises(NameTaken) as caught:
            nursery.spawn(Echo, name="till")
        assert (caught.value.actor, caught.value.name) == (ref.path, "till")
        if how == "stop":
            ref.stop()
        elif how == "kill":
            ref.kill()
        else:
            ref.tell("crash")
        await ref.join()
        assert nursery.whereis("till") is None
        assert nursery.spawn(Echo, name="till").is_alive


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("", id="empty"),
        pytest.param("a/b", id="a separator"),
        pytest.param("a\nb", id="a new line"),
        pytest.param("a\x00b", id="a control character"),
        pytest.param("\u202eb", id="a direction mark"),
        pytest.param("x" * 201, id="too long"),
        pytest.param("x" * 1_000_000, id="a megabyte"),
    ],
)
async def test_a_name_that_would_make_a_false_path_is_refused_and_nothing_is_started(
    name: str,
) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match="a name is") as caught:
            nursery.spawn(Echo, name=name)
        assert len(str(caught.value)) < 400
        assert nursery.tree().children == ()


async def test_names_that_look_alike_are_two_names() -> None:
    async with open_nursery() as nursery:
        latin: Ref[Any] = nursery.spawn(Echo, name="a")
        cyrillic: Ref[Any] = nursery.spawn(Echo, name="\u0430")
        assert nursery.whereis("a") is latin
        assert nursery.whereis("\u0430") is cyrillic


async def test_two_blocks_have_names_of_their_own() -> None:
    async with open_nursery() as one, open_nursery() as two:
        first: Ref[Any] = one.spawn(Echo, name="till")
        second: Ref[Any] = two.spawn(Echo, name="till")
        assert (one.whereis("till"), two.whereis("till")) == (first, second)


async def test_a_block_inside_a_handler_shares_the_names_of_the_block_around_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Holder(Actor):
        """Opens a block and spawns there under a name."""

        async def receive(self, message: str) -> Any:
            async with open_nursery() as inner:
                inside: Ref[Any] = inner.spawn(Echo, name=message)
                return inside is self.whereis(message)

    async with open_nursery() as nursery:
        holder: Ref[Any] = nursery.spawn(Holder)
        assert await holder.ask("till") is True
        assert nursery.whereis("till") is None
        nursery.spawn(Echo, name="till")


async def test_a_group_tells_each_member_in_the_order_in_which_they_joined() -> None:
    async with open_nursery() as nursery:
        probes: list[Ref[Any]] = [nursery.spawn(Probe) for _ in range(3)]
        for probe in probes:
            nursery.names.join("probes", probe)  # type: ignore[arg-type]  # a ref is its cell
        nursery.names.join("probes", probes[0])  # type: ignore[arg-type]  # twice is once
        assert list(nursery.names.members("probes")) == probes
        assert nursery.names.broadcast("probes", "hello") == 3
        for probe in probes:
            assert (await probe.get_state())["messages"] == ["hello"]
        assert nursery.names.broadcast("nobody", "hello") == 0
        assert nursery.names.members("nobody") == ()


@pytest.mark.parametrize("how", ["leave", "stop", "kill", "crash"])
async def test_whoever_leaves_or_ends_is_a_member_of_nothing(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_nursery() as nursery:
        stays = await apart(nursery, Finds)
        goes = await apart(nursery, Finds)
        for group in ("one", "two"):
            await goes.ask(("join", group))
            await stays.ask(("join", group))
        if how == "leave":
            await goes.ask(("leave", "one"))
            assert list(nursery.names.members("two")) == [goes, stays]
            await goes.ask(("leave", "two"))
            await goes.ask(("leave", "two"))
        elif how == "stop":
            await goes.stop()
        elif how == "kill":
            goes.kill()
        else:
            goes.tell("crash")
            await goes.join()
        assert list(nursery.names.members("one")) == [stays]
        assert list(nursery.names.members("two")) == [stays]


async def test_a_broadcast_that_finds_a_mailbox_full_says_so_and_those_before_it_have_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        first: Ref[Any] = nursery.spawn(Probe)
        full: Ref[Any] = nursery.spawn(Echo, capacity=1)
        last: Ref[Any] = nursery.spawn(Probe)
        full.suspend()
        full.tell("fills it")
        for ref in (first, full, last):
            nursery.names.join("all", ref)  # type: ignore[arg-type]  # a ref is its cell
        with pytest.raises(MailboxFull):
            nursery.names.broadcast("all", "hello")
        assert (await first.get_state())["messages"] == ["hello"]
        assert (await last.get_state())["messages"] == []
