"""Agents are registered, steered, stopped, crashed, evicted, recovered and resumed at random."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from standby import Agent, TurnError
from standby_actors.sessions.scripted import Reply
from standby_supervision.live.mail import MailReceipt
from standby_supervision.live.refs import AgentRef
from standby_supervision.live.registry import Dormant
from standby_supervision.runs import Run, Workspace
from standby_supervision.store import Store

from .invariant import checked_workspace
from .minds import Minds, Reader

NAMES = ("a", "b", "c")


class Chaos:
    """One life of a program that does this and that with three names."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.receipts: list[MailReceipt] = []
        self.minds = Minds(lambda: self.session())
        self.agent = Agent("w", "Work.", backend=self.minds)

    def session(self) -> Reader:
        chance = self.chance
        session = Reader(self.reply)
        session.close_seconds = chance.choice([0.0, 0.5, 30.0])
        if chance.random() < 0.1:
            session.close_error = RuntimeError("cannot close")
        return session

    def reply(self, task: str) -> Reply:
        chance = self.chance
        seconds = chance.uniform(0, 8)
        if chance.random() < 0.15:
            return Reply("", seconds=seconds, error=TurnError("dead", "gone"), dead=True)
        if chance.random() < 0.15:
            return Reply("", seconds=seconds, error=TurnError("provider", "down"))
        return Reply("done", seconds=seconds)

    async def play(self, run: Run) -> None:
        """Have agents of one name after the other, and ask each a few times."""
        name = self.chance.choice(NAMES)
        with trio.move_on_after(self.chance.uniform(0, 25)):
            async with run.spawn(self.agent, name=name, lifetime="workflow") as player:
                for number in range(self.chance.randrange(4)):
                    await player.ask(f"{name}{number}", timeout=self.chance.choice([None, 3]))
                await trio.sleep(self.chance.uniform(0, 5))

    async def meddle(self, workspace: Workspace, run: Run) -> None:
        """Do something to whoever is there, or was."""
        chance = self.chance
        views = workspace.agents() + workspace.recent_agents()
        if not views:
            return
        ref = AgentRef(chance.choice(views).key, run.live)
        match chance.randrange(8):
            case 0 | 1 | 2:
                send: Any = chance.choice([ref.steer, ref.follow_up, ref.tell])
                sent = await send("word")
                if isinstance(sent, MailReceipt):
                    self.receipts.append(sent)
            case 3:
                ref.interrupt_turn()
            case 4:
                await ref.stop()
            case 5:
                with trio.move_on_after(5):
                    await ref.ask("well?", by="somebody")
            case 6:
                workspace.evict()
            case _:
                dormant = ref.dormant()
                if isinstance(dormant, Dormant) and run.live.get(ref.key.name) is None:
                    async with run.resume(dormant) as player:
                        await player.ask("again")

    async def live(self, workspace: Workspace, id: str) -> None:  # noqa: A002 - of a run
        """One life of a run, which is cut somewhere."""
        chance = self.chance
        with trio.move_on_after(chance.uniform(5, 60)):
            async with workspace.open_run(id=id) as run, trio.open_nursery() as nursery:
                for _ in range(chance.randrange(1, 12)):
                    nursery.start_soon(self.play, run)
                    await trio.sleep(chance.uniform(0, 4))
                    for _ in range(chance.randrange(3)):
                        nursery.start_soon(self.meddle, workspace, run)
                if chance.random() < 0.3:
                    run.cancel("enough")
                await trio.sleep(60)


@pytest.mark.parametrize("count", [8, pytest.param(1000, marks=pytest.mark.deep)])
async def test_whatever_is_done_each_has_one_exit_and_no_word_is_read_twice(
    count: int, clock: MockClock, store: Store, tmp_path: Path
) -> None:
    """E32, and the model of issue 6: the records are checked at the end of each life."""
    first = int(os.environ.get("STANDBY_SEED", "0")) or random.randrange(2**32)
    for seed in range(first, first + count):
        print(f"STANDBY_SEED={seed}")
        folder = tmp_path / str(seed)
        folder.mkdir()
        chaos = Chaos(seed)
        async with checked_workspace(folder, store) as workspace:
            for _ in range(3):
                await chaos.live(workspace, f"r{seed}")
                assert workspace.agents() == []
        for receipt in chaos.receipts:
            assert receipt.state != "injected", receipt
