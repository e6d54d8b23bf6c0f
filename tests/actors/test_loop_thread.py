"""A thread with a loop of its own ends, also where its start was interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

import standby
from standby_actors.loop_thread import LoopThread


def interrupt(thread: threading.Thread, *, begun: bool) -> Callable[[], None]:
    """A start of `thread` that a Ctrl-C lands in, after or before it has begun."""
    start = thread.start

    def interrupted() -> None:
        if begun:
            start()
        raise KeyboardInterrupt

    return interrupted


def loops() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("standby")]


@pytest.mark.parametrize("begun", [True, False], ids=["after it has begun", "before"])
def test_a_thread_whose_start_is_interrupted_does_not_stay(
    begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def serve() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("cut")

    monkeypatch.setattr("standby_actors.loop_thread.BEGIN_SECONDS", 5.0 if begun else 0.0)
    thread: LoopThread[None] = LoopThread(serve, name="standby test")
    monkeypatch.setattr(thread.thread, "start", interrupt(thread.thread, begun=begun))
    with pytest.raises(KeyboardInterrupt), thread:
        raise AssertionError("the block is not entered")
    assert loops() == []
    assert ended == ["cut"] * begun


def test_a_host_whose_opening_is_interrupted_does_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = standby.Host()
    door: Any = vars(host)["_door"]
    monkeypatch.setattr(door.thread, "start", interrupt(door.thread, begun=True))
    with pytest.raises(KeyboardInterrupt), host:
        raise AssertionError("the block is not entered")
    assert loops() == []
