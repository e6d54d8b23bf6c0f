"""Whatever a model's server does wrong has a declared outcome, with and without a combinator.

Every trouble is played over each of the three APIs, byte for byte, to a subagent
alone, to `run`, `fan_out` and `reduce`, and to every other combinator.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.result import ErrorKind, Result, Status, succeeded
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.subagent import spawn as spawn_subagent
from standby_combinators.fan_out import fan_out
from standby_combinators.reduce import reduce
from standby_combinators.run import run
from tests.agents.chat.asking import APIS, on_every_api, settings
from tests.combinators.teams import TEAMS, leaves
from tests.support.model_server import (
    SILENT,
    Answer,
    Asked,
    ModelServer,
    fails,
    open_model_server,
    streams,
)
from tests.support.model_server_agents import stream_of

DEEP = pytest.mark.deep
SAID = "SLOW:3"
WHOLE = "w0 w1 w2"
SCOUT = Agent("scout", "You are a scout.", idle_timeout=20.0)
OTHERS = (succeeded("one", "1"), succeeded("two", "2"))


@pytest.fixture(autouse=True)
def no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading those of the world takes each client 0.1 s, and loopback speaks no TLS."""
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: _NO_CERTIFICATES)


_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def events(api: str, said: str = SAID) -> list[bytes]:
    """The events of a right answer."""
    return [each + b"\n\n" for each in stream_of(api, said).split(b"\n\n")[:-1]]


def whole(api: str) -> Answer:
    """A right answer."""
    return streams(*events(api))


def cut(api: str) -> Answer:
    """The answer, up to its second word."""
    made = events(api)
    return streams(*made[: _place(made, b"w1 ") + 1])


def reset(api: str) -> Answer:
    """The connection is reset before anything is said."""
    return whole(api).cut(0, "reset")


def reset_in_the_middle(api: str) -> Answer:
    """The connection is reset after the second word."""
    return attrs.evolve(cut(api), ending="reset")


def twice(api: str) -> Answer:
    """Every event comes twice."""
    return streams(*(each for each in events(api) for _ in range(2)))


def ended_early(api: str) -> Answer:
    """The event that ends the answer comes before its last word."""
    made = events(api)
    ends = {"chat": b'"stop"', "responses": b"response.completed", "anthropic": b"message_stop"}
    end = made.pop(_place(made, ends[api]))
    made.insert(_place(made, b"w2 "), end)
    return streams(*made)


def words_exchanged(api: str) -> Answer:
    """Two words come in the wrong order."""
    made = events(api)
    one, two = _place(made, b'"w1 "'), _place(made, b'"w2 "')
    made[one], made[two] = made[two], made[one]
    return streams(*made)


def _place(made: list[bytes], mark: bytes) -> int:
    return next(place for place, each in enumerate(made) if mark in each)


@frozen
class Trouble:
    """What the server does, and what comes of it."""

    name: str
    plays: Callable[[str], Answer] | None
    """None: nobody listens."""
    status: Status
    kind: ErrorKind | None = None
    requests: int = 1
    """How many a turn makes, with one retry allowed."""
    at_least: float = 0.0
    """Seconds that the turn takes at least, and 60 s more at most."""
    text: str | None = None
    """Of the output, where there is one."""
    only: tuple[str, ...] = APIS
    """APIs of which this is so."""


TROUBLES = (
    Trouble("refused", None, "failed", "provider", requests=0),
    Trouble("reset", reset, "cut_short", "truncated", requests=2),
    Trouble("reset in the middle", reset_in_the_middle, "cut_short", "truncated"),
    Trouble("one byte a second", lambda api: whole(api).byte_by_byte(), "ok", text=WHOLE),
    Trouble("silent", lambda api: SILENT, "timed_out", "idle_timeout", at_least=20.0),
    Trouble(
        "silent in the middle",
        lambda api: cut(api).holding(),
        "timed_out",
        "idle_timeout",
        at_least=20.0,
    ),
    Trouble("429", lambda api: fails(429), "failed", "rate_limited", requests=2),
    Trouble(
        "429 with Retry-After",
        lambda api: fails(429, headers={"Retry-After": "30"}),
        "failed",
        "rate_limited",
        requests=2,
        at_least=30.0,
    ),
    Trouble(
        "429 with a Retry-After of a week",
        lambda api: fails(429, headers={"Retry-After": "604800"}),
        "failed",
        "rate_limited",
    ),
    Trouble("500", lambda api: fails(500), "failed", "provider", requests=2),
    Trouble("cut", cut, "cut_short", "truncated"),
    # Chat completions has no numbers: a word that comes twice was said twice.
    Trouble("duplicated", twice, "ok", text="w0 w0 w1 w1 w2 w2", only=("chat",)),
    # The last event of a response has the whole of it.
    Trouble("duplicated", twice, "ok", text=WHOLE, only=("responses",)),
    Trouble("duplicated", twice, "failed", "protocol", only=("anthropic",)),
    Trouble("its end too early", ended_early, "failed", "protocol"),
    Trouble("words exchanged", words_exchanged, "ok", text=WHOLE, only=("responses",)),
)
CASES = [
    pytest.param(api, trouble, id=f"{api}-{trouble.name}")
    for trouble in TROUBLES
    for api in trouble.only
]


@asynccontextmanager
async def served(
    api: str, plays: Callable[[Asked], Answer] | None
) -> AsyncGenerator[tuple[ChatModel, ModelServer]]:
    """A model whose server plays that; nothing of it is open afterwards."""
    before = len(os.listdir("/proc/self/fd"))
    async with open_model_server(plays or (lambda asked: SILENT)) as server:
        url = server.base_url.removesuffix("/v1") if plays else "http://127.0.0.1:9"
        async with open_chat_model(settings(url, api), retries=1, random=lambda: 0.5) as model:
            model.breaker.failures = 1_000_000  # what one failure is, is the question here
            # Asked for in a thread otherwise, which a clock that jumps does not wait for.
            vars(model.client)["_platform"] = "Linux"
            yield model, server
    # The server's ends are closed when it is; ours have to be closed by us.
    assert len(os.listdir("/proc/self/fd")) <= before


async def alone(model: ChatModel) -> list[Result]:
    """A subagent is asked, without any combinator."""
    async with spawn_subagent(SCOUT, model=model) as scout:
        return [await scout.ask(SAID)]


async def in_run(model: ChatModel) -> list[Result]:
    """One turn, by `run`."""
    return [await run(SCOUT, SAID, model=model)]


async def in_fan_out(model: ChatModel) -> list[Result]:
    """Three branches and the whole."""
    report = await fan_out(SCOUT, [SAID] * 3, concurrency=3, model=model)
    assert len(report.steps) == 3
    assert report.status == report.steps[0].status
    return list(report.steps)


async def in_reduce(model: ChatModel) -> list[Result]:
    """Two Results are reduced by one turn."""
    report = await reduce(SCOUT, OTHERS, SAID, model=model)
    assert report.steps[:2] == OTHERS
    assert report.status == report.steps[2].status
    return [report.steps[2]]


@pytest.mark.parametrize("ways", [alone, in_run, in_fan_out, in_reduce])
@pytest.mark.parametrize(("api", "trouble"), CASES)
async def test_trouble_with_a_backend_has_its_declared_outcome(
    api: str, trouble: Trouble, ways: Any, autojump_clock: MockClock
) -> None:
    plays = trouble.plays
    began = trio.current_time()
    async with served(api, None if plays is None else lambda asked: plays(api)) as (model, server):
        results: list[Result] = await ways(model)
        took = trio.current_time() - began
    for result in results:
        assert (result.status, result.error and result.error.kind) == (trouble.status, trouble.kind)
        if trouble.text is not None:
            assert result.output == trouble.text
            assert took >= trouble.at_least
        # What was asked is counted, whatever became of it; only an answer is no error.
        assert result.usage.requests == max(1 if plays else 2, trouble.requests)
    assert len(server.asked) == trouble.requests * len(results)
    if trouble.name != "one byte a second":
        assert trouble.at_least <= took <= trouble.at_least + 60


@on_every_api
async def test_one_branch_in_trouble_keeps_its_place_and_the_others_do_not_notice(
    api: str, autojump_clock: MockClock
) -> None:
    def plays(asked: Asked) -> Answer:
        return cut(api) if "second" in str(asked.body) else whole(api)

    async with served(api, plays) as (model, _):
        report = await fan_out(SCOUT, ["first", "second", "third"], concurrency=3, model=model)
    assert [step.status for step in report.steps] == ["ok", "cut_short", "ok"]
    assert [step.output for step in report.steps] == [WHOLE, "", WHOLE]
    # Half an answer is no output; it is kept, and marked.
    last = report.steps[1].messages[-1]
    assert (last.text, last.partial) == ("w0 w1 ", True)
    assert report.status == "cut_short"


@on_every_api
async def test_the_deadline_of_a_turn_cuts_a_trickle(api: str, autojump_clock: MockClock) -> None:
    async with served(api, lambda asked: whole(api).byte_by_byte()) as (model, server):
        result = await run(SCOUT, SAID, model=model, timeout=30.0)
        assert (result.status, result.error and result.error.kind) == ("timed_out", "timeout")
        assert trio.current_time() == pytest.approx(30.0)
        await server.asked[0].gone.wait()


@on_every_api
@pytest.mark.parametrize("mangle", [twice, ended_early], ids=["doubled", "ended early"])
async def test_the_next_turn_after_trouble_is_played(
    api: str, mangle: Any, autojump_clock: MockClock
) -> None:
    answers = iter([mangle(api), fails(500), SILENT, whole(api)])
    async with (
        served(api, lambda asked: next(answers)) as (model, server),
        spawn_subagent(SCOUT, model=model) as scout,
    ):
        model.retries = 0
        for _ in range(3):
            await scout.ask("go")
        result = await scout.ask("and now?")
    assert (result.status, result.output) == ("ok", WHOLE)
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("api", "trouble"),
    [
        # One API shows it for each combinator; all of them, in the long run.
        pytest.param(*case.values, id=case.id, marks=() if case.values[0] == "chat" else DEEP)
        for case in CASES
    ],
)
@pytest.mark.parametrize("name", TEAMS)
async def test_no_team_takes_trouble_with_a_backend_for_an_answer(
    name: str, api: str, trouble: Trouble, autojump_clock: MockClock
) -> None:
    plays = trouble.plays
    async with served(api, None if plays is None else lambda asked: plays(api)) as (model, server):
        report = await TEAMS[name]().ask(SAID, model=model)
    asked = [turn for turn in leaves(report) if turn.usage.requests]
    assert asked
    for turn in asked:
        kind = turn.error and turn.error.kind
        # A sibling may have cut it, where the combinator does that.
        assert (turn.status, kind) == (trouble.status, trouble.kind) or turn.status == "cancelled"
    if trouble.status != "ok":
        assert not report.ok
    if plays is not None:
        assert len(server.asked) == sum(turn.usage.requests for turn in asked)
