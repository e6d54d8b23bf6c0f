"""JSON lines come whole and in order, whatever pieces their bytes come in."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from standby_actors.process import BadLine, LineReader, TooLong


def read(*pieces: bytes, limit: int = 1_000_000) -> list[Any]:
    reader = LineReader(limit)
    found = [line for piece in pieces for line in reader.feed(piece)]
    return [*found, *reader.end()]


STREAM = (
    '{"a": "ä€😀"}\n\r\n{"b": 2}\r\n\x1b[31mlog\x1b[0m\n[1]\n{"c": "\\n"}\n'.encode() + b'\xff\n{"d'
) + b'": 4}'


def test_a_stream_split_at_every_byte_reads_the_same() -> None:
    whole = read(STREAM)
    assert [line for line in whole if isinstance(line, dict)] == [
        {"a": "ä€😀"},
        {"b": 2},
        {"c": "\n"},
        {"d": 4},
    ]
    assert [line.why for line in whole if isinstance(line, BadLine)] == [
        "it is not JSON",
        "it is not an object",
        "it is not UTF-8",
    ]
    for cut in range(len(STREAM)):
        assert read(STREAM[:cut], STREAM[cut:]) == whole
    assert read(*(STREAM[n : n + 1] for n in range(len(STREAM)))) == whole


def test_a_stream_that_ends_in_the_middle_of_a_frame_says_so() -> None:
    assert read(b'{"a": 1}\n{"b": ') == [{"a": 1}, BadLine('{"b":', "it is not JSON")]


@pytest.mark.parametrize("size", [9, 10, 11, 1_000])
def test_a_line_over_the_limit_is_one_error_and_the_next_is_read(size: int) -> None:
    line = b'{"a":"' + b"x" * (size - 8) + b'"}'
    for pieces in ([line + b"\n{}\n"], [line[:5], line[5:], b"\n{}", b"\n"]):
        first, second = read(*pieces, limit=10)
        assert first == (json.loads(line) if size <= 10 else TooLong(10))
        assert second == {}


def test_the_limit_is_per_line_and_not_a_sum() -> None:
    line = json.dumps({"a": "x" * 20_000}).encode() + b"\n"
    assert len(read(*[line] * 1_000, limit=30_000)) == 1_000


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    reader = LineReader(1_000_000)
    tracemalloc.start()
    try:
        lines = [line for _ in range(1_000) for line in reader.feed(b"x" * 65_536)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == [TooLong(1_000_000)]
    assert peak < 4_000_000


def test_a_line_of_64_megabytes_is_read_in_pieces() -> None:
    reader = LineReader()
    text = b"x" * (64 * 1024 * 1024 - 8)
    data = b'{"a":"' + text + b'"}\n'
    view = memoryview(data)
    lines = [
        line
        for start in range(0, len(data), 65_536)
        for line in reader.feed(bytes(view[start : start + 65_536]))
    ]
    assert len(lines) == 1
    assert isinstance(lines[0], dict)
    assert len(lines[0]["a"]) == len(text)
    assert reader.held == 0


def test_nesting_without_end_is_a_bad_line() -> None:
    (line,) = read(b'{"a":' * 100_000 + b"\n")
    assert isinstance(line, BadLine)


def frames(draw: random.Random, count: int) -> Iterator[tuple[bytes, Any]]:
    """Lines, and what each is to be read as: a frame, a bad line, or nothing."""
    for n in range(count):
        end = draw.choice([b"\n", b"\n", b"\r\n"])
        match draw.randrange(10):
            case 0:
                yield draw.choice([b"", b" ", b"\t"]) + end, None
            case 1:
                noise = draw.choice([b"\x1b[1mwarn\x1b[0m", b"\xff\xfe\x00", b"[]", b"1", b'{"a":'])
                yield noise + end, BadLine
            case 2:
                frame = {"n": n, "text": "é漢😀\u2028" * draw.randrange(500)}
                yield json.dumps(frame, ensure_ascii=draw.random() < 0.5).encode() + end, frame
            case _:
                frame = {"n": n, "method": "update", "x": [draw.random(), None, {"é": "\n\r"}]}
                yield json.dumps(frame, ensure_ascii=False).encode() + end, frame


def fuzz(count: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    made = list(frames(draw, count))
    data = b"".join(line for line, _ in made)
    expected = [what for _, what in made if what is not None]
    reader = LineReader()
    found: list[Any] = []
    start = 0
    while start < len(data):
        size = draw.choice([1, 2, 7, 100, 4_096, 65_536])
        found += reader.feed(data[start : start + size])
        start += size
    found += reader.end()
    assert len(found) == len(expected)
    for got, wanted in zip(found, expected, strict=True):
        assert isinstance(got, BadLine) if wanted is BadLine else got == wanted
    # A reader never dies: the next line is read whatever came before.
    assert list(reader.feed(b'{"next": 1}\n')) == [{"next": 1}]


def test_five_thousand_drawn_lines_are_read_as_they_were_written() -> None:
    fuzz(5_000)


@pytest.mark.deep
def test_a_hundred_thousand_drawn_lines_are_read_as_they_were_written() -> None:
    fuzz(100_000)


@pytest.mark.deep
def test_a_hundred_thousand_damaged_frames_never_end_the_reader() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    reader = LineReader(100_000)
    began = time.monotonic()
    for line, _ in frames(draw, 100_000):
        damaged = bytearray(line)
        for _ in range(draw.randrange(4)):
            where = draw.randrange(len(damaged))
            match draw.randrange(3):
                case 0:
                    damaged[where] = draw.randrange(256)
                case 1:
                    del damaged[where : where + draw.randrange(20)]
                case _:
                    damaged[where:where] = draw.randbytes(draw.randrange(20))
            damaged = damaged or bytearray(b"\n")
        for _ in reader.feed(bytes(damaged)):
            pass
    list(reader.feed(b"\n"))
    assert list(reader.feed(b'{"next": 1}\n')) == [{"next": 1}]
    print(f"{time.monotonic() - began:.1f} s")
