"""SIGTERM and SIGHUP in programs that ``run`` runs: told to end, they end in order."""

from __future__ import annotations

import pickle
import signal
import textwrap

import pytest

from standby_actors import Terminated
from tests.actors.test_ctrl_c import PARTS
from tests.support.programs import HOLDS_THE_LOOP, Ended, run_program

pytestmark = pytest.mark.real

TOLD = pytest.mark.parametrize(
    ("told", "code"),
    [
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGHUP, 129, id="SIGHUP"),
    ],
)
HELD = """
    async def main():
        async with open_nursery(shutdown=60) as nursery:
            nursery.spawn(Stops, "a")
            nursery.spawn(Slow, "slow").tell("sleep")
            nursery.spawn(Stopping)
            await trio.testing.wait_all_tasks_blocked()
            print("ready")
            await trio.sleep_forever()
    import trio.testing
"""
IDLE = """
    async def main():
        async with open_nursery() as nursery:
            nursery.spawn(Stops, "a"), nursery.spawn(Stops, "b")
            print("ready")
            await trio.sleep_forever()
"""
ENDING = """
try:
    run(main)
finally:
    print(*LOG)
"""


def program(main: str, *cues: str, signals: int | list[int], ending: str = ENDING) -> Ended:
    return run_program(PARTS + textwrap.dedent(main) + ending, *cues, signals=signals)


@TOLD
@pytest.mark.parametrize("call", ["run", "run_sync"])
def test_a_program_that_is_told_to_end_stops_in_order(call: str, told: int, code: int) -> None:
    ending = ENDING.replace("run(main)", f"{call}(main)")
    ended = program(IDLE, "ready", signals=told, ending=ending)
    assert (ended.lines, ended.code, ended.errors) == (["ready", "b a"], code, ""), ended


@TOLD
def test_the_second_signal_kills(told: int, code: int) -> None:
    ended = program(HELD, "ready", "stopping", signals=told)
    assert (ended.lines[-1], ended.code) == ("('slow', 'Cancelled')", code), ended


def test_a_second_signal_of_another_kind_kills_too_and_the_first_names_the_end() -> None:
    ended = program(HELD, "ready", "stopping", signals=[signal.SIGTERM, signal.SIGINT])
    assert (ended.lines[-1], ended.code) == ("('slow', 'Cancelled')", 143), ended
    ended = program(HELD, "ready", "stopping", signals=[signal.SIGINT, signal.SIGTERM])
    assert (ended.lines[-1], ended.code) == ("('slow', 'Cancelled')", -signal.SIGINT), ended


def test_who_holds_the_loop_is_interrupted_by_the_second_one() -> None:
    ended = program(
        HOLDS_THE_LOOP,
        "ready",
        "again",
        signals=signal.SIGTERM,
    )
    assert (ended.lines[:2], ended.code) == (["ready", "again"], 143), ended
    assert "span to the end" not in ended.lines


def test_the_end_is_told_whatever_main_made_of_it_and_what_it_raised_is_not_lost() -> None:
    ended = program(
        """
        async def main():
            try:
                print("ready")
                await trio.sleep_forever()
            finally:
                raise ValueError("on the way out")
        """,
        "ready",
        signals=signal.SIGTERM,
        ending=textwrap.dedent(
            """
            try:
                run(main)
            except SystemExit as ending:
                print(type(ending).__name__, ending.code, "|", ending, "|", ending.__cause__)
            """
        ),
    )
    assert ended.lines[-1] == "Terminated 143 | ended by SIGTERM | on the way out", ended


def test_an_exit_code_of_mains_own_stands() -> None:
    ended = program(
        """
        async def main():
            try:
                print("ready")
                await trio.sleep_forever()
            finally:
                raise SystemExit(5)
        """,
        "ready",
        signals=signal.SIGTERM,
    )
    assert ended.code == 5, ended


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_signals_are_given_back(name: str) -> None:
    ended = program(
        f"""
        def free():
            return signal.getsignal(signal.{name}) is signal.SIG_DFL
        async def main():
            print(free())
        """,
        signals=[],
        ending="\nrun(main)\nprint(free())",
    )
    assert ended.lines == ["False", "True"], ended


def test_a_signal_that_somebody_handles_is_left_to_them() -> None:
    ended = program(
        """
        async def main():
            global token
            token = trio.lowlevel.current_trio_token()
            print("ready")
            await heard.wait()
            print("heard", signal.getsignal(signal.SIGTERM) is hear)
        heard = trio.Event()
        def hear(*_):
            token.run_sync_soon(heard.set)
        signal.signal(signal.SIGTERM, hear)
        """,
        "ready",
        signals=signal.SIGTERM,
    )
    assert ended.lines[:2] == ["ready", "heard True"], ended


def test_under_nohup_a_terminal_that_goes_away_ends_nothing() -> None:
    ended = program(
        """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup starts a program
        async def main():
            print("ready")
            # Would come first: signals are delivered in the order of their numbers.
            with trio.open_signal_receiver(signal.SIGUSR1) as signals:
                print("listening")
                async for _ in signals:
                    break
            print("lives", signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
        """,
        "ready",
        "listening",
        signals=[signal.SIGHUP, signal.SIGUSR1],
    )
    assert ended.lines[:3] == ["ready", "listening", "lives True"], ended
    assert ended.code == 0


def test_in_another_thread_than_the_main_one_no_signal_is_taken() -> None:
    ended = program(
        """
        async def main():
            print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        """,
        signals=[],
        ending="\nthread = threading.Thread(target=run, args=(main,))\n"
        "thread.start()\nthread.join()",
    )
    assert ended.lines == ["True"], ended


def test_the_end_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(Terminated(signal.SIGHUP)))
    assert (again.signum, again.code, str(again)) == (1, 129, "ended by SIGHUP")
