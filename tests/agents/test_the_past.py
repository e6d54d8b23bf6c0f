"""What a subagent has said is told once, in order, however often its session was another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import define, field
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.models import ModelSettings, Secret
from standby_actors.record import messages_of, read_record
from standby_actors.record_page import page
from standby_actors.result import ChatMessage, TurnError
from standby_actors.session import Capabilities, Compacted, Memory, OnEvent, Session
from standby_actors.sessions.acp import open_acp
from standby_actors.sessions.chat import ChatModel, open_chat_model
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import Subagent, reset_ids, subagent
from standby_actors.usage import Usage
from standby_supervision import Tree, child, open_supervisor
from tests.agents.minds import Scripts
from tests.agents.test_stdio_sessions import Record, ends, hello, prompted
from tests.agents.test_stdio_sessions import says as acp_says
from tests.support.fake_program import FakeProgram
from tests.support.model_server import Answer, Asked, ModelServer, open_model_server, says

GONE = Reply("", error=TurnError("dead", "the process is gone"), dead=True)
POLICIES = ("fresh", "replay", "summary")
every_policy = pytest.mark.parametrize("remember", POLICIES)


@pytest.fixture(autouse=True)
def _counted_from_one() -> None:
    reset_ids()


def exported(folder: Path) -> tuple[ChatMessage, ...]:
    lines = (folder / "scout-1.jsonl").read_bytes().splitlines()
    return tuple(msgspec.json.decode(line, type=ChatMessage) for line in lines)


def recorded(folder: Path) -> tuple[ChatMessage, ...]:
    lines, torn = read_record(folder / "scout-1.events.jsonl")
    assert not torn
    return messages_of(lines)


def brief(messages: Sequence[ChatMessage]) -> list[str]:
    """What was said; of a line where a session began only its first words."""
    return [m.text.partition(",")[0] if m.role == "system" else m.text for m in messages if m.text]


async def again(tree: Tree) -> None:
    """End the life of now, and begin another."""
    await tree.terminate_child("scout")
    await tree.restart_child("scout")


@every_policy
async def test_two_restarts_of_a_session_that_died_double_nothing(
    remember: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    summaries = [["they said a"], ["they said c"]] if remember == "summary" else [[], []]
    scripts: list[Any] = [["one", GONE], *summaries[:1], ["two", GONE], *summaries[1:], ["three"]]
    minds = Scripts([script for script in scripts if script])
    agent = Agent("scout", "Find it.", remember=remember)
    start = subagent(agent, backend=minds, export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        for each in "abcde":
            await scout.ask(each)
        said = scout.messages
    assert brief(said) == [
        *("a", "one", "b", "life 2 begins", "c", "two", "d", "life 3 begins", "e", "three")
    ]
    assert exported(tmp_path) == said
    assert recorded(tmp_path) == said


@every_policy
async def test_what_the_line_between_two_lives_says_is_what_the_later_one_knows(
    remember: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    scripts: list[Any] = [["one", GONE], ["they said a"], ["two"]]
    if remember != "summary":
        del scripts[1]
    agent = Agent("scout", "Find it.", remember=remember)
    start = subagent(agent, backend=Scripts(scripts), export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        for each in "abc":
            await scout.ask(each)
        (note,) = [m.text for m in scout.messages if m.role == "system"]
    knows = {
        "fresh": "knows nothing of what was said before",
        "replay": "knows what was said before",
        "summary": "knows of what was said before: they said a",
    }
    assert note == f"life 2 begins, and {knows[remember]}"
    lines, _ = read_record(tmp_path / "scout-1.events.jsonl")
    assert note in page(lines)


@every_policy
async def test_a_function_is_restarted_and_its_past_is_told_once(
    remember: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def shout(task: str) -> str:
        return task.upper() if len(task) < 10 else "they shouted"

    agent = Agent("scout", shout, remember=remember)
    start = subagent(agent, export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        for each in "abc":
            await scout.ask(each)
            await again(tree)
        said = scout.messages
    assert brief(said) == [
        *("a", "A", "life 2 begins", "b", "B", "life 3 begins", "c", "C", "life 4 begins")
    ]
    assert exported(tmp_path) == recorded(tmp_path) == said


LIMITED = Capabilities(context_tokens=100)


def filling(level: int, text: str) -> Reply:
    return Reply(text, usage=Usage(requests=1, output_tokens=1, context_tokens=level))


@every_policy
async def test_a_handover_and_then_a_restart_double_nothing(
    remember: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    scripts: list[Any] = [[filling(90, "one")], ["they said a"], ["two", GONE]]
    scripts += [["they said a and b"]] * (remember == "summary") + [["three"]]
    minds = Scripts(scripts)
    agent = Agent("scout", "Find it.", remember=remember, context="handover")
    start = subagent(agent, backend=minds, export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        minds.opened[0].capabilities = LIMITED
        for each in "abcd":
            await scout.ask(each)
        said = scout.messages
    assert brief(said) == [
        *("a", "one", "a new session begins", "b", "two", "c", "life 2 begins", "d", "three")
    ]
    assert exported(tmp_path) == recorded(tmp_path) == said
    told = minds.opened[-1].recalled
    if remember == "fresh":
        assert told is None
    elif remember == "replay":
        # What the session before it knew, and no more: its context was full of the rest.
        assert told is not None
        assert (told.summary, brief(told.messages)) == ("they said a", ["b", "two", "c"])
    else:
        assert told == Memory(summary="they said a and b")
        assert "Before that: they said a" in minds.opened[-2].asked[0]


@define(eq=False)
class Compacting(ScriptedSession):
    """Sums its turns up when it is told to."""

    summary: str = field(init=False, default="")
    shown_from: int = field(init=False, default=0)

    async def compact(self, on_event: OnEvent) -> TurnError | None:
        """Show nothing of the turns so far but a summary."""
        self.summary, self.shown_from = "in short: a", len(self.said)
        self.usage = self.usage.accumulate(Usage(requests=1, context_tokens=10))
        on_event(Compacted(90, 10))
        return None

    def known(self) -> Memory:
        """The summary, and what was said after it."""
        return Memory(tuple(self.said[self.shown_from :]), self.summary)


async def test_a_compaction_and_then_a_restart_double_nothing(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    opened: list[Compacting] = []

    def make(agent: Agent) -> Session:
        script = [filling(90, "one"), filling(20, "two")] if not opened else ["three"]
        opened.append(Compacting(script, capabilities=LIMITED))
        return opened[-1]

    agent = Agent("scout", "Find it.", remember="replay", context="compact")
    start = subagent(agent, session=make, export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        await scout.ask("a")
        await scout.ask("b")
        await again(tree)
        await scout.ask("c")
        said = scout.messages
    assert brief(said) == ["a", "one", "b", "two", "life 2 begins", "c", "three"]
    assert exported(tmp_path) == recorded(tmp_path) == said
    assert opened[1].recalled == Memory(
        (ChatMessage("user", "b"), ChatMessage("assistant", "two")), "in short: a"
    )


# A chat model.


def answers(request: Asked) -> Answer:
    last = request.last
    if "Another one will go on" in last:
        return says("they counted")
    return says(f"<{last}>", usage=(10, 5))


@asynccontextmanager
async def chat_model() -> AsyncGenerator[tuple[ModelServer, ChatModel]]:
    async with open_model_server(answers) as server:
        to = ModelSettings("stub", "m", server.base_url, Secret("none"), Capabilities())
        async with open_chat_model(to) as model:
            yield server, model


@every_policy
async def test_a_chat_is_restarted_twice_and_its_past_is_told_once(
    remember: Any, tmp_path: Path
) -> None:
    agent = Agent("scout", "Count.", remember=remember)
    async with chat_model() as (server, model):
        start = subagent(agent, model=model, export_dir=tmp_path)
        async with open_supervisor(child(start, id="scout")) as tree:
            scout = Subagent(tree["scout"])
            await scout.ask("one")
            await again(tree)
            await scout.ask("two")
            await again(tree)
            await scout.ask("three")
            said = scout.messages
    assert brief(said) == [
        *("one", "<one>", "life 2 begins", "two", "<two>", "life 3 begins", "three", "<three>")
    ]
    assert exported(tmp_path) == recorded(tmp_path) == said
    shown = [m["content"] for m in server.asked[-1].body["messages"] if m["role"] != "system"]
    if remember == "replay":
        assert shown == ["one", "<one>", "two", "<two>", "three"]
    else:
        assert shown == ["three"]


async def test_a_chat_that_was_compacted_is_replayed_as_it_was_shown(tmp_path: Path) -> None:
    agent = Agent("scout", "Count.", remember="replay", context="compact")
    async with chat_model() as (server, model):
        start = subagent(agent, model=model, export_dir=tmp_path)
        async with open_supervisor(child(start, id="scout")) as tree:
            scout = Subagent(tree["scout"])
            for word in ("one", "two", "three"):
                await scout.ask(word)
            model.capabilities = Capabilities(context_tokens=15)
            await scout.ask("four")
            model.capabilities = Capabilities()
            await again(tree)
            await scout.ask("five")
            said = scout.messages
    counted = Counter(brief(said))
    assert set(counted.values()) == {1}
    assert exported(tmp_path) == recorded(tmp_path) == said
    last = server.asked[-1].body["messages"]
    assert "they counted" in last[0]["content"]
    shown = [m["content"] for m in last[1:]]
    assert shown == ["two", "<two>", "three", "<three>", "four", "<four>", "five"]


# A coding agent.


@define(eq=False)
class Programs:
    """Starts one program after the other, and keeps what each was sent."""

    records: list[list[Record]]
    started: list[FakeProgram] = field(init=False, factory=list)

    @asynccontextmanager
    async def open(self, agent: Agent, /, memory: Memory | None = None) -> AsyncGenerator[Session]:
        """The next one."""
        program = FakeProgram(self.records[len(self.started)])
        self.started.append(program)
        opens = open_acp(agent, command=["fake"], cwd="/", env={}, run=program.run, memory=memory)
        async with opens as session:
            yield session


def life(*answers: str, resume: bool, first: bool) -> list[Record]:
    began = "session/new" if first or not resume else "session/resume"
    records = hello(resume, began)
    for number, answer in enumerate(answers, 3):
        records += [prompted(), acp_says(answer), ends(number)]
    return records


@pytest.mark.parametrize("resume", [True, False], ids=["resumes", "keeps nothing"])
@every_policy
async def test_a_coding_agent_is_restarted_twice_and_its_past_is_told_once(
    remember: Any, resume: bool, tmp_path: Path, autojump_clock: MockClock
) -> None:
    lives = [life(text, resume=False, first=True) for text in ("one", "two", "three")]
    if remember == "replay":
        lives = [life(text, resume=resume, first=text == "one") for text in ("one", "two", "three")]
    if remember == "summary":
        for at, text in ((1, "they said a"), (3, "they said a, b")):
            lives.insert(at, life(text, resume=False, first=True))
    programs = Programs(lives)
    agent = Agent("scout", "", remember=remember)
    start = subagent(agent, backend=programs, export_dir=tmp_path)
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        for each in "abc":
            result = await scout.ask(each)
            assert result.ok, result
            if each != "c":
                await again(tree)
        said = scout.messages
    assert brief(said) == [
        *("a", "one", "life 2 begins", "b", "two", "life 3 begins", "c", "three")
    ]
    assert exported(tmp_path) == recorded(tmp_path) == said
    (prompt,) = [
        f["params"]["prompt"][0]["text"] for f in programs.started[-1].sent if "prompt" in str(f)
    ]
    if remember == "replay" and not resume:
        assert "user: a\nassistant: one\nuser: b\nassistant: two" in prompt
        assert prompt.count("assistant: one") == 1
    elif remember == "summary":
        assert "they said a, b" in prompt
    else:
        assert prompt == "c"
