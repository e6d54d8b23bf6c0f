"""What a snapshot says of supervisors and their children, and how it is shown."""

from __future__ import annotations

import logging
import math
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from standby_actors import Actor, Ref, Snapshot, Tally, open_nursery
from standby_actors.block import open_blocks
from standby_actors.tree import look_at
from standby_supervision import Backoff, child, open_supervisor, supervisor


class Works(Actor):
    """Fails, waits, asks and answers as it is told."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, Exception):
            raise message
        if isinstance(message, Ref):
            return await message.ask(1.0)
        await trio.sleep(message)
        return message


class Fails(Actor):
    """Cannot start, but for the first time."""

    starts = 0

    def on_start(self) -> None:
        Fails.starts += 1
        if Fails.starts > 1:
            raise OSError("no route")

    def receive(self, message: Exception) -> None:
        raise message


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="standby.supervision")
    Fails.starts = 0


def named(tree: Snapshot) -> dict[str, Snapshot]:
    return {each.name: each for each in tree}


async def test_a_supervised_child_says_how_often_and_why_it_was_restarted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Works, id="w"), child(Works, id="calm")) as tree:
        await trio.sleep(2)
        for number in range(2):
            tree["w"].tell(ValueError(number))
            await trio.sleep(1)
        seen = named(tree.snapshot())
        one, calm = seen["w"].child, seen["calm"].child
        assert one is not None
        assert calm is not None
        assert (one.id, one.restart, one.restarts) == ("w", "permanent", 2)
        assert one.last_reason == "crashed (ValueError: 1)"
        assert one.uptime_seconds == pytest.approx(1)
        assert (calm.restarts, calm.last_reason, calm.uptime_seconds) == (0, "", 4)
        assert (seen["w"].incarnation, seen["w"].state) == (3, "idle")


async def test_a_supervisor_says_its_rule_and_how_much_of_its_restarts_are_used(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(
        child(Works, id="w"), child(Works, id="x"), intensity=3, period=5.0
    ) as tree:
        tree["w"].tell(ValueError())
        await trio.sleep(10)
        tree["w"].tell(ValueError())
        await trio.sleep(1)
        top = tree.snapshot()
        assert top.role == "supervisor"
        assert top.supervisor is not None
        assert msgspec.structs.asdict(top.supervisor) == {
            "strategy": "one_for_one",
            "children": 2,
            "active": 2,
            "intensity": 3,
            "period_seconds": 5.0,
            "recent_restarts": 1,
            "restarts": 2,
            "gave_up": "",
        }


async def test_a_child_between_two_lives_says_when_it_is_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backoff = Backoff(8.0, jitter=0.0)
    async with open_supervisor(child(Works, id="w"), backoff=backoff) as tree:
        tree["w"].tell(ValueError("no"))
        await trio.sleep(2)
        tree["w"].tell(0.5)
        (w,) = tree.snapshot().children
        assert (w.state, w.mailbox) == ("restarting", 1)
        assert w.child is not None
        assert (w.child.retry_seconds, w.child.uptime_seconds) == (6, None)
        assert "again in 6 s" in tree.render()
        assert tree.snapshot().supervisor is not None
        assert "one_for_one, 0 of 1 up" in tree.render()
        await trio.sleep(6.2)
        (w,) = tree.snapshot().children
        assert w.child is not None
        assert (w.state, w.child.retry_seconds) == ("waiting", None)
        await trio.sleep(1)


async def test_a_child_that_fails_to_start_again_is_restarting_until_it_has(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backoff = Backoff(1.0, factor=1.0, jitter=0.0)
    async with open_supervisor(
        child(Fails, id="f"), intensity=None, backoff=backoff, name="shop"
    ) as tree:
        tree["f"].tell(ValueError("first"))
        await trio.sleep(3.5)
        (f,) = tree.snapshot().children
        assert f.state == "restarting"
        assert f.path == "shop/top/f"
        top = tree.snapshot().supervisor
        assert top is not None
        assert top.restarts == Fails.starts - 1  # the first start is no restart


async def test_a_child_that_does_not_run_is_shown_as_down(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Works, id="a"), child(Works, id="b")) as tree:
        await tree.terminate_child("a")
        assert [each.state for each in tree.snapshot().children] == ["down", "idle"]
        assert tree.render().splitlines() == [
            "top  one_for_one, 1 of 2 up",
            "├─ a  down  last: shutdown",
            "└─ b  idle",
        ]


async def test_supervisors_below_supervisors_and_their_blocks_have_their_roles(
    autojump_clock: trio.testing.MockClock,
) -> None:
    below = supervisor(child(Works, id="leaf"), id="below", strategy="rest_for_one")
    async with open_supervisor(below, name="house"):
        (block,) = [block.root.snapshot() for block in open_blocks()]
        roles = [(each.path, each.role) for each in block]
        assert roles == [
            ("house", "block"),
            ("house/top", "supervisor"),
            ("house/top/below", "supervisor"),
            ("house/top/below/leaf", "worker"),
        ]


async def test_a_snapshot_has_the_message_in_progress_the_asks_and_the_stack(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_nursery() as nursery:
        slow: Ref[Any] = nursery.spawn(Works, name="slow", shutdown=30)
        asker: Ref[Any] = nursery.spawn(Works, name="asker", shutdown=30)
        slow.tell(10.0)
        asker.tell(slow)
        await trio.sleep(1)
        one, two = slow.snapshot(), asker.snapshot()
        assert one.message == "float"
        assert one.stack[0].startswith("receive (test_snapshots.py:")
        assert any(frame.startswith("sleep (") for frame in one.stack)
        assert two.asks == ("nursery/slow",)
        assert two.waits_for == "an answer of nursery/slow"


async def test_a_snapshot_can_be_encoded_and_is_the_same_when_it_is_decoded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Works, id="caf\udce9"), child(Works, id="w")) as tree:
        tree["w"].tell(ValueError("no such file: caf\udce9"))
        tree["caf\udce9"].tell(1.0)
        await trio.sleep(0.5)
        before = tree.snapshot()
        line = msgspec.json.encode(before)
        assert msgspec.json.decode(line, type=Snapshot) == before
        assert "caf?" in named(before)
        await trio.sleep(1)


async def test_of_many_children_those_in_trouble_are_shown_and_the_rest_is_counted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    backoff = Backoff(60.0, cap=60.0)
    specs = [child(Works, id=f"w{number}") for number in range(30)]
    async with open_supervisor(*specs, backoff=backoff) as tree:
        tree["w20"].tell(ValueError("broken"))
        await trio.sleep(1)
        lines = [line.split("  ")[0] for line in tree.render(most=3).splitlines()]
        assert lines == ["top", "├─ w0", "├─ w1", "├─ w20", "└─ … and 27 more: 27 idle"]
        assert tree.render(most=0).splitlines()[1:] == ["└─ … 29 idle, 1 restarting"]


async def test_a_bounded_look_counts_what_it_leaves_out_and_pauses(
    autojump_clock: trio.testing.MockClock,
) -> None:
    template = child(Works, id="session")
    async with open_supervisor(template, strategy="dynamic") as tree:
        for _ in range(2_000):
            await tree.start()
        look = look_at([tree.ref], most=5, depth=math.inf, limit=4)  # type: ignore[list-item]  # refs are cells
        pauses = 0
        while True:
            try:
                next(look)
            except StopIteration as done:
                (top,) = done.value
                break
            pauses += 1
        assert pauses >= 4
        assert len(top.children) == 3  # 4 actors in all
        assert top.not_shown == (Tally("idle", 1_997),)
        assert (top.supervisor.children, top.supervisor.active) == (2_000, 2_000)
        whole = tree.snapshot()
        assert (len(whole.children), whole.not_shown) == (2_000, ())


async def test_the_levels_below_a_depth_are_counted() -> None:
    below = supervisor(child(Works, id="leaf"), id="below")
    async with open_supervisor(below) as tree:
        look = look_at([tree.ref], depth=1)  # type: ignore[list-item]  # refs are cells
        try:
            while True:
                next(look)
        except StopIteration as done:
            (top,) = done.value
        assert top.children[0].children == ()
        assert top.children[0].not_shown == (Tally("idle", 1),)
        assert tree.render(depth=1) == top.render()


async def test_what_a_reason_says_cannot_break_a_line_or_order_a_terminal_about(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_supervisor(child(Works, id="w")) as tree:
        tree["w"].tell(ValueError("one\ntwo\x1b[2J" + "x" * 5_000))
        await trio.sleep(1)
        top, line = tree.render().splitlines()
        assert "one two\ufffd[2Jxxx" in line
        assert len(line) < 300
        assert top == "top  one_for_one, 1 up  1 restart, 1 of 3 within 5 s"


async def test_a_tree_can_be_looked_at_when_trio_runs_no_more() -> None:
    async with open_supervisor(child(Works, id="w")) as tree:
        snapshot = await trio.to_thread.run_sync(tree.snapshot)
    (w,) = snapshot.children
    assert w.child is not None
    assert w.child.uptime_seconds is None
    assert tree.snapshot().state == "ended"
