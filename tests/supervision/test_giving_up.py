# ruff: noqa: PT012 - what raises here is leaving a block, so the block is the statement
"""What the block of a supervisor raises that gave up."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from standby_supervision import GaveUp, child, open_supervisor, supervisor


def fails(message: str) -> None:
    raise ValueError(message)


async def test_it_is_raised_as_it_is_with_its_causes(autojump_clock: MockClock) -> None:
    with pytest.raises(GaveUp, match="child fails: 2 restarts within 5 s, 1 allowed") as caught:
        async with open_supervisor(child(fails), intensity=1) as tree:
            tree["fails"].tell("one")
            tree["fails"].tell("two")
            await tree.join()
    assert [str(cause) for cause in caught.value.exceptions] == ["one", "two"]


async def test_an_error_of_the_body_stands_beside_it(autojump_clock: MockClock) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with open_supervisor(child(fails), intensity=0) as tree:
            tree["fails"].tell("one")
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("of the body")
    assert {type(error) for error in caught.value.exceptions} == {GaveUp, KeyError}


async def test_one_below_that_gives_up_is_a_failure_of_a_child(autojump_clock: MockClock) -> None:
    below = supervisor(child(fails), id="below", intensity=0)
    async with open_supervisor(below) as tree:
        tree.branch("below")["fails"].tell("one")
        await trio.testing.wait_all_tasks_blocked()
        assert tree["below"].incarnation == 2
