"""A process tree ends with the block that opened it, whatever it does, whatever happens to us."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest
import trio

from standby_actors.process import CannotRun, Ended, Grace, child_environment, open_process
from standby_actors.process.process import MARK
from tests.support.trees import SPOT, alive, host, new_spot, parent_of, spotted, wait_until_gone

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="the promise is Linux's"),
]

QUICK = Grace(eof=0.1, term=0.1, kill=5.0)

HOSTILE = {
    "waits for its input": "cat",
    "ignores the end of its input": "while :; do sleep 0.2; done",
    "ignores TERM": "trap '' TERM; while :; do sleep 0.2; done",
    "leaves a tool in a session of its own": "setsid sleep 600 & cat",
    "leaves a daemon": "(setsid sh -c 'sleep 600 & sleep 600' &) ; cat",
    "ends at once and leaves a tool that holds its pipes": "setsid sleep 600 & exit 0",
    "forks in a loop": "while :; do sleep 600 & sleep 0.005; done",
    "forks away from itself": (
        "f() { trap '' TERM HUP; sleep 0.002; n=$((n+1)); [ $n -gt 3000 ] || f & }; n=0; f; cat"
    ),
    "floods stderr": "while :; do echo noise noise noise noise >&2; done",
    "floods stdout": "while :; do echo noise noise noise noise; done",
    "kills its group": "trap '' TERM; (setsid sleep 600 &); kill -TERM 0; sleep 600",
    "stops itself": "(setsid sleep 600 &); kill -STOP $$",
}


def marked(spot: str) -> dict[str, str]:
    return child_environment({SPOT: spot})


@pytest.mark.parametrize("script", [pytest.param(s, id=i) for i, s in HOSTILE.items()])
async def test_nothing_of_a_tree_is_left_when_its_block_is(script: str) -> None:
    spot = new_spot()
    seed = random.randrange(2**32)
    async with open_process(["sh", "-c", script], env=marked(spot), grace=QUICK) as process:
        # Ended at some moment of its life.
        await trio.sleep(random.Random(seed).uniform(0, 0.15))
    assert process.gone, f"seed {seed}"
    assert spotted(spot) == [], f"seed {seed}"
    assert process.ended is not None


@pytest.mark.deep
@pytest.mark.parametrize("script", [pytest.param(s, id=i) for i, s in HOSTILE.items()])
async def test_two_hundred_ends_leave_nothing_and_are_bounded(script: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    longest = 0.0
    for _ in range(200):
        spot = new_spot()
        async with open_process(["sh", "-c", script], env=marked(spot), grace=QUICK) as process:
            await trio.sleep(draw.uniform(0, 0.1))
            began = time.monotonic()
        longest = max(longest, time.monotonic() - began)
        assert process.gone
        assert spotted(spot) == []
    # The bound of F6: what was granted, and a second.
    assert longest <= QUICK.eof + QUICK.term + QUICK.kill + 1


async def test_a_cancelled_block_ends_its_tree_before_it_lets_the_cancellation_go_on() -> None:
    spot = new_spot()
    with trio.move_on_after(0.2) as scope:
        script = HOSTILE["leaves a daemon"]
        async with open_process(["sh", "-c", script], env=marked(spot), grace=QUICK):
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert spotted(spot) == []


async def test_an_error_of_the_body_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_process(["cat"]):
            raise ZeroDivisionError


async def test_a_block_cancelled_while_its_process_starts_leaves_nothing() -> None:
    # Each at another moment of the start.
    for n in range(20):
        spot = new_spot()
        with trio.move_on_after(n * 0.004):
            async with open_process(["cat"], env=marked(spot), grace=QUICK):
                await trio.sleep_forever()
        assert spotted(spot) == []


@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param("exit 0", 0, id="exit"),
        pytest.param("exit 7", 7, id="exit code"),
        pytest.param("kill -9 $$", -9, id="signal"),
    ],
)
async def test_it_is_told_how_a_process_ended(how: str, code: int) -> None:
    async with open_process(["sh", "-c", how]) as process:
        assert await process.wait() == Ended(code)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        pytest.param("no-such-program-anywhere", "not on the PATH", id="not on the path"),
        pytest.param("/no/such/program", "No such file", id="no such file"),
        pytest.param("/", "Permission denied", id="a directory"),
        pytest.param("a\0b", "null byte|not on the PATH", id="no name at all"),
    ],
)
async def test_a_program_that_is_not_there_is_an_error_that_says_so(program: str, why: str) -> None:
    with pytest.raises(CannotRun, match=why):
        async with open_process([program]):
            raise AssertionError


async def test_a_file_that_is_no_program_is_an_error_that_says_so(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("neither a script nor a binary")
    program.chmod(0o755)
    with pytest.raises(CannotRun, match="Exec format error"):
        async with open_process([str(program)]):
            raise AssertionError


async def test_a_directory_that_is_not_there_is_an_error_that_says_so() -> None:
    with pytest.raises(CannotRun, match="no directory '/no/such/place'"):
        async with open_process(["cat"], cwd="/no/such/place"):
            raise AssertionError


async def test_a_process_gets_the_signals_of_a_shell() -> None:
    """Python ignores SIGPIPE, and what is ignored is inherited."""
    async with open_process(
        ["sh", "-c", "yes | head -1; grep SigIgn /proc/self/status"]
    ) as process:
        await process.wait()
        said = b""
        while data := await process.receive():
            said += data
    assert said.splitlines()[0] == b"y"
    ignored = int(said.split()[-1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))


async def test_the_last_of_stderr_is_kept_and_no_more() -> None:
    script = "i=0; while [ $i -lt 5000 ]; do echo line $i >&2; i=$((i+1)); done"
    async with open_process(["sh", "-c", script], stderr_keep=100) as process:
        await process.wait()
    assert len(process.stderr_tail) == 100
    assert process.stderr_tail.endswith("line 4999\n")


async def test_what_a_process_wrote_before_it_ended_can_still_be_read() -> None:
    async with open_process(["sh", "-c", "head -c 60000 /dev/zero; setsid sleep 600 &"]) as process:
        await process.wait()
        size = 0
        while data := await process.receive():
            size += len(data)
    assert size == 60_000


async def test_a_tree_whose_launcher_is_killed_is_ended_all_the_same() -> None:
    spot = new_spot()
    script = "setsid sleep 600 & echo started; wait"
    async with open_process(["sh", "-c", script], env=marked(spot), grace=QUICK) as process:
        await process.receive()
        launcher = parent_of(process.pid)
        os.kill(launcher, signal.SIGKILL)
        assert await process.wait() == Ended(None)
        assert spotted(spot) == []


async def test_without_a_launcher_the_group_ends_with_the_block() -> None:
    spot = new_spot()
    script = "sleep 600 & trap '' TERM; while :; do sleep 0.1; done"
    async with open_process(
        ["sh", "-c", script], env=marked(spot), grace=QUICK, contained=False
    ) as process:
        await trio.sleep(0.05)
    assert process.ended == Ended(-9)
    assert wait_until_gone(spot, 5.0) < 5.0


HOST = """
import os, sys, trio
from standby_actors.process import child_environment, open_process

async def main():
    env = child_environment({{"{spot_name}": "{spot}"}})
    async with trio.open_nursery() as nursery:
        for n in range(3):
            nursery.start_soon(one, env)
        await trio.sleep(600)

async def one(env):
    async with open_process(["sh", "-c", {script!r}], env=env) as process:
        print(process.pid)
        {then}
        await trio.sleep(600)

trio.run(main)
"""

SURVIVOR = "trap '' HUP TERM; (trap '' HUP TERM; setsid sleep 600) & echo up; sleep 600; sleep 600"


def started(spot: str, script: str = SURVIVOR, then: str = "await process.receive()") -> str:
    return HOST.format(spot_name=SPOT, spot=spot, script=script, then=then)


def test_nothing_is_left_of_three_trees_when_their_host_is_killed() -> None:
    spot = new_spot()
    with host(started(spot)) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(3)]
        while len(spotted(spot)) < 9:
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert wait_until_gone(spot, 5.0) < 5.0
    assert not any(map(alive, pids))


def test_nothing_is_left_of_a_tree_whose_host_leaves_without_a_word() -> None:
    spot = new_spot()
    with host(started(spot, then="await process.receive(); os._exit(3)")) as process:
        process.wait()
        assert wait_until_gone(spot, 5.0) < 5.0


def test_a_fork_of_the_host_does_not_keep_its_trees_alive() -> None:
    """It holds a copy of every pipe that the host held."""
    spot = new_spot()
    fork = "print(process.pid); os.fork() or (time.sleep(8), os._exit(0))"
    source = "import time\n" + started(spot).replace("print(process.pid)", fork)
    with host(source) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        while not spotted(spot):
            time.sleep(0.01)
        process.kill()
        process.wait()
        assert wait_until_gone(spot, 5.0) < 5.0


@pytest.mark.deep
async def test_a_process_that_idles_for_half_a_minute_stays_alive() -> None:
    """Started from a worker thread, which ends after ten seconds without work."""
    async with open_process(["cat"]) as process:
        await trio.sleep(30)
        await process.send(b"still here\n")
        assert await process.receive() == b"still here\n"


async def test_a_tree_is_marked_and_its_environment_holds_nothing_else_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    canary = "canary-4711"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    monkeypatch.setenv("SOMETHING_ELSE", canary)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{canary}@proxy:1")
    async with open_process(["env"]) as process:
        said = b""
        while data := await process.receive():
            said += data
    assert canary.encode() not in said
    names = {line.partition(b"=")[0].decode() for line in said.splitlines()}
    assert names <= set(child_environment()) | {MARK, "PWD", "OLDPWD", "SHLVL", "_"}
    assert child_environment(names=["OPENAI_API_KEY"])["OPENAI_API_KEY"] == canary
