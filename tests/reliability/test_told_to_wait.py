"""A server that says when to come back is obeyed by all who use the key, and not in step."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from standby_actors import open_nursery
from standby_actors.agent import Agent
from standby_actors.models import Secret
from standby_actors.result import Result
from standby_actors.sessions.chat import open_chat_model
from tests.agents.chat.asking import CANARY, on_every_api, settings
from tests.support.model_server import Answer, Asked, ModelServer, fails, open_model_server, streams
from tests.support.model_server_agents import stream_of

SCOUT = Agent("scout", "You are a scout.")
AGENTS = 30
WAIT = 600.0


@pytest.fixture(autouse=True)
def _quickly(no_certificates: None) -> None:
    pass


def whole(api: str) -> Answer:
    return streams(*(each + b"\n\n" for each in stream_of(api, "hi").split(b"\n\n")[:-1]))


def limited(api: str, start: float, headers: dict[str, str]) -> Any:
    def script(asked: Asked) -> Answer:
        return fails(429, headers=headers) if asked.at < start + WAIT else whole(api)

    return script


async def thirty_and_one(api: Any, server: ModelServer, *, shared: bool) -> list[str]:
    """Thirty ask at once, and one more, who had no 429, after five seconds."""
    where = settings(server.base_url.removesuffix("/v1"), api)
    seeded = random.Random(7)
    texts: list[str] = []

    async def ask(model: Any) -> None:
        vars(model.client)["_platform"] = "Linux"
        turn = await model.session(SCOUT).ask("go", lambda event: None)
        texts.append(turn.text)

    async def one(delay: float, opened: Any) -> None:
        await trio.sleep(delay)
        if opened is not None:
            await ask(opened)
            return
        async with open_chat_model(where, random=seeded.random) as model:
            await ask(model)

    async with open_chat_model(where, random=seeded.random) as model, trio.open_nursery() as tasks:
        for _ in range(AGENTS):
            tasks.start_soon(one, 0.0, model if shared else None)
        tasks.start_soon(one, 5.0, model if shared else None)
    return texts


@on_every_api
@pytest.mark.parametrize("shared", [True, False], ids=["one model", "a model each"])
async def test_thirty_with_one_key_wait_and_do_not_strike_together(
    api: str, shared: bool, autojump_clock: MockClock
) -> None:
    start = trio.current_time()
    async with open_model_server(limited(api, start, {"Retry-After": "600"})) as server:
        texts = await thirty_and_one(api, server, shared=shared)
    assert texts == ["echo: hi ."] * (AGENTS + 1)
    early = [each for each in server.asked if each.at < start + 1]
    late = sorted(each.at - start for each in server.asked if each.at >= start + 1)
    # The one who came later was told nothing, and waited with the others.
    assert (len(early), len(late)) == (AGENTS, AGENTS + 1)
    assert late[0] >= WAIT
    assert late[-1] - late[0] >= 0.1 * WAIT
    assert len({round(at) for at in late}) >= 20


@on_every_api
async def test_subagents_that_each_name_a_model_wait_together(
    api: str, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = trio.current_time()
    agent = Agent("scout", "You are a scout.", backend=api)
    provider = "anthropic" if api == "anthropic" else "openai"
    results: list[Result] = []
    async with (
        open_model_server(limited(api, start, {"Retry-After": "600"})) as server,
        open_nursery() as nursery,
        trio.open_nursery() as tasks,
    ):
        url = server.base_url.removesuffix("/v1" if api == "anthropic" else "")
        env = {f"{provider.upper()}_API_KEY": CANARY, f"{provider.upper()}_BASE_URL": url}

        async def one(delay: float) -> None:
            await trio.sleep(delay)
            scout = await nursery.start(agent, model=f"{provider}/m", env=env)
            session: Any = scout._mind.session  # pyright: ignore[reportPrivateUsage]
            vars(session.connection.client)["_platform"] = "Linux"
            results.append(await scout.ask("go"))

        tasks.start_soon(one, 0.0)
        tasks.start_soon(one, 5.0)
    assert [each.output for each in results] == ["echo: hi ."] * 2
    first, *later = [each.at - start for each in server.asked]
    assert first < 1
    assert len(later) == 2
    assert min(later) >= WAIT


async def test_another_key_is_not_held_up(autojump_clock: MockClock) -> None:
    start = trio.current_time()

    def script(asked: Asked) -> Answer:
        is_limited = CANARY in asked.headers["authorization"] and asked.at < start + WAIT
        return fails(429, headers={"Retry-After": "600"}) if is_limited else whole("chat")

    async with open_model_server(script) as server:
        where = settings(server.base_url.removesuffix("/v1"), "chat")
        other = attrs.evolve(where, api_key=Secret("another-key-0123"))
        at: list[float] = []

        async def one(settings_: Any) -> None:
            async with open_chat_model(settings_) as model:
                vars(model.client)["_platform"] = "Linux"
                await model.session(SCOUT).ask("go", lambda event: None)
                at.append(trio.current_time() - start)

        async with trio.open_nursery() as tasks:
            tasks.start_soon(one, where)
            await trio.sleep(1)
            tasks.start_soon(one, other)
    assert at[0] < 2
    assert at[1] >= WAIT


@on_every_api
@pytest.mark.parametrize(
    ("header", "at_least", "below"),
    [
        pytest.param("600", 600.0, 720.1, id="seconds"),
        pytest.param("1.5", 1.5, 2.1, id="a fraction"),
        pytest.param("Thu, 01 Jan 1970 00:02:00 GMT", 20.0, 24.1, id="a date"),
        pytest.param("soon", 0.4, 1.1, id="garbage"),
        pytest.param("-5", 0.4, 1.1, id="negative"),
        pytest.param(None, 0.4, 1.1, id="missing"),
    ],
)
async def test_whatever_the_header_says_it_is_never_too_early(
    api: str, header: str | None, at_least: float, below: float, autojump_clock: MockClock
) -> None:
    headers = {} if header is None else {"Retry-After": header}
    seeded = random.Random(1)
    answers = iter([fails(429, headers=headers), whole(api)])
    async with open_model_server(lambda asked: next(answers)) as server:
        where = settings(server.base_url.removesuffix("/v1"), api)
        async with open_chat_model(where, random=seeded.random, wall=lambda: 100.0) as model:
            vars(model.client)["_platform"] = "Linux"
            turn = await model.session(SCOUT).ask("go", lambda event: None)
    assert turn.text == "echo: hi ."
    assert at_least <= server.asked[1].at - server.asked[0].at <= below


@on_every_api
@pytest.mark.parametrize("seconds", ["600", "1000000000"], ids=["too late", "for ever"])
async def test_what_would_be_too_late_is_not_waited_for(
    api: str, seconds: str, autojump_clock: MockClock
) -> None:
    start = trio.current_time()
    async with open_model_server(lambda asked: fails(429, headers={"Retry-After": seconds})) as s:
        where = settings(s.base_url.removesuffix("/v1"), api)
        async with open_chat_model(where) as model:
            vars(model.client)["_platform"] = "Linux"
            with trio.fail_after(60):
                turn = await model.session(SCOUT).ask("go", lambda event: None)
    assert turn.error is not None
    assert turn.error.kind == "rate_limited"
    assert trio.current_time() - start <= 60
    assert len(s.asked) == 1
