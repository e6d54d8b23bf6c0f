"""Names, ids and paths that mean harm are refused with clear words, or stay among themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from standby_actors.actor import Actor
from standby_actors.agent import Agent
from standby_actors.mind import file_name
from standby_actors.nursery import open_nursery
from standby_actors.record import ENDING, Finished, Opened, messages_of, read_record
from standby_actors.result import Attachment, TurnError
from standby_actors.session import Steering
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import SubagentOptions, reset_ids, spawn
from standby_actors.tools.tool import Tool, ToolContext
from standby_combinators.team import SubagentPool

MEGABYTE = 2**20
NOBODYS = {
    "empty": "",
    "a space": " ",
    "a space behind": "scout ",
    "a new line": "scout\n",
    "a null": "sc\0out",
    "an escape": "\x1b[31mscout",
    "no width": "sc\u200bout",
    "right to left": "\u202etuocs",
    "half a pair": "\ud800",
    "a slash": "a/b",
    "a backslash": "a\\b",
    "here": ".",
    "above": "..",
    "out": "../../etc/passwd",
    "a megabyte": "x" * MEGABYTE,
}
LOOK_ALIKES = ("scout", "sc\u043eut", "SCOUT", "scout\u0301", "sc\u00f6ut", "sco\u0308ut", ".scout")


@pytest.fixture(autouse=True)
def ids_from_one() -> Iterator[None]:
    """So that a test knows whose file is whose."""
    reset_ids()
    yield
    reset_ids()


async def echo(task: str) -> str:
    """Say it again."""
    return task


async def never(arguments: dict[str, Any], context: ToolContext) -> str:
    """Is not called."""
    raise AssertionError("it was called")


def names_in(folder: Path) -> set[str]:
    """What the files in `folder` are called."""
    return {path.name for path in folder.iterdir()}


class Idle(Actor):
    """Does nothing."""

    def receive(self, message: object) -> None:
        """Nothing."""


def clear(error: BaseException) -> bool:
    """Whether an error can be shown: short, and without what moves a terminal's cursor."""
    said = str(error)
    return 10 < len(said) < 400 and said.isprintable()


@pytest.mark.parametrize("name", NOBODYS.values(), ids=NOBODYS.keys())
def test_a_name_that_could_do_harm_is_no_agents(name: str) -> None:
    with pytest.raises(ValueError, match="agent's name") as caught:
        Agent(name, echo)
    assert clear(caught.value)


@pytest.mark.parametrize("name", [*"#:", "a#1", "a:b", "x" * 101])
def test_what_ids_and_files_are_made_with_is_in_no_agents_name(name: str) -> None:
    with pytest.raises(ValueError, match="agent's name") as caught:
        Agent(name, echo)
    assert clear(caught.value)


@pytest.mark.parametrize(
    "name", [*NOBODYS.values(), "naïve", "x" * 65], ids=[*NOBODYS, "an accent", "65 letters"]
)
def test_a_name_that_no_provider_takes_is_no_tools(name: str) -> None:
    with pytest.raises(ValueError, match="tool's name") as caught:
        Tool(name, "Echo.", {"type": "object"}, never)
    assert clear(caught.value)


# Of those, an actor may be called what is no danger to a path of names.
ACTORS_TOO = ("a space", "a space behind", "a backslash", "here", "above")


@pytest.mark.parametrize(
    "name",
    [name for why, name in NOBODYS.items() if why not in ACTORS_TOO],
    ids=[why for why in NOBODYS if why not in ACTORS_TOO],
)
async def test_a_name_that_could_do_harm_is_no_actors(name: str) -> None:
    async with open_nursery() as nursery:
        with pytest.raises(ValueError, match="a name is") as caught:
            nursery.spawn(Idle, name=name)
        assert clear(caught.value)
        assert nursery.spawn(Idle, name="idle").is_alive


async def test_actors_that_look_alike_are_not_each_other() -> None:
    async with open_nursery() as nursery:
        refs = {name: nursery.spawn(Idle, name=name) for name in LOOK_ALIKES}
        assert len({ref.path for ref in refs.values()}) == len(LOOK_ALIKES)


async def test_agents_that_look_alike_share_no_id_no_memory_and_no_file(tmp_path: Path) -> None:
    said: dict[str, list[str]] = {}
    for name in LOOK_ALIKES:
        async with spawn(Agent(name, echo), export_dir=tmp_path) as subagent:
            assert subagent.id == f"{name}#1"
            await subagent.ask(f"I am {name}")
            said[name] = [message.text for message in subagent.messages]
    assert len(names_in(tmp_path)) == 2 * len(LOOK_ALIKES)
    for name in LOOK_ALIKES:
        lines, torn = read_record(tmp_path / f"{file_name(f'{name}#1')}{ENDING}")
        assert not torn
        assert isinstance(lines[0], Opened)
        assert lines[0].id == f"{name}#1"
        assert [message.text for message in messages_of(lines)] == said[name]
    async with SubagentPool(lifetime="workflow") as pool:
        played = [await pool.turn(Agent(name, echo), "go", key="one") for name in LOOK_ALIKES]
    assert len({result.subagent for result in played}) == len(LOOK_ALIKES)


@pytest.mark.parametrize("letter", ["x", "\u0436", "\U0001d518"])
async def test_the_longest_names_have_files_of_their_own(letter: str, tmp_path: Path) -> None:
    names = [letter * 99 + end for end in "ab"]
    for name in names:
        async with spawn(Agent(name, echo), export_dir=tmp_path) as subagent:
            assert (await subagent.ask(name[-1])).ok
        assert (await subagent.close()).closed
    records = [tmp_path / name for name in names_in(tmp_path) if name.endswith(ENDING)]
    assert sorted(messages_of(read_record(path)[0])[0].text for path in records) == ["a", "b"]
    assert len(names_in(tmp_path)) == 4


@pytest.mark.parametrize("key", ["", "x" * MEGABYTE, "../a\0b", "\ud800"])
async def test_a_key_is_only_compared(key: str, tmp_path: Path) -> None:
    async with SubagentPool(lifetime="workflow", export_dir=tmp_path) as pool:
        one = await pool.turn(Agent("scout", echo), "go", key=key)
        two = await pool.turn(Agent("scout", echo), "go", key=f"{key}'")
    assert (one.status, one.subagent, two.subagent) == ("ok", "scout#1", "scout#2")
    assert {name.partition(".")[0] for name in names_in(tmp_path)} == {"scout-1", "scout-2"}


async def test_a_task_of_any_letters_is_recorded(tmp_path: Path) -> None:
    task = "\0\x1b[31m\u202e" + "x" * MEGABYTE
    async with spawn(Agent("scout", echo), export_dir=tmp_path) as subagent:
        assert (await subagent.ask(task)).output == task
    lines, _ = read_record(tmp_path / f"scout-1{ENDING}")
    assert messages_of(lines)[0].text == task


@pytest.mark.parametrize("is_pipe", [False, True], ids=["a link", "a pipe"])
async def test_what_stands_in_the_place_of_a_record_is_not_followed(
    tmp_path: Path, is_pipe: bool
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "records"
    outside.write_text("mine")
    folder.mkdir()
    there = folder / f"scout-1{ENDING}"
    if is_pipe:
        os.mkfifo(there)
    else:
        there.symlink_to(outside)
    with pytest.RaisesGroup(OSError, allow_unwrapped=True) as caught:
        async with spawn(Agent("scout", echo), export_dir=folder):
            raise AssertionError("it was spawned")
    first: BaseException = caught.value
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert "a record is a plain file" in str(first)
    assert outside.read_text() == "mine"


async def test_an_export_writes_through_no_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "exports"
    outside.write_text("mine")
    folder.mkdir()
    for name in ("scout-1.jsonl", ".scout-1.jsonl.part"):
        (folder / name).symlink_to(outside)
    async with spawn(Agent("scout", echo)) as subagent:
        await subagent.ask("hello")
        path = subagent.export(folder)
    assert outside.read_text() == "mine"
    assert not path.is_symlink()
    assert "hello" in path.read_text()
    assert names_in(folder) == {"scout-1.jsonl"}


HALF = "caf\udce9"  # as Python reads a file name in an old encoding


async def echo_in_data(task: str) -> list[str]:
    """Say it again, and what is in no encoding."""
    return [task, HALF]


async def refuse_it(task: str) -> str:
    """Fail with words that are in no encoding."""
    raise ValueError(HALF)


async def half_again(task: str) -> str:
    """Answer in what is in no encoding."""
    return f"{task} {HALF}"


@pytest.mark.parametrize(
    ("mind", "answer", "error"),
    [
        (half_again, "caf? caf?", ""),
        (echo_in_data, "", "schema"),
        (refuse_it, "", "crash"),
        (ScriptedSession([HALF]), "caf?", ""),
        (ScriptedSession([TurnError("provider", HALF)]), "", "provider"),
        (ScriptedSession([TurnError("provider", HALF)], export_error=ValueError(HALF)), "", None),
    ],
    ids=["a function", "data", "a crash", "a session", "an error", "a close"],
)
async def test_half_a_pair_in_a_task_or_an_answer_ends_nothing(
    mind: Any, answer: str, error: str | None, tmp_path: Path
) -> None:
    is_session = isinstance(mind, ScriptedSession)
    agent = Agent("scout", "Look." if is_session else mind)
    given: SubagentOptions = {"export_dir": tmp_path}
    if is_session:
        given["session"] = mind
    picture = Attachment("image/png", b"x", HALF)
    async with spawn(agent, **given) as subagent:
        first = await subagent.ask(HALF)
        assert first.output == answer
        if error:
            assert first.error is not None
            assert first.error.kind == error
        assert all(HALF not in message.text for message in subagent.messages)
        # None of them takes pictures, or has another line to say: what it says is a Result.
        assert (await subagent.ask("look", picture)).error is not None
        assert subagent.ref.is_alive
    record = (tmp_path / f"scout-1{ENDING}").read_bytes()
    assert record.decode().count("caf?") >= 2
    lines, torn = read_record(tmp_path / f"scout-1{ENDING}")
    assert not torn
    assert isinstance(lines[-1], Finished)
    for name in names_in(tmp_path):
        (tmp_path / name).read_bytes().decode()


async def test_half_a_pair_in_a_word_from_outside_is_no_more_in_it() -> None:
    heard: list[str] = []

    class Steerable(ScriptedSession):
        def steer(self, text: str) -> Steering:
            heard.append(text)
            return "queued"

        follow_up = steer

    session = Steerable([Reply("a", seconds=1.0)])
    scout = Agent("scout", "Look.")
    async with spawn(scout, session=session) as subagent, trio.open_nursery() as nursery:
        nursery.start_soon(subagent.ask, "go")
        await trio.testing.wait_all_tasks_blocked()
        subagent.steer(HALF)
        subagent.follow_up(HALF)
        subagent.stop()
    assert heard == ["caf?", "caf?"]


def test_half_a_pair_is_in_no_prompt() -> None:
    with pytest.raises(ValueError, match="agent's prompt") as caught:
        Agent("scout", HALF)
    assert clear(caught.value)
