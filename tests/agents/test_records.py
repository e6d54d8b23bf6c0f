"""A subagent is recorded line by line, and read again also where it was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from standby.cli import call
from standby_actors.agent import Agent
from standby_actors.record import (
    ENDING,
    BadRecord,
    Ended,
    Finished,
    Line,
    Opened,
    Recorder,
    Said,
    claim,
    claimed_for_a_transcript,
    messages_of,
    read_record,
)
from standby_actors.record_page import page
from standby_actors.result import ChatMessage, TurnError
from standby_actors.session import export_jsonl, write_whole
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids, spawn
from standby_actors.usage import Usage

SCOUT = Agent("scout", "Find it.")


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


def lines_in(folder: Path) -> tuple[Line, ...]:
    lines, torn = read_record(folder / "scout-1.events.jsonl")
    assert not torn
    return lines


async def test_what_happens_is_on_disk_before_the_next_thing_happens(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = ScriptedSession(["one", Reply("two", error=TurnError("provider", "it is down"))])
    async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
        assert [type(line) for line in lines_in(tmp_path)] == [Opened]
        await scout.ask("a")
        assert [type(line) for line in lines_in(tmp_path)] == [Opened, Said, Said, Ended]
        await scout.ask("b")
    lines = lines_in(tmp_path)
    assert [message.text for message in messages_of(lines)] == ["a", "one", "b", "two"]
    ends = [line for line in lines if isinstance(line, Ended)]
    assert [(end.task, end.status) for end in ends] == [("a", "ok"), ("b", "failed")]
    assert isinstance(lines[-1], Finished)
    assert lines[-1].closed


async def test_what_was_being_said_is_kept_when_a_turn_is_cut(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = ScriptedSession([Reply("abcd", pieces=4, seconds=4.0)])
    async with spawn(SCOUT, session=mind, export_dir=tmp_path) as scout:
        await scout.ask("a", timeout=2.5)
    said = messages_of(lines_in(tmp_path))
    assert said[-1] == ChatMessage("assistant", "ab", partial=True)


async def test_a_disk_that_is_full_stops_the_record_and_not_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "full.events.jsonl")

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("standby_actors.record.os.write", full)
    recorder.write(Opened(0.0, "scout#1", "scout"))
    recorder.write(Opened(0.0, "scout#1", "scout"))
    assert recorder.failure is not None
    recorder.close()
    recorder.close()


def written(folder: Path, *lines: Line) -> Path:
    path = folder / "scout-1.events.jsonl"
    recorder = Recorder(path)
    for line in lines:
        recorder.write(line)
    recorder.close()
    return path


EXAMPLE: tuple[Line, ...] = (
    Opened(1.0, "scout#1", "scout", "openai/gpt-5-mini"),
    Said(1.5, ChatMessage("user", "what is in <dates.py>?")),
    Said(2.0, ChatMessage("assistant", "It parses & formats.")),
    Ended(2.0, 1.5, "what is in <dates.py>?", "ok", None, Usage(turns=1, input_tokens=1_200)),
    Finished(3.0, True),
)


def test_a_record_cut_anywhere_opens_to_what_was_whole(tmp_path: Path) -> None:
    path = written(tmp_path, *EXAMPLE)
    raw = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(raw) if byte == ord("\n")]
    for cut in range(len(raw) + 1):
        path.write_bytes(raw[:cut])
        lines, torn = read_record(path)
        whole = sum(end <= cut for end in ends)
        # A line of which only its end is missing is whole as well.
        assert lines in (EXAMPLE[:whole], EXAMPLE[: whole + 1])
        assert torn is (len(lines) == whole and cut not in (0, *ends))


def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, *EXAMPLE)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{]\n", *lines[2:]]))
    with pytest.raises(BadRecord, match=r"scout-1\.events\.jsonl:2 is no line of a record"):
        read_record(path)


@given(st.text(), st.text())
def test_nothing_that_is_said_gets_into_the_page_as_markup(task: str, said: str) -> None:
    nasty = f"<script>{said}</script>"
    shown = page((Opened(0.0, task or "x", "a"), Said(0.0, ChatMessage("user", nasty))))
    assert "<script>" not in shown


def test_a_page_shows_turns_usage_and_what_was_said(tmp_path: Path) -> None:
    shown = page(EXAMPLE)
    for expected in (
        "<h1>scout#1</h1>",
        "It parses &amp; formats.",
        "1,200",
        "openai/gpt-5-mini",
        "what is in &lt;dates.py&gt;?",
    ):
        assert expected in shown
    assert "the last line was torn" in page(EXAMPLE[:2], torn=True)
    assert "still open, or lost" in page(EXAMPLE[:2])


def test_the_command_makes_pages_transcripts_and_a_list(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, *EXAMPLE)
    assert call(["export", str(tmp_path)]) == 0
    assert (tmp_path / "scout-1.html").read_text().startswith("<!doctype html>")
    assert call(["export", str(tmp_path), "--format", "jsonl", "--to", str(tmp_path / "to")]) == 0
    assert len((tmp_path / "to" / "scout-1.jsonl").read_text().splitlines()) == 2
    capsys.readouterr()
    assert call(["export", str(tmp_path), "--list"]) == 0
    out = capsys.readouterr().out
    assert "scout#1" in out
    assert "closed" in out


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["export", str(tmp_path / "nowhere")]) == 2
    assert call(["export", str(tmp_path)]) == 1
    assert "no record" in capsys.readouterr().err
    (tmp_path / "bad.events.jsonl").write_text("{}\n{}\n")
    assert call(["export", str(tmp_path)]) == 1
    assert "bad.events.jsonl:1" in capsys.readouterr().err


_TALKER = """
import sys, trio
from pathlib import Path
from standby_actors.agent import Agent
from standby_actors.subagent import spawn

async def echo(task: str) -> str:
    await trio.sleep(0)
    return task * 50

async def main() -> None:
    async with spawn(Agent("scout", echo), export_dir=Path(sys.argv[1])) as scout:
        number = 0
        while True:
            number += 1
            await scout.ask(f"{number} ")
            print(number, flush=True)

trio.run(main)
"""


@pytest.mark.real
def test_a_killed_process_loses_at_most_the_last_line(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for round_number in range(5):
        folder = tmp_path / str(round_number)
        process = subprocess.Popen(
            [sys.executable, "-c", _TALKER, str(folder)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        try:
            acknowledged = 0
            for _ in range(draw.randrange(1, 200)):
                acknowledged = int(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split()
            process.stdout.close()
            process.wait()
        acknowledged = max([acknowledged, *map(int, rest[:-1])])
        lines, _ = read_record(folder / "scout-1.events.jsonl")
        ended = [line for line in lines if isinstance(line, Ended)]
        assert len(ended) >= acknowledged
        assert [line.task for line in ended[:acknowledged]] == [
            f"{number} " for number in range(1, acknowledged + 1)
        ]


def test_a_page_is_not_written_through_a_link_that_somebody_has_laid(tmp_path: Path) -> None:
    written(tmp_path, *EXAMPLE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (tmp_path / ".scout-1.html.part").symlink_to(elsewhere)
    assert call(["export", str(tmp_path)]) == 0
    assert elsewhere.read_text() == "mine"
    assert (tmp_path / "scout-1.html").read_text().startswith("<!doctype html>")


async def test_a_later_run_leaves_the_files_of_an_earlier_one_as_they_are(
    tmp_path: Path,
) -> None:
    async def echo(task: str) -> str:
        return task

    paths: list[str | None] = []
    for task in ("one", "two", "three"):
        # As a new process would, which counts from 1 again.
        reset_ids()
        async with spawn(Agent("scout", echo), export_dir=tmp_path) as scout:
            await scout.ask(task)
            again = scout.export(tmp_path)
        closed = await scout.close()
        assert closed.export == str(again)
        paths.append(closed.export)
    stems = ("scout-1", "scout-1.2", "scout-1.3")
    assert paths == [str(tmp_path / f"{stem}.jsonl") for stem in stems]
    for stem, task in zip(stems, ("one", "two", "three"), strict=True):
        assert f'"{task}"' in await trio.Path(tmp_path, f"{stem}.jsonl").read_text()
        lines, _ = read_record(tmp_path / f"{stem}{ENDING}")
        assert [m.text for m in messages_of(lines) if m.role == "user"] == [task]


def test_of_many_at_once_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: claim(tmp_path, "scout-1"), range(40)))
    assert len(set(names)) == 40


async def echo(task: str) -> str:
    return task


async def test_an_export_elsewhere_replaces_its_own_file_and_no_other(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for task in ("one", "two"):
        reset_ids()
        async with spawn(Agent("scout", echo), export_dir=tmp_path) as scout:
            await scout.ask(task)
            first = scout.export(elsewhere)
            await scout.ask("more")
            assert scout.export(elsewhere) == first
    # Each has both turns, and nothing else is left of them.
    for name, task in (("scout-1.jsonl", "one"), ("scout-1.2.jsonl", "two")):
        said = await trio.Path(elsewhere, name).read_text()
        assert f'"{task}"' in said
        assert '"more"' in said
    assert sorted(os.listdir(elsewhere)) == ["scout-1.2.jsonl", "scout-1.jsonl"]


async def test_an_export_that_fails_leaves_its_name_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "no space left on device")

    async with spawn(Agent("scout", echo)) as scout:
        await scout.ask("one")
        with monkeypatch.context() as patched:
            patched.setattr("standby_actors.session.write_whole", full)
            with pytest.raises(OSError, match="no space left"):
                scout.export(tmp_path)
        assert os.listdir(tmp_path) == []
        assert scout.export(tmp_path).name == f"{scout.id.replace('#', '-')}.jsonl"


def test_of_many_exports_and_records_at_once_each_has_a_file_of_its_own(tmp_path: Path) -> None:
    def write(number: int) -> str:
        if number % 3 == 0:
            return claim(tmp_path, "scout-1")
        with claimed_for_a_transcript(tmp_path, "scout-1") as name:
            path = export_jsonl((ChatMessage("user", str(number)),), tmp_path, name)
        numbers[path] = str(number)
        return name

    numbers: dict[Path, str] = {}
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(write, range(90)))
    assert len(set(names)) == 90
    assert len(numbers) == 60
    for path, number in numbers.items():
        assert f'"{number}"' in path.read_text()
    assert len(os.listdir(tmp_path)) == 90


def test_what_is_written_of_a_conversation_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_whole(tmp_path / "said.jsonl", b"{}\n")
        write_whole(tmp_path / "said.jsonl", b"[]\n")
    finally:
        os.umask(before)
    assert (tmp_path / "said.jsonl").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "said.jsonl").read_bytes() == b"[]\n"
