"""Ctrl-C in blocks under a plain ``trio.run``, and in programs that ``run`` runs."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.programs import HOLDS_THE_LOOP, Ended, run_program

pytestmark = pytest.mark.real

PARTS = """
import threading, time
import trio
from standby_actors import Actor, open_nursery, run, run_sync
from tests.actors.workers import LOG, AsyncEcho, Do, Echo, Worker
from tests.actors.workers import Stops as HurriedStops

class Stops(HurriedStops):
    "Is not killed where the machine is slow."
    shutdown = 30.0

class Stopping(Actor):
    "Says when the ordered stop has come to it, which is before those spawned earlier."
    shutdown = 30.0
    def receive(self, message): pass
    async def on_stop(self, reason):
        # From a thread, so that Ctrl-C finds the loop waiting, not in this hook.
        await trio.to_thread.run_sync(print, "stopping")

class StopsEndlessly(Actor):
    shutdown = 60.0
    def receive(self, message): pass
    def on_stop(self, reason):
        print("stopping")
        while True: pass

def spin():
    "Holds the loop until it is interrupted; for a minute at most."
    print("ready")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
    print("span to the end")

class Spins(Actor):
    shutdown = 30.0
    def receive(self, message): spin()

class SpinsStepped(Actor):
    shutdown = 30.0
    async def receive(self, message): spin()

class SpinsAdopted(Actor):
    shutdown = 30.0
    async def receive(self, message):
        await trio.sleep(0.001)
        spin()

class SpinsInHook(Actor):
    def on_start(self): spin()
    def receive(self, message): pass

class Slow(Worker):
    "Would have a minute for its handler in progress."
    shutdown = 60.0
"""
ENDING = """
try:
    OUTER
except BaseException as error:
    print("raised", type(error).__name__, *map(str, LOG))
"""


def under_trio(main: str, *cues: str) -> Ended:
    return run_program(
        PARTS + textwrap.dedent(main) + ENDING.replace("OUTER", "trio.run(main)"), *cues
    )


def under_run(main: str, *cues: str, options: str = "") -> Ended:
    ending = ENDING.replace("OUTER", f"run(main{options})")
    return run_program(PARTS + textwrap.dedent(main) + ending, *cues)


# ---- under trio.run: nobody owns the signal


def test_ctrl_c_while_idle_is_an_ordered_stop() -> None:
    ended = under_trio(
        """
        async def main():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a"), nursery.spawn(Stops, "b"), nursery.spawn(Echo)
                print("ready")
                await trio.sleep_forever()
        """,
        "ready",
    )
    assert ended.lines[-1] == "raised KeyboardInterrupt b a", ended


@pytest.mark.parametrize("kind", ["Spins", "SpinsStepped", "SpinsAdopted"])
def test_ctrl_c_breaks_an_endless_handler_and_stops_the_rest_in_order(kind: str) -> None:
    ended = under_trio(
        f"""
        async def main():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                nursery.spawn({kind}).tell(1)
                await trio.sleep_forever()
        """,
        "ready",
    )
    assert ended.lines == ["ready", "raised KeyboardInterrupt a"], ended


def test_ctrl_c_breaks_an_endless_start_hook() -> None:
    ended = under_trio(
        """
        async def main():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                await nursery.start(SpinsInHook)
        """,
        "ready",
    )
    assert ended.lines == ["ready", "raised KeyboardInterrupt a"], ended


def test_ctrl_c_in_an_inline_ask_is_raised_from_the_block_and_not_to_the_asker() -> None:
    ended = under_trio(
        """
        async def main():
            async with open_nursery() as nursery:
                spins = nursery.spawn(Spins)
                try:
                    await spins.ask(1)
                except Exception as error:
                    print("asker got", type(error).__name__)
                    raise
        """,
        "ready",
    )
    assert ended.lines[-1] == "raised KeyboardInterrupt", ended


def test_a_second_ctrl_c_kills_where_the_owner_is_the_main_task() -> None:
    ended = under_trio(
        """
        async def main():
            async with open_nursery(shutdown=60) as nursery:
                nursery.spawn(Stops, "a")
                nursery.spawn(Slow, "slow").tell("sleep")
                nursery.spawn(Stopping)
                await trio.testing.wait_all_tasks_blocked()
                print("ready")
                await trio.sleep_forever()
        import trio.testing
        """,
        "ready",
        "stopping",
    )
    assert ended.lines[-1] == "raised KeyboardInterrupt ('slow', 'Cancelled')", ended


def test_a_second_ctrl_c_that_lands_in_a_stop_hook_kills_too() -> None:
    ended = under_trio(
        """
        async def main():
            async with open_nursery(shutdown=60) as nursery:
                nursery.spawn(Stops, "a")
                nursery.spawn(Slow, "slow").tell("sleep")
                nursery.spawn(StopsEndlessly)
                await trio.testing.wait_all_tasks_blocked()
                print("ready")
                await trio.sleep_forever()
        import trio.testing
        """,
        "ready",
        "stopping",
    )
    assert ended.lines[-1] == "raised KeyboardInterrupt ('slow', 'Cancelled')", ended


def test_the_shutdown_bounds_the_stop_where_the_owner_is_not_the_main_task() -> None:
    ended = under_trio(
        """
        async def owner():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                nursery.spawn(Worker, "slow").tell("sleep")
                nursery.spawn(Stopping)
                print("ready")
                await trio.sleep_forever()
        async def main():
            async with trio.open_nursery() as tasks:
                tasks.start_soon(owner)
        """,
        "ready",
        "stopping",
    )
    # The second one is not seen: the worker is killed when its time is up.
    # Whether bare or in a group of trio's depends on the task that the first one met.
    assert ended.lines[-1].endswith(" ('slow', 'Cancelled') a"), ended


def test_a_burst_of_ctrl_c_at_any_moment_never_corrupts_a_pump() -> None:
    ended = run_program(
        PARTS
        + textwrap.dedent(
            """
            import os, random
            class Plain(Actor):
                def receive(self, n):
                    if n:
                        self.ref.tell(n - 1)
                        self.ref.ask(0)
                        sum(range(20))
            class Waits(Actor):
                async def receive(self, n):
                    await self.peer.ask(1)
                    await trio.lowlevel.checkpoint()
                    self.ref.tell(n)
                def __init__(self, peer):
                    self.peer = peer
            random.seed(7)
            async def main():
                async with open_nursery() as nursery:
                    for _ in range(20):
                        nursery.spawn(Plain).tell(10**9)
                        nursery.spawn(Waits, nursery.spawn(AsyncEcho)).tell(1)
                    pause = 0.005 + random.random() * 0.02
                    def press():
                        time.sleep(pause)
                        os.kill(os.getpid(), signal.SIGINT)
                    threading.Thread(target=press).start()
                    await trio.sleep_forever()
            for _ in range(25):
                try:
                    trio.run(main)
                    print("no error")
                except KeyboardInterrupt:
                    pass
                except BaseException as error:
                    print(repr(error))
            print("done")
            """
        )
    )
    assert ended.lines == ["done"], ended


# ---- under standby.run: the program owns the signal


def test_run_stops_in_order_at_the_first_ctrl_c() -> None:
    ended = under_run(
        """
        async def main():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a"), nursery.spawn(Stops, "b"), nursery.spawn(Echo)
                print("ready")
                await trio.sleep_forever()
        """,
        "ready",
    )
    assert ended.lines[-1] == "raised KeyboardInterrupt b a", ended


def test_run_lets_the_handler_in_progress_end_at_the_first_ctrl_c() -> None:
    ended = under_run(
        """
        class Finishes(Actor):
            async def receive(self, message):
                print("ready")
                await self.told.wait()
                print("finished")
            def __init__(self, told):
                self.told = told
        async def main():
            told = trio.Event()
            async with open_nursery() as nursery:
                nursery.spawn(Finishes, told).tell(1)
                class Last(Actor):
                    def receive(self, message): pass
                    def on_stop(self, reason): told.set()
                nursery.spawn(Last)
                await trio.sleep_forever()
        """,
        "ready",
    )
    assert ended.lines == ["ready", "finished", "raised KeyboardInterrupt"], ended


NOT_THE_MAIN_TASK = """
    async def owner():
        async with open_nursery(name="outer", shutdown=60) as nursery:
            nursery.spawn(Stops, "a")
            nursery.spawn(Slow, "slow").tell("sleep")
            async with open_nursery(name="inner", shutdown=60) as inner:
                inner.spawn(Slow, "inner").tell("sleep")
                inner.spawn(Stopping)
                await trio.testing.wait_all_tasks_blocked()
                print("ready")
                await trio.sleep_forever()
    async def main():
        async with trio.open_nursery() as tasks:
            tasks.start_soon(owner)
    import trio.testing
"""


def test_run_kills_every_open_block_at_the_second_ctrl_c_whoever_owns_it() -> None:
    ended = under_run(NOT_THE_MAIN_TASK, "ready", "stopping")
    kind, name, *log = ended.lines[-1].split(" ", 2)
    assert (kind, name) == ("raised", "KeyboardInterrupt"), ended
    assert "".join(log).count("Cancelled") == 2, ended
    assert not log[0].endswith(" a"), ended  # no stop hook ran


def test_run_breaks_a_handler_that_holds_the_loop_at_the_second_ctrl_c() -> None:
    ended = under_run(
        HOLDS_THE_LOOP,
        "ready",
        "again",
    )
    assert ended.lines == ["ready", "again", "raised KeyboardInterrupt"], ended


def test_run_raises_keyboard_interrupt_whatever_main_made_of_it() -> None:
    ended = under_run(
        """
        async def main():
            try:
                print("ready")
                await trio.sleep_forever()
            finally:
                raise ValueError("on the way out")
        """,
        "ready",
    )
    assert ended.lines == ["ready", "raised KeyboardInterrupt"], ended


def test_run_leaves_a_signal_alone_that_somebody_handles() -> None:
    ended = under_run(
        """
        async def main():
            print("ready")
            await heard.wait()
        heard = trio.Event()
        def hear(*_):
            token.run_sync_soon(heard.set)
        signal.signal(signal.SIGINT, hear)
        inner = main
        async def main():
            global token
            token = trio.lowlevel.current_trio_token()
            await inner()
            print("heard", signal.getsignal(signal.SIGINT) is hear)
        """,
        "ready",
    )
    assert ended.lines == ["ready", "heard True"], ended


def test_run_gives_the_signal_back() -> None:
    ended = under_run(
        """
        async def main():
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        import atexit
        def look():
            print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        atexit.register(look)
        """
    )
    assert ended.lines == ["False", "True"], ended


@pytest.mark.parametrize("cues", [("ready",), ("ready", "stopping")], ids=["once", "twice"])
@pytest.mark.parametrize("call", ["run(main)", "run_sync(main)"])
def test_a_script_that_is_interrupted_ends_as_the_shell_expects(
    call: str, cues: tuple[str, ...]
) -> None:
    source = textwrap.dedent(
        f"""
        async def main():
            async with open_nursery(shutdown={60 if len(cues) == 2 else 0.2}) as nursery:
                nursery.spawn(Slow, "slow").tell("sleep")
                nursery.spawn(Stopping)
                print("ready")
                await trio.sleep_forever()
        {call}
        """
    )
    ended = run_program(PARTS + source, *cues)
    assert ended.code == -2, ended  # by SIGINT: what a shell calls 130
    assert "KeyboardInterrupt" in ended.errors


def test_run_sync_in_an_asyncio_program_stops_its_loop_at_ctrl_c() -> None:
    ended = run_program(
        PARTS
        + textwrap.dedent(
            """
            import asyncio
            async def work():
                async with open_nursery() as nursery:
                    nursery.spawn(Stops, "a")
                    print("ready")
                    await trio.sleep_forever()
            async def cell():
                run_sync(work)
            try:
                # As Jupyter has it: Ctrl-C is raised in what the cell runs.
                with asyncio.Runner() as runner:
                    loop = runner.get_loop()
                    loop.run_until_complete(cell())
            except KeyboardInterrupt:
                print("interrupted", *LOG, threading.active_count())
            """
        ),
        "ready",
    )
    assert ended.lines == ["ready", "interrupted a 1"], ended


# ---- the hard exit


def test_a_hard_exit_ends_a_process_whose_actor_sits_in_a_thread() -> None:
    ended = under_run(
        """
        class InThread(Actor):
            shutdown = 0.1
            async def receive(self, message):
                print("ready")
                await trio.to_thread.run_sync(time.sleep, 100)
        async def main():
            async with open_nursery(name="work", shutdown=0.2, grace=0.1) as nursery:
                nursery.spawn(InThread, name="deep").tell(1)
                await trio.sleep_forever()
        """,
        "ready",
        options=", hard_exit=0.2",
    )
    assert ended.code == 70, ended
    assert "deep  stuck" in ended.errors
    assert "most recent call first" in ended.errors
    assert ended.lines == ["ready"]


def test_a_hard_exit_needs_no_ctrl_c_where_a_block_cannot_be_left() -> None:
    ended = under_run(
        """
        class InThread(Actor):
            shutdown = 0.1
            async def receive(self, message):
                await trio.to_thread.run_sync(time.sleep, 100)
        async def main():
            async with open_nursery(name="work", shutdown=0.2, grace=0.1) as nursery:
                nursery.spawn(InThread, name="deep").tell(1)
                await trio.sleep(0.01)
        """,
        options=", hard_exit=0.2",
    )
    assert ended.code == 70, ended


def test_a_hard_exit_ends_a_process_whose_loop_is_held() -> None:
    ended = under_run(
        """
        class Deaf(Actor):
            def receive(self, message):
                print("ready")
                while True:
                    try:
                        while True: pass
                    except KeyboardInterrupt:
                        pass
        async def main():
            async with open_nursery(shutdown=0.1, grace=0.1) as nursery:
                nursery.spawn(Deaf).tell(1)
                await trio.sleep_forever()
        """,
        "ready",
        options=", hard_exit=0.2",
    )
    assert ended.code == 70, ended
    assert "in receive" in ended.errors


def test_a_hard_exit_is_not_for_those_who_end_in_time() -> None:
    ended = under_run(
        """
        async def main():
            async with open_nursery() as nursery:
                nursery.spawn(Stops, "a")
                print("ready")
                await trio.sleep_forever()
        """,
        "ready",
        options=", hard_exit=30",
    )
    assert (ended.code, ended.lines[-1]) == (0, "raised KeyboardInterrupt a"), ended
