"""A short command that is cut at any step of the scheduler, with all that it has started."""

from __future__ import annotations

import sys

import pytest
import trio

from standby.testing import Baseline
from standby_actors.process import child_environment, run_command
from tests.support.cutting import CutAt
from tests.support.trees import SPOT, new_spot, spotted

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="the promise is Linux's"),
]

# One that has left its session, one in the background, and an end by itself.
STARTS = "setsid sleep 600 & sleep 600 & cat; echo said; echo wrong >&2"


async def test_a_command_that_is_cut_at_any_step_leaves_no_process_and_no_pipe() -> None:
    await run_command(["true"])  # what is opened once for all is open
    before, tasks = Baseline().files, trio.lowlevel.current_statistics().tasks_living
    spot = new_spot()
    step = 0
    while True:
        step += 1
        result = None
        env = child_environment({SPOT: spot})
        with trio.fail_after(20), trio.CancelScope() as scope, CutAt(step, scope.cancel) as cut:
            result = await run_command(["sh", "-c", STARTS], input=b"read\n", env=env)
        assert spotted(spot) == [], step
        assert Baseline().files == before, step
        assert trio.lowlevel.current_statistics().tasks_living == tasks, step
        # Cut in its last step, it may have come to its end all the same; never to half of one.
        assert (result is None) == scope.cancelled_caught, step
        if result is not None:
            assert (result.code, result.output, result.error_output) == (
                0,
                "read\nsaid\n",
                "wrong\n",
            )
        if cut.was_late:
            break
    assert step > 10
