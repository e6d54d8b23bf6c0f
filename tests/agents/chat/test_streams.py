"""A stream that is cut or damaged anywhere is an answer only with its terminal signal."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from standby_actors.result import TurnError
from standby_actors.sessions.asking import hear_event, verdict
from standby_actors.sessions.events import EventReader
from standby_actors.sessions.wires import wire_of
from standby_actors.sessions.wires.wire import Asked, Heard
from standby_actors.tools.tool import tool
from tests.agents.chat.asking import has_ended, on_every_api, settings
from tests.support.model_server_agents import stream_of


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def heard_of(api: Any, raw: bytes) -> tuple[Heard, TurnError | None]:
    """What a session makes of a response of these bytes, and what is wrong with it."""
    asked = Asked(settings("http://127.0.0.1:9", api), "", (), (double,))
    wire, heard, reader = wire_of(api), Heard(), EventReader()
    fault = None
    for data in reader.feed(raw):
        if fault is None:
            fault = hear_event(asked.settings, wire, heard, data, lambda event: None)
    return heard, verdict(heard, fault, asked, None, None)


SAID = ["SLOW:12", 'CALL:double:{"number": 21}']


@on_every_api
@pytest.mark.parametrize("said", SAID, ids=["words", "a call"])
def test_a_stream_cut_after_any_byte_is_whole_only_with_its_terminal_signal(
    api: str, said: str
) -> None:
    raw = stream_of(api, said)
    whole, wrong = heard_of(api, raw)
    assert wrong is None
    for cut in range(len(raw)):
        heard, wrong = heard_of(api, raw[:cut])
        if wrong is None:
            assert has_ended(api, raw[:cut])
            assert heard.text == whole.text
            assert heard.tool_calls(set()) == whole.tool_calls(set())
        else:
            assert wrong.kind == "truncated"


def mutations(draw: random.Random, raw: bytes) -> Iterator[bytes]:
    """The stream, damaged in the ways in which networks and servers damage streams."""
    events = raw.split(b"\n\n")[:-1]
    while True:
        kind = draw.randrange(6)
        if kind == 0:  # bytes are changed
            damaged = bytearray(raw)
            for _ in range(draw.randrange(1, 8)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            yield bytes(damaged)
        elif kind == 1:  # bytes are lost
            start = draw.randrange(len(raw))
            yield raw[:start] + raw[start + draw.randrange(1, 40) :]
        elif kind == 2:  # events are lost
            kept = [event for event in events if draw.random() > 0.2]
            yield b"".join(event + b"\n\n" for event in kept)
        elif kind == 3:  # events come twice
            twice = [event for event in events for _ in range(draw.choice((1, 1, 1, 2)))]
            yield b"".join(event + b"\n\n" for event in twice)
        elif kind == 4:  # events come in another order
            order = events[:]
            draw.shuffle(order)
            yield b"".join(event + b"\n\n" for event in order)
        else:  # an event is something else
            odd = draw.choice((b"data: {}", b"data: []", b"data: null", b": ping", b"data: {", b""))
            there = draw.randrange(len(events) + 1)
            mixed = [*events[:there], odd, *events[there:]]
            yield b"".join(event + b"\n\n" for event in mixed)


def _damage(api: str, times: int, draw: random.Random) -> None:
    streams = {said: mutations(draw, stream_of(api, said)) for said in SAID}
    for number in range(times):
        damaged = next(streams[SAID[number % len(SAID)]])
        _, wrong = heard_of(api, damaged)
        if wrong is None:
            assert has_ended(api, damaged), damaged


@on_every_api
def test_a_damaged_stream_is_never_whole_without_its_terminal_signal(api: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    _damage(api, 1_000, random.Random(seed))


@pytest.mark.deep
@on_every_api
def test_ten_thousand_damaged_streams(api: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    _damage(api, 10_000, random.Random(seed))


@on_every_api
def test_the_other_reading_finds_the_signal_too(api: str) -> None:
    assert has_ended(api, stream_of(api, "SLOW:1"))
