"""Whatever cuts a turn, what was said and done in it is kept, and the next one can be asked.

The servers here are as strict as the real ones: a history with a call that has
no answer is refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.record import Ended, Line, messages_of, read_record
from standby_actors.result import ChatMessage, Result
from standby_actors.session import Memory
from standby_actors.sessions.chat import ChatModel
from standby_actors.subagent import Subagent, reset_ids, spawn
from standby_actors.tools.tool import Tool, tool
from tests.agents.chat.asking import on_every_api, settings
from tests.support.strict_server import Called, StrictServer


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


@define(eq=False)
class FallsSilent(StrictServer):
    """Says only so many bytes of its next answer, and then nothing more."""

    bytes_said: int | None = None

    @asynccontextmanager
    async def create(self, **parameters: Any) -> AsyncGenerator[Any]:
        """Read a request; stream its answer, or its beginning."""
        async with StrictServer.create(self, **parameters) as response:
            limit, self.bytes_said = self.bytes_said, None

            async def iter_bytes() -> AsyncIterator[bytes]:
                async for data in response.iter_bytes():
                    yield data[:limit]
                if limit is not None:
                    await trio.sleep_forever()

            yield SimpleNamespace(iter_bytes=iter_bytes)


@define(eq=False)
class Bench:
    """A model, its server, and tools of which two answer at once and the third never."""

    api: str
    answers: list[str | Sequence[Called]]
    done: list[str] = field(factory=list)
    never: trio.Event = field(factory=trio.Event)
    server: FallsSilent = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = FallsSilent(self.api, lambda: self.answers.pop(0))

    @property
    def model(self) -> ChatModel:
        made = ChatModel(settings("http://127.0.0.1:9", self.api), retries=0)
        # There is no public way to bring a client of one's own.
        made._client = self.server.client  # pyright: ignore[reportPrivateUsage]
        return made

    def tools(self) -> tuple[Tool, ...]:
        async def quick(name: str) -> str:
            """Do it at once."""
            await trio.lowlevel.checkpoint()
            self.done.append(name)
            return f"{name} is done"

        async def slow(name: str) -> str:
            """Take for ever."""
            self.done.append(name)
            await self.never.wait()
            return "never"

        return tool(quick), tool(slow)


def three_calls() -> list[Called]:
    return [
        Called("c1", "quick", '{"name": "one"}'),
        Called("c2", "slow", '{"name": "two"}'),
        Called("c3", "quick", '{"name": "three"}'),
    ]


Ends = Callable[[Subagent, trio.CancelScope], object]


def deadline(scout: Subagent, scope: trio.CancelScope) -> None:
    """The turn's own time is up: nothing is to be done."""


WAYS: dict[str, tuple[Ends, str]] = {
    "stop": (lambda scout, scope: scout.stop(), "stopped"),
    "interrupt": (lambda scout, scope: scout.interrupt(), "stopped"),
    "abort": (lambda scout, scope: scout.abort("called off"), "aborted"),
    "a deadline": (deadline, "timed_out"),
    "a cancellation": (lambda scout, scope: scope.cancel(), "cancelled"),
    "a kill": (lambda scout, scope: scout.ref.kill(), "cancelled"),
}


@asynccontextmanager
async def cut_in_mid_turn(
    bench: Bench, way: Ends, folder: Path, at: float = 5.0
) -> AsyncGenerator[tuple[Subagent, list[Result]]]:
    """A subagent with one whole turn, and one that was cut after `at` seconds."""
    agent = Agent("scout", "You are a scout.", tools=bench.tools())
    results: list[Result] = []
    scope = trio.CancelScope()

    async def ask() -> None:
        with scope:
            results.append(await scout.ask("three things", timeout=at if way is deadline else None))

    async with spawn(agent, model=bench.model, export_dir=folder) as scout:
        results.append(await scout.ask("hello"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(at)
            way(scout, scope)
        yield scout, results


def written(folder: Path) -> tuple[Line, ...]:
    lines, torn = read_record(folder / "scout-1.events.jsonl")
    assert not torn
    return lines


def exported(folder: Path) -> list[ChatMessage]:
    return msgspec.json.Decoder(ChatMessage).decode_lines((folder / "scout-1.jsonl").read_bytes())


def is_sendable(messages: Sequence[ChatMessage]) -> bool:
    """Every call has one answer, right behind it."""
    open_calls: list[str] = []
    for message in messages:
        if message.role == "tool":
            if message.call not in open_calls:
                return False
            open_calls.remove(message.call)
            continue
        if open_calls:
            return False
        open_calls = [each.id for each in message.calls]
    return not open_calls


@on_every_api
@pytest.mark.parametrize(("way", "status"), WAYS.values(), ids=WAYS.keys())
async def test_a_turn_cut_among_its_tools_keeps_what_they_answered(
    api: str, way: Ends, status: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    bench = Bench(api, ["hi", three_calls()])
    async with cut_in_mid_turn(bench, way, tmp_path) as (scout, results):
        said = scout.messages
    assert results[0].status == "ok"
    for result in results[1:]:
        assert result.status == status
    assert sorted(bench.done) == ["one", "three", "two"]
    for told in (said, exported(tmp_path), messages_of(written(tmp_path))):
        assert is_sendable(told)
        answers = {each.call: each for each in told if each.role == "tool"}
        # What was finished is not lost, and what was not says so.
        assert [answers[each.id].text for each in told[3].calls] == [
            "one is done",
            answers[told[3].calls[1].id].text,
            "three is done",
        ]
        assert answers[told[3].calls[1].id].is_error
        assert "cut" in answers[told[3].calls[1].id].text
    ends = [line.status for line in written(tmp_path) if isinstance(line, Ended)]
    assert ends == ["ok", status]


AGAIN = [name for name in WAYS if name not in ("stop", "a kill")]
"""After which the same subagent plays on."""


@on_every_api
@pytest.mark.parametrize("name", AGAIN)
async def test_after_a_cut_turn_the_next_history_is_one_that_servers_take(
    api: str, name: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    bench = Bench(api, ["hi", three_calls(), "on we go"])
    async with cut_in_mid_turn(bench, WAYS[name][0], tmp_path) as (scout, _):
        # The server is a strict one: it raises on a call without its answer.
        assert (await scout.ask("and now?")).output == "on we go"


@on_every_api
@pytest.mark.parametrize("name", WAYS)
async def test_a_record_of_a_cut_turn_is_gone_on_from(
    api: str, name: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    bench = Bench(api, ["hi", three_calls(), "I remember"])
    async with cut_in_mid_turn(bench, WAYS[name][0], tmp_path):
        pass
    session = bench.model.session(Agent("scout", "You are a scout."))
    session.recall(Memory(messages_of(written(tmp_path))))
    turn = await session.ask("what was it?", lambda event: None)
    assert (turn.error, turn.text) == (None, "I remember")
    # The model is shown what was said before; the session's own transcript begins with itself.
    assert "hello" in json.dumps(bench.server.last, default=str)
    assert [message.text for message in session.transcript()] == ["what was it?", "I remember"]


@on_every_api
@pytest.mark.parametrize("said", [0, 150], ids=["before any text", "in the middle of a call"])
@pytest.mark.parametrize("name", WAYS)
async def test_a_turn_cut_during_a_request_is_marked_and_what_came_before_is_kept(
    api: str, said: int, name: str, tmp_path: Path, autojump_clock: MockClock
) -> None:
    bench = Bench(api, ["hi", [Called("c", "quick", '{"name": "' + "x" * 400 + '"}')], "yes"])
    way, status = WAYS[name]

    def falls_silent() -> Any:
        # The second of the three answers, as far as it gets.
        if len(bench.answers) == 2:
            bench.server.bytes_said = said
        return bench.answers.pop(0)

    bench.server.answers = falls_silent
    async with cut_in_mid_turn(bench, way, tmp_path) as (scout, _):
        assert is_sendable(scout.messages)
        if name in AGAIN:
            assert (await scout.ask("and now?")).output == "yes"
    # Half a call is no call: it was not run, and stands nowhere.
    assert bench.done == []
    told = exported(tmp_path)
    assert is_sendable(told)
    assert [message.text for message in told[:3]] == ["hello", "hi", "three things"]
    ends = [line.status for line in written(tmp_path) if isinstance(line, Ended)]
    assert ends[:2] == ["ok", status]
