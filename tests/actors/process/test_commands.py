"""Short commands: run to their end, or ended, with the last of what they wrote."""

from __future__ import annotations

import sys

import pytest
import trio

from standby_actors.process import child_environment, run_command
from tests.support.trees import SPOT, new_spot, spotted

pytestmark = pytest.mark.real


async def test_a_command_is_run_to_its_end() -> None:
    result = await run_command(["sh", "-c", "echo said; echo wrong >&2; exit 3"])
    assert (result.code, result.output, result.error_output) == (3, "said\n", "wrong\n")
    assert not result.ok


async def test_a_command_reads_its_input_and_then_the_end_of_it() -> None:
    result = await run_command(["cat"], input=b"x" * 300_000, keep=400_000)
    assert result.ok
    assert result.output == "x" * 300_000


async def test_a_command_that_does_not_read_its_input_is_not_waited_for() -> None:
    assert (await run_command(["true"], input=b"x" * 300_000)).ok


async def test_of_much_output_the_end_is_kept_and_the_rest_counted() -> None:
    program = "import sys\nfor n in range(50_000): sys.stdout.write(f'{n:09}\\n')"
    result = await run_command([sys.executable, "-c", program], keep=1_000)
    assert result.output.splitlines()[-1] == "000049999"
    assert len(result.output) == 1_000
    assert result.dropped == 500_000 - 1_000


async def test_output_that_is_not_utf_8_is_not_an_error() -> None:
    assert (await run_command(["printf", r"a\377b"])).output == "a�b"


@pytest.mark.skipif(sys.platform != "linux", reason="the promise is Linux's")
async def test_a_command_out_of_time_is_ended_with_all_that_it_started() -> None:
    spot = new_spot()
    script = "trap '' TERM; setsid sleep 600 & echo began; sleep 600; sleep 600"
    result = await run_command(
        ["sh", "-c", script], env=child_environment({SPOT: spot}), timeout=0.3
    )
    assert result.timed_out
    assert not result.ok
    assert result.output == "began\n"
    assert spotted(spot) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the promise is Linux's")
async def test_what_a_command_leaves_running_is_ended_and_does_not_hold_its_output() -> None:
    spot = new_spot()
    with trio.fail_after(20):
        result = await run_command(
            ["sh", "-c", "setsid sleep 600 & echo done"], env=child_environment({SPOT: spot})
        )
    assert result.ok
    assert result.output == "done\n"
    assert spotted(spot) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the promise is Linux's")
async def test_a_cancelled_command_is_gone_when_the_cancellation_goes_on() -> None:
    spot = new_spot()
    with trio.move_on_after(0.2) as scope:
        await run_command(["sleep", "600"], env=child_environment({SPOT: spot}))
    assert scope.cancelled_caught
    assert spotted(spot) == []


async def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes or more, not -1"):
        await run_command(["true"], keep=-1)
