"""Lines of a log say whose they are."""

from __future__ import annotations

import io
import logging
from typing import Any

import structlog
from trio.testing import MockClock

from standby_actors import Actor, open_nursery
from standby_actors.agent import Agent
from standby_actors.subagent import reset_ids, spawn
from standby_supervision.telemetry.logs import ActorFilter, add_actor


class Talker(Actor):
    """Logs what it is told."""

    def receive(self, message: str) -> None:
        logging.getLogger("talker").warning(message)


async def test_a_record_of_logging_names_its_actor(autojump_clock: MockClock) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(ActorFilter())
    handler.setFormatter(logging.Formatter("%(actor)s/%(incarnation)s: %(message)s"))
    logger = logging.getLogger("talker")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        async with open_nursery() as nursery:
            await nursery.spawn(Talker, name="tim").ask("hello")
        logger.warning("outside")
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    assert out.getvalue() == "nursery/tim/1: hello\n/0: outside\n"


class Asker(Actor):
    """Asks the talker and logs before and after it."""

    def __init__(self, talker: Any) -> None:
        self.talker = talker

    async def receive(self, message: str) -> None:
        logging.getLogger("talker").warning("before")
        await self.talker.ask(message)
        logging.getLogger("talker").warning("after")


async def test_an_ask_that_is_answered_inline_is_the_asked_ones(
    autojump_clock: MockClock, caplog: Any
) -> None:
    caplog.handler.addFilter(ActorFilter())
    async with open_nursery() as nursery:
        talker = nursery.spawn(Talker, name="tim")
        await nursery.spawn(Asker, talker, name="ann").ask("hello")
    assert [(record.actor, record.message) for record in caplog.records] == [
        ("nursery/ann", "before"),
        ("nursery/tim", "hello"),
        ("nursery/ann", "after"),
    ]


async def test_structlog_has_it_as_a_processor(autojump_clock: MockClock) -> None:
    reset_ids()
    seen: list[Any] = []

    def keep(logger: Any, method: str, event_dict: Any) -> Any:
        seen.append(dict(event_dict))
        raise structlog.DropEvent

    log = structlog.wrap_logger(None, processors=[add_actor, keep])

    async def work(task: str) -> str:
        log.info("working", subagent="told by hand")
        log.info("working")
        return task

    async with spawn(Agent("scout", work)) as scout:
        await scout.ask("a")
    log.info("outside")
    assert [each.get("subagent") for each in seen] == ["told by hand", "scout#1", None]
    assert seen[1]["actor"].startswith("scout#1/")
    assert "actor" not in seen[2]
