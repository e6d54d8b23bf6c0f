"""A call that cannot be read is never run, always answered, and harms no later request."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.session import ToolEnded, ToolStarted
from standby_actors.sessions.chat import ChatModel
from standby_actors.tools.tool import tool
from tests.agents.chat.asking import on_every_api, settings
from tests.support.strict_server import Called, Refused, StrictServer, check

SCOUT = Agent("scout", "You are a scout.")
MOST_UNKNOWN = 3
"""Of one turn: with more calls of tools that are not there it is ended."""


def malformed(draw: random.Random, allows_unknown: bool) -> Called:
    """One call that nobody may run."""
    number = draw.randrange(10**6)
    right = f'{{"name": "x{number}", "count": {number}}}'
    kinds: list[Callable[[], str]] = [
        lambda: right[: draw.randrange(1, len(right))],
        lambda: draw.choice(("[]", "null", "true", "3", '"text"', "{", "}", "[[[", "\\", "\x00")),
        lambda: f'{{"name": "x", "count": {draw.choice(("NaN", "Infinity", "-Infinity"))}}}',
        lambda: f'{{"name": {number}, "count": 1}}',
        lambda: f'{{"name": "x", "count": {draw.choice(("null", "[]", "1.5", "1e400"))}}}',
        lambda: f'{{"name": "x{number}"}}',
        lambda: f'{{"name": "a", "count": {number}, "count": 2}}',
        lambda: f"{right} and then some",
        lambda: f"{right}{right}",
        lambda: right.replace('"', "'"),
        lambda: f"```json\n{right}\n```",
        lambda: '{"name": "\\ud800", "count": 1}',
        lambda: f'{{"name": "x", "count": {"[" * draw.choice((10, 3000))}',
        lambda: f'{{"name": "x", "count": {"[" * 2000}{"]" * 2000}}}',
        lambda: _changed(draw, right),
        lambda: f'{{"name": "{"x" * 1_000}\n{number}", "count": 1}}',
    ]
    if draw.random() < 0.002:
        kinds = [lambda: f'{{"name": "{"x" * 1_000_000}", "count": 1}}']
    identity = draw.choice(
        ("", "call", f"call_{number}", f"call {number}\n", "ä" * 9, "x" * 5_000, f"a.b/{number}")
    )
    name = "file"
    if allows_unknown:
        name = draw.choice(("", "fil", "file ", "FILE", "..", "a" * 100_000, "ﬁle", "rm\n-rf"))
        return Called(identity, name, draw.choice((right, "{}", "")))
    return Called(identity, name, draw.choice(kinds)())


def ask_instead(model: ChatModel, server: StrictServer) -> None:
    """Have `model` ask `server`, without the SDK and without a network."""
    # There is no public way to bring a client of one's own.
    model._client = server.client  # pyright: ignore[reportPrivateUsage]


def _changed(draw: random.Random, text: str) -> str:
    """The text without its colons, or without one of its quotes: no JSON any more."""
    if draw.random() < 0.5:
        return text.replace(":", draw.choice(("", "=", ";")))
    place = draw.choice([at for at, each in enumerate(text) if each == '"'])
    return text[:place] + text[place + 1 :]


async def drive(api: str, times: int, seed: int) -> None:
    """Have a model make so many malformed calls, each message with a right one beside them."""
    draw = random.Random(seed)
    ran: list[int] = []
    right: list[int] = []
    made = 0

    @tool
    def file(name: str, count: int) -> str:
        """File it."""
        ran.append(count)
        return "filed"

    def message() -> Sequence[Called]:
        nonlocal made
        calls: list[Called] = []
        for number in range(draw.randrange(1, 40)):
            calls.append(malformed(draw, number < MOST_UNKNOWN and draw.random() < 0.5))
        made += len(calls)
        right.append(len(right))
        one = Called(f"right_{len(right)}", "file", f'{{"name": "y", "count": {right[-1]}}}')
        calls.insert(draw.randrange(len(calls) + 1), one)
        return calls

    def play() -> Iterator[str | Sequence[Called]]:
        while True:
            yield message()
            yield "done"

    server = StrictServer(api, play().__next__)
    model = ChatModel(settings("http://127.0.0.1:9", api), retries=0)
    ask_instead(model, server)
    while made < times:
        session = model.session(SCOUT, [file])
        for _ in range(4):
            begun = made, len(right)
            ended: list[Any] = []
            turn = await session.ask("go", ended.append)
            assert turn.error is None
            answers = [event for event in ended if isinstance(event, ToolEnded)]
            assert len(answers) == made - begun[0] + 1
            assert sum(not event.is_error for event in answers) == 1
            assert sum(isinstance(event, ToolStarted) for event in ended) == 1
    # Each right one was run once, in its order; and nothing else was.
    assert ran == right
    assert server.results >= made


@on_every_api
async def test_a_malformed_call_is_never_run_and_its_history_stays_sendable(api: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    await drive(api, 1_000, seed)


@pytest.mark.deep
@on_every_api
async def test_ten_thousand_malformed_calls(api: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    await drive(api, 10_000, seed)


@on_every_api
async def test_who_never_writes_a_right_call_has_failed_after_two_corrections(api: str) -> None:
    draw = random.Random(7)

    @tool
    def file(name: str, count: int) -> str:
        """File it."""
        raise AssertionError("it was run")

    server = StrictServer(api, lambda: [malformed(draw, False)])
    model = ChatModel(settings("http://127.0.0.1:9", api), retries=0)
    ask_instead(model, server)
    session = model.session(SCOUT, [file])
    turn = await session.ask("go", lambda event: None)
    assert turn.error is not None
    assert turn.error.kind == "protocol"
    assert server.requests == 3
    # Marked, and not shown again: what is sent next is taken.
    server.answers = lambda: "hello"
    assert (await session.ask("and now?", lambda event: None)).text == "hello"


@on_every_api
async def test_the_checker_refuses_what_servers_refuse(api: str) -> None:
    sent: list[Any] = []

    @tool
    def file(name: str) -> str:
        """File it."""
        return "filed"

    answers: Iterator[str | Sequence[Called]] = iter(
        [[Called("a", "file", '{"name": "x"}'), Called("b", "file", "{}")], "done"]
    )
    server = StrictServer(api, answers.__next__)
    model = ChatModel(settings("http://127.0.0.1:9", api), retries=0)
    ask_instead(model, server)
    original = model.wire.parameters

    def parameters(asked: Any) -> Any:
        sent.append(original(asked))
        return sent[-1]

    model.wire.parameters = parameters  # type: ignore[method-assign]  # to see what is sent
    await model.session(SCOUT, [file]).ask("go", lambda event: None)
    assert check(api, sent[1]) == 2
    history = sent[1]["input" if api == "responses" else "messages"]
    # An answer is missing, and one stands too far behind.
    last = history[-1]["content"] if api == "anthropic" else history
    gone = last.pop()
    with pytest.raises(Refused):
        check(api, sent[1])
    last.append(gone)
    last.append(gone)
    with pytest.raises(Refused):
        check(api, sent[1])
    await trio.lowlevel.checkpoint()
