"""The exploring team, in front of a model server that plays its members."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trio
import trio.testing

from standby.explore import Exploration, open_explorer
from standby.explore.reading import NotReadable
from standby.explore.start import NoRoom
from standby_actors.events import Event, listen
from standby_actors.models import MissingKey, UnknownModel
from tests.support.model_server import Answer, Asked, fails, open_model_server, says, streams

from .explorers import (
    KEY,
    Team,
    asked_file,
    environment,
    is_scout,
    says_json,
    shown_text,
)

QUESTION = "What does each module do?"
FILES = {"one.py": "alpha = 1\n", "two.py": "beta = 2\n", "deep/three.py": "gamma = 3\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


async def explored(
    directory: Path,
    script: object = None,
    *,
    context_tokens: int | None = None,
    concurrency: int = 2,
    asked: list[Asked] | None = None,
    **more: object,
) -> Exploration:
    """What a team in front of `script` finds."""
    team = Team() if script is None else script
    async with open_model_server(team) as server:  # type: ignore[arg-type]
        try:
            async with open_explorer(
                QUESTION,
                directory,
                model="openai/m",
                env=environment(server),
                context_tokens=context_tokens,
                concurrency=concurrency,
                **more,  # type: ignore[arg-type]
            ) as explorer:
                return await explorer.run()
        finally:
            if asked is not None:
                asked += server.asked


async def test_each_file_has_a_result_whose_names_occur_in_it_and_the_answer_cites_what_was_read(
    project: Path,
) -> None:
    found = await explored(project)
    assert found.status == "ok"
    assert [(each.path, each.answer, each.names, each.dropped) for each in found.files] == [
        ("deep/three.py", "It is about gamma.", ("gamma",), ("made_up",)),
        ("one.py", "It is about alpha.", ("alpha",), ("made_up",)),
        ("two.py", "It is about beta.", ("beta",), ("made_up",)),
    ]
    assert found.answer == "See deep/three.py, one.py, two.py."
    assert found.cited == ("deep/three.py", "one.py", "two.py")
    assert found.dropped == ("nowhere.py",)
    assert found.usage.turns == 4
    assert found.usage.output_tokens == 28


async def test_what_exceeds_the_context_is_split_at_lines_and_every_line_is_read(
    tmp_path: Path,
) -> None:
    text = "".join(f"line {number} of many\n" for number in range(400))
    (tmp_path / "long.txt").write_text(text)
    asked: list[Asked] = []
    found = await explored(tmp_path, context_tokens=3_000, asked=asked, concurrency=1)
    [file] = found.files
    assert file.status == "ok"
    assert file.parts > 1
    tasks = [request.last for request in asked if is_scout(request)]
    parts = [task for task in tasks if asked_file(task) == "long.txt"]
    assert "".join(shown_text(task) for task in parts) == text
    assert re.match(r"File long.txt \(lines 1 to \d+\):", parts[0])


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(
            fails(400, "too long", code="context_length_exceeded"), id="a server that says so"
        ),
        pytest.param(
            says_json({"answer": "Hm.", "names": []}, tokens=(30, 5)), id="one that reads less"
        ),
    ],
)
async def test_a_part_that_the_model_finds_too_long_is_halved_and_read_again(
    tmp_path: Path, refusal: Answer
) -> None:
    text = "".join(f"line {number} of many\n" for number in range(400))
    (tmp_path / "long.txt").write_text(text)
    read: list[str] = []

    def picky(request: Asked) -> Answer:
        if is_scout(request):
            shown = shown_text(request.last)
            if shown.count("\n") > 120:
                return refusal
            read.append(shown)
        return Team()(request) if is_scout(request) else merged

    merged = says_json({"answer": "See long.txt.", "names": ["line"], "files": ["long.txt"]})
    found = await explored(tmp_path, picky, concurrency=1)
    assert found.status == "ok"
    assert "".join(read) == text
    assert found.files[0].parts == 4


async def test_a_file_whose_scout_fails_keeps_its_place_and_is_shown_to_the_synthesiser(
    project: Path,
) -> None:
    asked: list[Asked] = []

    def rule(path: str) -> Answer | None:
        return fails(400, "not this one") if path == "one.py" else None

    found = await explored(project, Team(rule), asked=asked)
    assert found.status == "ok"
    assert [each.status for each in found.files] == ["ok", "failed", "ok"]
    assert found.cited == ("deep/three.py", "two.py")
    error = found.files[1].error
    assert error is not None
    assert "not this one" in error.message
    assert "## one.py (failed)\n\nfailed: " in asked[-1].last


async def test_a_stream_that_is_cut_midway_is_no_answer(
    project: Path, autojump_clock: trio.testing.MockClock
) -> None:
    whole = says('{"answer": "It is', ' whole.", ', '"names": []}')

    def rule(path: str) -> Answer | None:
        return streams(*whole.events[:3]) if path == "two.py" else None

    found = await explored(project, Team(rule))
    assert [each.status for each in found.files] == ["ok", "ok", "cut_short"]
    assert found.status == "ok"
    assert "two.py" not in found.cited


async def test_an_answer_that_is_not_what_was_asked_for_is_a_failure(project: Path) -> None:
    def rule(path: str) -> Answer | None:
        return says("It adds numbers.") if path == "two.py" else None

    found = await explored(project, Team(rule))
    error = found.files[2].error
    assert error is not None
    assert error.kind == "schema"


async def test_where_nobody_is_answered_no_more_are_asked(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.py").write_text(f"x{number} = 1\n")
    asked: list[Asked] = []
    found = await explored(
        tmp_path, lambda request: fails(401, f"wrong key {KEY}"), asked=asked, concurrency=2
    )
    assert len(asked) <= 5
    assert found.status == "failed"
    assert found.error is not None
    assert found.error.message.startswith("no file was answered: 00.py: ")
    assert KEY not in repr(found)
    assert sum(each.status == "not_started" for each in found.files) >= 25


async def test_a_synthesis_that_fails_leaves_the_findings(project: Path) -> None:
    def rule(path: str) -> Answer | None:
        return None if path else fails(400, "no synthesis today")

    found = await explored(project, Team(rule))
    assert found.status == "failed"
    assert found.answer == ""
    assert len(found.answered) == 3


async def test_a_synthesis_that_cites_nothing_that_was_read_is_no_answer(project: Path) -> None:
    def rule(path: str) -> Answer | None:
        return None if path else says_json({"answer": "See nowhere.py.", "files": ["nowhere.py"]})

    found = await explored(project, Team(rule))
    assert found.status == "failed"
    assert found.dropped == ("nowhere.py",)


async def test_cut_in_the_middle_it_knows_what_was_answered(project: Path) -> None:
    before = trio.lowlevel.current_statistics().tasks_living
    reached = trio.Event()

    def rule(path: str) -> Answer | None:
        if path != "two.py":
            return None
        reached.set()
        return says("never").after(1_000_000)

    async with open_model_server(Team(rule)) as server:
        with trio.CancelScope() as scope:
            async with (
                open_explorer(
                    QUESTION, project, model="openai/m", env=environment(server), concurrency=1
                ) as explorer,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(explorer.run)
                await reached.wait()
                scope.cancel()
        assert scope.cancelled_caught
        found = explorer.exploration()
    assert [each.status for each in found.files] == ["ok", "ok", "cancelled"]
    assert found.status == "not_started"
    assert trio.lowlevel.current_statistics().tasks_living == before


async def test_a_small_model_points_at_what_the_files_say(tmp_path: Path) -> None:
    (tmp_path / "cell.py").write_text(
        '"""Runs one actor."""\n\nclass Cell:\n    """Its state."""\n'
    )
    (tmp_path / "ref.py").write_text('"""Names an actor."""\n\nclass Ref: ...\n')

    def first_choice(request: Asked) -> Answer:
        schema = request.body["response_format"]["json_schema"]["schema"]["properties"]
        if "points" in schema:
            return says_json({"points": schema["points"]["items"]["enum"][:1]})
        return says_json(
            {"answer": schema["answer"]["enum"][0], "names": schema["names"]["items"]["enum"]}
        )

    found = await explored(tmp_path, first_choice, style="point", context_tokens=2_048)
    assert found.status == "ok"
    assert [(each.answer, each.names, each.quoted) for each in found.files] == [
        ("Runs one actor.", ("Cell",), True),
        ("Names an actor.", ("Ref",), True),
    ]
    assert found.answer == "cell.py: Runs one actor."
    assert found.cited == ("cell.py",)


async def test_what_happens_is_told_in_order(project: Path) -> None:
    events: list[Event] = []

    async def note(event: Event) -> None:
        events.append(event)

    async with listen(note):
        await explored(project, concurrency=1)
    kinds = [event.type for event in events if event.type.startswith("explore.")]
    assert kinds == [
        "explore.stage",
        "explore.planned",
        *["explore.began", "explore.ended"] * 3,
        "explore.stage",
        "explore.began",
        "explore.ended",
    ]
    assert [event.seq for event in events] == sorted({event.seq for event in events})
    assert KEY not in repr(events)


async def test_what_cannot_begin_says_why(tmp_path: Path) -> None:
    async def begin(directory: Path, question: str = QUESTION, **settings: object) -> None:
        env = {"OPENAI_API_KEY": KEY}
        async with open_explorer(question, directory, env=env, **settings):  # type: ignore[arg-type]
            raise AssertionError("it began")

    with pytest.raises(NotReadable, match="it is empty"):
        await begin(tmp_path)
    (tmp_path / "empty.py").touch()
    with pytest.raises(NotReadable, match=r"no text file in it \(1 skipped, 0 ignored by git\)"):
        await begin(tmp_path)
    (tmp_path / "a.py").write_text("a = 1\n")
    with pytest.raises(UnknownModel):
        await begin(tmp_path, model="nobody/m")
    with pytest.raises(MissingKey):
        await begin(tmp_path, model="anthropic/m")
    with pytest.raises(NoRoom, match="no room for a file"):
        await begin(tmp_path, "why? " * 4_000, context_tokens=8_000)
