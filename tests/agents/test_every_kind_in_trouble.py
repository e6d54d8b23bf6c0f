"""What may go wrong on the wire of each coding agent, and what becomes of the turn and the next.

Cases C44, C45 and C51, and deadlines: each kind plays its recording, and its trouble.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.mind import GRACE_SECONDS
from standby_actors.process import Frame
from standby_actors.process.frames import MAX_LINE
from standby_actors.result import Attachment
from standby_actors.session import Memory, Session, SessionEvent, TextDelta, Turn
from standby_actors.sessions.stdio import StartFailed, StdioSession
from standby_actors.sessions.wire import Timing
from standby_actors.subagent import spawn
from standby_actors.usage import Usage, total
from tests.support.coding_agents import KINDS, PROMPT, Heard, Kind, recorded
from tests.support.fake_program import Cut, FakeProgram, kind_of, pieces, whole

Record = tuple[str, Frame]

AGENT = Agent("scout", PROMPT, approve="allow", idle_timeout=180.0)
PROMPTS = frozenset({"prompt", "turn/start", "user", "session/prompt"})


@pytest.fixture(params=[pytest.param(kind, id=name) for name, kind in KINDS.items()])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@asynccontextmanager
async def opened(
    kind: Kind, program: FakeProgram, agent: Agent = AGENT, **more: Any
) -> AsyncGenerator[StdioSession]:
    async with kind.opens(
        agent, command=["fake"], cwd="/", env={}, run=program.run, **kind.more, **more
    ) as session:
        yield session


def is_prompt(record: Record) -> bool:
    way, frame = record
    return way == ">" and kind_of(frame) in PROMPTS


def before_prompts(kind: Kind) -> list[Record]:
    """How it begins."""
    records = recorded(kind.name)
    return records[: next(n for n, each in enumerate(records) if is_prompt(each))]


def turn_of(kind: Kind, word: str) -> list[Record]:
    """From the prompt with that word to the one after it."""
    records = recorded(kind.name)
    prompts = [n for n, each in enumerate(records) if is_prompt(each)]
    (at,) = [n for n in prompts if word in str(records[n][1])]
    return records[at : min((n for n in prompts if n > at), default=len(records))]


def first_turn(kind: Kind) -> list[Record]:
    """How it begins, and its first turn, but for what it may do after it."""
    return [*before_prompts(kind), *turn_of(kind, "hello")]


def at_first_text(records: Sequence[Record]) -> int:
    """Where it begins to speak."""
    return next(n for n, (way, frame) in enumerate(records) if way == "<" and said_in(frame))


def said_in(frame: Frame) -> bool:
    return "echo: " in str(frame)


def said_by(records: Sequence[Record]) -> int:
    """How many frames it says."""
    return sum(way == "<" for way, _ in records)


def replaced(value: Any, old: str, new: str) -> Any:
    """`value` with another text in each of its texts."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [replaced(each, old, new) for each in value]
    if isinstance(value, dict):
        return {key: replaced(each, old, new) for key, each in value.items()}
    return value


def in_other_words(records: Sequence[Record], new: str) -> list[Record]:
    return [
        (way, replaced(frame, "echo: ", new)) if way == "<" else (way, frame)
        for way, frame in records
    ]


def unheard_of(size: int = 0) -> Record:
    """A frame that is right, and that nobody knows."""
    return "<", {"type": "unheard", "method": "unheard/of", "params": {}, "x": "x" * size}


async def hello(session: StdioSession) -> Turn:
    return await session.ask("hello", Heard(session))


async def is_replaced(session: StdioSession, program: FakeProgram) -> None:
    """The next ask is answered, by another program."""
    lives = program.lives
    turn = await hello(session)
    assert turn.error is None
    assert "hello" in turn.text
    assert program.lives == lives + 1


# ---- lines of any kind


@pytest.mark.parametrize("cut", [pieces(1), pieces(7)], ids=["bytes", "sevens"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \n\r\n"], ids=["LF", "CRLF", "blank lines"])
async def test_a_character_may_be_cut_in_two_and_lines_end_as_they_like(
    kind: Kind, cut: Cut, end: bytes, autojump_clock: MockClock
) -> None:
    records = in_other_words(first_turn(kind), "é漢😀\u2028\\n: ")
    async with opened(kind, FakeProgram(records, cut, end=end)) as session:
        turn = await hello(session)
    assert turn.error is None
    assert turn.text.startswith("é漢😀\u2028\\n: ")
    assert "hello" in turn.text
    assert session.noise == 0


async def test_documents_in_one_read_are_each_heard_once_and_in_order(
    kind: Kind, autojump_clock: MockClock
) -> None:
    alone: list[SessionEvent] = []
    together: list[SessionEvent] = []
    for glued, events in ((False, alone), (True, together)):
        async with opened(kind, FakeProgram(first_turn(kind), glued=glued)) as session:
            heard = Heard(session)
            await session.ask("hello", heard)
            events += heard.events
    assert together == alone
    assert any(isinstance(event, TextDelta) for event in together)


async def test_an_answer_of_five_megabytes_is_heard_whole(
    kind: Kind, autojump_clock: MockClock
) -> None:
    big = "ä" * 2_500_000
    records = in_other_words(first_turn(kind), f"{big}: ")
    async with opened(kind, FakeProgram(records, pieces(65_536))) as session:
        turn = await hello(session)
        assert turn.error is None
        assert turn.text.startswith(f"{big}: ")
        assert "hello" in turn.text


async def test_a_thousand_lines_of_twenty_kilobytes_are_no_sum(
    kind: Kind, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    at = at_first_text(records)
    flood = [unheard_of(20_000)] * 1_000
    program = FakeProgram([*records[:at], *flood, *records[at:]], pieces(65_536))
    async with opened(kind, program, max_line=30_000) as session:
        turn = await hello(session)
    assert turn.error is None
    assert session.ignored >= 1_000


NOISE = {
    "no UTF-8": b"\xff\xfe\xff\n",
    "NUL": b'\0\n{"type": "\0"}\n',
    "colours": b"\x1b[31mERROR\x1b[0m it broke\n",
    "no object": b'[1]\n"x"\nnull\n1e999\n',
    "cut JSON": b'{"type": "unheard", \n',
    "nested without end": b'{"a":' * 2_000 + b"\n",
}


@pytest.mark.parametrize("noise", [pytest.param(v, id=k) for k, v in NOISE.items()])
async def test_an_illegal_line_is_counted_and_nothing_else(
    kind: Kind, noise: bytes, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    async with opened(kind, FakeProgram(records, noise=noise)) as session:
        turn = await hello(session)
    assert turn.error is None
    assert "hello" in turn.text
    assert session.noise == noise.count(b"\n") * said_by(records)


async def test_the_last_line_needs_no_end(kind: Kind, autojump_clock: MockClock) -> None:
    records = until_ended(kind)
    program = FakeProgram(records, fate="leaves", frames=said_by(records), unended=True)
    async with opened(kind, program) as session:
        turn = await hello(session)
    assert turn.error is None
    assert "hello" in turn.text


def until_ended(kind: Kind) -> list[Record]:
    """How it begins, and its first turn up to the frame that ends it, and one that is not said."""
    records = first_turn(kind)
    ends = {"pi": "agent_end", "codex": "turn/completed", "claude": "result"}
    word = ends.get(kind.name, "stopReason")
    last = max(n for n, (way, frame) in enumerate(records) if way == "<" and word in str(frame))
    return [*records[: last + 1], unheard_of()]


@pytest.mark.parametrize("cut", [whole, pieces(65_536)], ids=["whole", "in pieces"])
async def test_a_line_over_the_limit_fails_its_turn_and_the_next_has_another_program(
    kind: Kind, cut: Cut, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    # Once it has said what its conversation is called.
    at = at_first_text(records) + 1
    program = FakeProgram([*records[:at], unheard_of(100_000), *records[at:]], cut, again=True)
    async with opened(kind, program, max_line=90_000) as session:
        turn = await hello(session)
        assert turn.error is not None
        assert turn.error.kind == "protocol"
        assert "a line of more than 90,000 bytes" in turn.error.message
        assert not turn.dead
        program.records = records
        await is_replaced(session, program)


@pytest.mark.parametrize(
    "name", ["claude", *(pytest.param(n, marks=pytest.mark.deep) for n in ("pi", "codex", "acp"))]
)
async def test_a_line_of_64_mebibytes_is_heard_and_one_byte_more_is_not(
    name: str, autojump_clock: MockClock
) -> None:
    kind = KINDS[name]
    records = first_turn(kind)
    at = at_first_text(records) + 1
    empty = len('{"type":"unheard","method":"unheard/of","params":{},"x":""}')
    for more, error in ((0, None), (1, "protocol")):
        huge = unheard_of(MAX_LINE - empty + more)
        program = FakeProgram([*records[:at], huge, *records[at:]], pieces(1_000_000))
        async with opened(kind, program) as session:
            turn = await hello(session)
            assert (turn.error and turn.error.kind) == error


# ---- silence, and ends without an answer


async def test_one_line_every_fifty_seconds_for_half_an_hour_is_no_silence(
    kind: Kind, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    at = at_first_text(records) + 1
    program = FakeProgram([*records[:at], *[unheard_of()] * 36, *records[at:]])
    async with opened(kind, program, timing=Timing(request=200.0)) as session:
        began, program.pause = trio.current_time(), 50.0
        turn = await hello(session)
        assert turn.error is None
        assert trio.current_time() - began > 1_800
    assert program.lives == 1


async def test_one_that_falls_silent_is_given_up_at_its_limit_and_replaced(
    kind: Kind, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    frames = said_by(records[: at_first_text(records) + 1])
    program = FakeProgram(records, fate="falls silent", frames=frames, again=True)
    async with opened(kind, program) as session:
        program.pause = 10.0
        began = trio.current_time()
        turn = await hello(session)
        assert turn.error is not None
        assert turn.error.kind == "idle_timeout"
        # Its last word, however late that was, and the limit.
        spoke = 10.0 * (frames - said_by(before_prompts(kind)))
        assert trio.current_time() - began == pytest.approx(spoke + 180.0)
        assert turn.messages[-1].partial
        program.pause = 0.0
        await is_replaced(session, program)


async def test_a_failure_without_an_end_is_not_waited_for_as_silence_is(
    kind: Kind, autojump_clock: MockClock
) -> None:
    turn_that_fails = turn_of(kind, "ERR:400")
    signs = {"pi": "'type': 'message_end'", "codex": "'method': 'error'", "claude": "API Error"}
    sign = signs.get(kind.name, "error")
    found = [
        n for n, (way, frame) in enumerate(turn_that_fails) if way == "<" and sign in str(frame)
    ]
    # pi tells in the same way that it has heard the prompt.
    last = found[-1] if kind.name == "pi" else found[0]
    records = [*before_prompts(kind), *turn_that_fails[: last + 1]]
    async with opened(kind, FakeProgram(records)) as session:
        began = trio.current_time()
        turn = await hello(session)
        assert turn.error is not None
        assert turn.error.kind == "provider"
        # pi may say next that it tries again, and claude has another frame for its end.
        patience = session.timing.failed if kind.name in ("pi", "claude") else 0.0
        assert trio.current_time() - began == pytest.approx(patience)


@pytest.mark.parametrize("speaks", [False, True], ids=["mute", "in the middle of its answer"])
async def test_to_end_well_without_a_result_is_no_answer(
    kind: Kind, speaks: bool, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    frames = said_by(before_prompts(kind)) + 1
    if speaks:
        frames = said_by(records[: at_first_text(records) + 1])
    async with opened(kind, FakeProgram(records, fate="leaves", frames=frames)) as session:
        turn = await hello(session)
        assert turn.error is not None
        assert turn.error.kind == "protocol"
        assert turn.dead
        assert not any(not m.partial for m in turn.messages if m.role == "assistant")
        after = await hello(session)
        assert after.error is not None
        assert after.error.kind == "dead"


async def test_one_that_lives_on_after_its_answer_is_waited_for_no_longer(
    kind: Kind, autojump_clock: MockClock
) -> None:
    records = until_ended(kind)
    program = FakeProgram(records, fate="falls silent", frames=said_by(records) - 1)
    async with opened(kind, program) as session:
        turn = await hello(session)
        assert turn.error is None
        assert trio.current_time() < 1.0 + session.timing.failed * (kind.name == "pi")
    assert session.pid is None


# ---- deadlines, and what was spent


@pytest.mark.parametrize("seconds", [50.0, 1_000.0])
async def test_how_long_its_start_may_take_is_its_own_limit_and_no_actors(
    kind: Kind, seconds: float, autojump_clock: MockClock
) -> None:
    program = FakeProgram(first_turn(kind))
    program.pause = seconds / said_by(before_prompts(kind))
    if seconds < 60.0:
        async with spawn(AGENT, backend=Played(kind, program)) as scout:
            assert trio.current_time() > 30.0
            program.pause = 0.0
            assert (await scout.ask("hello")).ok
        return
    with pytest.raises(StartFailed, match="within 60 s"):
        async with spawn(AGENT, backend=Played(kind, program)):
            raise AssertionError


@define(eq=False)
class Played:
    """A backend of that kind, which plays a recording."""

    kind: Kind
    program: FakeProgram
    session: StdioSession | None = None

    @asynccontextmanager
    async def open(self, agent: Agent, /, memory: Memory | None = None) -> AsyncGenerator[Session]:
        async with opened(self.kind, self.program, agent, memory=memory) as session:
            self.session = session
            yield session


DEAF = {"pi": "abort", "codex": "turn/interrupt", "claude": "interrupt"}


@pytest.mark.parametrize("speaks", [False, True], ids=["mute", "in the middle of its answer"])
async def test_a_deadline_holds_where_the_program_is_deaf(
    kind: Kind, speaks: bool, autojump_clock: MockClock
) -> None:
    records = first_turn(kind)
    frames = said_by(before_prompts(kind)) + (0 if kind.opens is KINDS["acp"].opens else 1)
    if speaks:
        frames = said_by(records[: at_first_text(records) + 1])
    deaf = frozenset({DEAF.get(kind.name, "session/cancel")})
    program = FakeProgram(records, fate="falls silent", frames=frames, deaf=deaf)
    async with spawn(AGENT, backend=Played(kind, program)) as scout:
        began = trio.current_time()
        result = await scout.ask("hello", timeout=5.0)
        assert result.status == "timed_out"
        assert trio.current_time() - began <= 5.0 + GRACE_SECONDS
        assert result.usage.turns == 1
        assert result.usage.wall_seconds == pytest.approx(trio.current_time() - began)


async def test_each_turn_costs_what_it_adds_and_all_of_them_what_was_spent(
    kind: Kind, autojump_clock: MockClock
) -> None:
    words = ("hello", "echo from the tool", "last", "ERR:400")
    records = [*before_prompts(kind), *(each for word in words for each in turn_of(kind, word))]
    backend = Played(kind, FakeProgram(records))
    async with spawn(AGENT, backend=backend) as scout:
        results = [await scout.ask(word) for word in words]
        spent = scout.usage
        # One that is refused costs nothing, and is no turn; a file is taken by some.
        refused = await scout.ask("look", Attachment("a/b", b"x"))
        if backend.session is not None and not backend.session.capabilities.files:
            assert refused.status == "refused"
            assert (refused.usage.turns, refused.usage.requests) == (0, 0)
            assert scout.usage.turns == spent.turns
    assert [result.status for result in results] == ["ok", "ok", "ok", "failed"]
    summed = total(result.usage for result in results)
    for name in ("turns", "requests", "input_tokens", "output_tokens", "tool_calls", "unreported"):
        assert getattr(summed, name) == getattr(spent, name), name
    assert summed.cost_usd == pytest.approx(spent.cost_usd)
    # The one that failed too.
    assert [result.usage.turns for result in results] == [1, 1, 1, 1]
    assert [result.usage.tool_calls for result in results] == [0, 1, 0, 0]
    if "level" not in kind.silent_on:
        # A level, and no sum.
        assert spent.context_tokens in range(100, 110)
    if "usage" not in kind.silent_on:
        assert results[0].usage.input_tokens in range(100, 110)


async def test_what_a_program_told_before_it_died_is_counted(
    kind: Kind, autojump_clock: MockClock
) -> None:
    first = first_turn(kind)
    records = [*first, *turn_of(kind, "echo from the tool")]
    spent: list[Usage] = []
    for frames in range(said_by(first), said_by(records)):
        program = FakeProgram(records, fate="dies", frames=frames)
        async with spawn(AGENT, backend=Played(kind, program)) as scout:
            assert (await scout.ask("hello")).ok
            result = await scout.ask("go")
            spent.append(result.usage)
    # The later it dies, the more it has cost, and nothing is counted twice.
    requests = [usage.requests for usage in spent]
    assert requests == sorted(requests)
    whole_turn = 2 if kind.name in ("pi", "codex", "claude") else 1
    assert set(requests) <= set(range(whole_turn + 1))
    assert requests[-1] == whole_turn
    tokens = [usage.input_tokens for usage in spent]
    if whole_turn == 2:
        # Dying while the tool works, or after: the first answer is paid for.
        assert tokens[-2] >= 100
        assert max(tokens) <= 200
    else:
        assert spent[-2].unreported == 1


async def test_what_a_thread_of_codex_had_spent_is_not_counted_again_by_its_next_program(
    autojump_clock: MockClock,
) -> None:
    kind = KINDS["codex"]
    records = first_turn(kind)
    later = [(way, with_more_before(frame)) for way, frame in records]
    frames = said_by(records[: at_first_text(records) + 1])
    program = FakeProgram(records, fate="falls silent", frames=frames, again=True)
    async with opened(kind, program) as session:
        assert (await hello(session)).error is not None
        cut = session.usage
        program.records = later
        await is_replaced(session, program)
        assert session.usage.delta(cut).input_tokens in range(100, 110)


def with_more_before(frame: Frame) -> Frame:
    """`frame`, of a thread that had spent something before."""
    if frame.get("method") != "thread/tokenUsage/updated":
        return frame
    used = frame["params"]["tokenUsage"]
    more = {name: count + 1_000 for name, count in used["total"].items()}
    return {**frame, "params": {**frame["params"], "tokenUsage": {**used, "total": more}}}


# ---- pictures and files


@pytest.mark.parametrize("media", ["image/png", "application/pdf"])
async def test_what_it_takes_is_handed_on_and_the_rest_refused_before_anything_is_sent(
    kind: Kind, media: str, autojump_clock: MockClock
) -> None:
    thing = Attachment(media, b"what is in it", name="thing")
    program = FakeProgram(first_turn(kind))
    async with opened(kind, program) as session:
        can = session.capabilities.images if thing.is_image else session.capabilities.files
        before = len(program.sent)
        turn = await session.ask("hello", Heard(session), (thing,))
        sent = str(program.sent[before:])
    assert (base64.b64encode(thing.data).decode() in sent) == can
    if can:
        assert turn.error is None
    else:
        assert turn.error is not None
        assert turn.error.kind == "refused"
        assert sent == "[]"
