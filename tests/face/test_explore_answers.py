"""What models say is held against what was read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standby.explore.answers import (
    Finding,
    Synthesis,
    check_finding,
    check_synthesis,
    finding_type,
    mentions,
    synthesis_type,
)
from standby.explore.reading import TextFile
from standby.explore.sketch import condense, occurs, quotable, sentences, sketch
from standby_combinators.tokens import estimate_tokens

PYTHON = '''
"""What runs one actor.

More about it.
"""

from __future__ import annotations

LIMIT = 3
_HIDDEN = 4


class Cell(Base, Other):
    """Holds the state of an actor.  And its mailbox."""

    def stop(self) -> None:
        """End it."""

    def _step(self) -> None: ...


async def spawn(actor, *args, name=None):
    """Begin a life."""
    return [actor for _ in range(LIMIT)]
'''


def test_a_sketch_of_python_has_what_is_defined_and_the_first_sentence_of_each() -> None:
    assert str(sketch("cell.py", PYTHON)).splitlines() == [
        "What runs one actor.",
        "LIMIT",
        "class Cell(Base, Other): Holds the state of an actor.",
        "    stop",
        "async def spawn(actor, name): Begin a life.",
    ]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        pytest.param(
            "a.go", "// Sums.\nfunc (s *Set) Add(n int) {\n\treturn\n}\n", ["Add"], id="go"
        ),
        pytest.param("a.rs", "pub(crate) fn add() {}\nstruct Set;\n", ["add", "Set"], id="rust"),
        pytest.param("a.ts", "export default class App {}\n", ["App"], id="typescript"),
        pytest.param("a.toml", "[tool.ruff]\nx = 1\n[[bin]]\n", ["tool.ruff", "bin"], id="toml"),
        pytest.param("a.yml", "jobs:\n  test: 1\non: x\n", ["jobs", "on"], id="yaml"),
        pytest.param("a.sh", "run() {\n  :\n}\n", ["run"], id="shell"),
        pytest.param("a.md", "# One\n```\n# no\n```\n## Two ##\n", ["One", "Two"], id="markdown"),
        pytest.param("a.py", "class Broken(:\ndef f(): pass\n", ["Broken", "f"], id="not python"),
    ],
)
def test_other_languages_are_known_by_how_definitions_begin(
    path: str, text: str, expected: list[str]
) -> None:
    found = sketch(path, text)
    assert found is not None
    assert [each.name for each in found.definitions] == expected


def test_the_top_comment_of_a_file_is_what_it_says_about_itself() -> None:
    found = sketch("a.go", "// Package set holds\n// sets.\n\n// Unrelated.\nfunc Add() {}\n")
    assert found is not None
    assert found.says == "Package set holds sets."


def test_a_sketch_is_as_full_as_its_share_allows_and_never_longer_than_the_text() -> None:
    full = condense("cell.py", PYTHON, 1_000)
    short = condense("cell.py", PYTHON, 20)
    assert full is not None
    assert short is not None
    assert "stop" in full
    assert "stop" not in short
    assert estimate_tokens(short) < estimate_tokens(full) < estimate_tokens(PYTHON)
    assert condense("one.py", "import os\n", 1_000) is None
    assert condense("prose.txt", "Nothing is defined here.", 1_000) is None


def test_names_offered_for_quoting_occur_in_the_file() -> None:
    assert quotable("cell.py", PYTHON) == ("LIMIT", "Cell", "spawn", "stop")
    for name in quotable("notes.txt", "rain, rain and more rain in Helsinki"):
        assert occurs(name, "rain, rain and more rain in Helsinki")


def test_sentences_offered_are_those_of_the_file() -> None:
    assert sentences("cell.py", PYTHON) == (
        "What runs one actor.",
        "Holds the state of an actor.",
        "Begin a life.",
    )
    assert sentences("__init__.py", '"""Only this."""\n') == ("Only this.",)
    assert sentences("data.csv", "1,2\n3,4\n") == ("1,2 3,4",)
    assert sentences("long.txt", "word " * 200) == ()


@given(st.text(max_size=300), st.sampled_from(["a.py", "a.md", "a.rs", "a.txt", "noending"]))
def test_no_text_breaks_a_sketch(text: str, path: str) -> None:
    for name in quotable(path, text):
        assert occurs(name, text)
    for sentence in sentences(path, text):
        said = check_finding(Finding(sentence, []), TextFile(path, text))
        # Words are compared: a sentence of signs alone has none to compare.
        assert said.quoted or not any(letter.isalnum() for letter in sentence)


def test_a_name_occurs_as_a_word_of_its_own() -> None:
    assert occurs("stop", PYTHON)
    assert not occurs("sto", PYTHON)
    assert occurs("Cell.stop", PYTHON)
    assert not occurs("Cell.start", PYTHON)
    assert not occurs("", PYTHON)
    assert not occurs(".", PYTHON)


def test_names_that_do_not_occur_are_dropped_and_kept_apart() -> None:
    file = TextFile("cell.py", PYTHON)
    said = Finding("It runs\n an actor.", ["`Cell`", "spawn()", "Cell", "Kernel", " "])
    checked = check_finding(said, file)
    assert checked.answer == "It runs an actor."
    assert checked.names == ("Cell", "spawn")
    assert checked.dropped == ("Kernel",)
    assert not checked.quoted
    assert check_finding(Finding("what runs one actor", []), file).quoted is False
    assert check_finding(Finding("What runs one actor.", []), file).quoted


def test_a_small_model_is_offered_only_what_the_file_has() -> None:
    kind = finding_type("cell.py", PYTHON, "point")
    schema = msgspec.json.schema(kind)["$defs"]["Finding"]["properties"]
    assert schema["answer"]["enum"] == list(sentences("cell.py", PYTHON))
    assert schema["names"]["items"]["enum"] == ["LIMIT", "Cell", "spawn", "stop"]
    # What it says beyond that is for the checks to see, not for the decoder.
    said = msgspec.json.decode('{"answer": "Hm.", "names": ["Kernel"]}', type=kind)
    assert check_finding(said, TextFile("cell.py", PYTHON)).dropped == ("Kernel",)


def test_a_large_model_is_offered_everything() -> None:
    assert finding_type("cell.py", PYTHON, "write") is Finding
    assert synthesis_type([("cell.py", "It runs.")], "write") is Synthesis


READ = ["a/cell.py", "a/ref.py", "b/__init__.py", "c/__init__.py", "README.md"]


def test_a_synthesis_cites_only_what_was_read() -> None:
    said = Synthesis(
        "Actors run in `a/cell.py`. They are named in kernel.py.  See ref.py too.\n\n"
        "README.md says so.",
        ["a/cell.py", "./README.md", "kernel.py", "a/cell.py", "`ref.py`"],
    )
    checked = check_synthesis(said, READ)
    assert checked.answer == "Actors run in `a/cell.py`. See ref.py too.\n\nREADME.md says so."
    assert checked.files == ("a/cell.py", "README.md", "a/ref.py")
    assert checked.dropped == ("kernel.py",)


def test_the_files_named_in_the_text_are_cited_too() -> None:
    checked = check_synthesis(Synthesis("It is in ref.py.", []), READ)
    assert checked.files == ("a/ref.py",)


def test_a_name_that_several_files_have_cites_none_of_them() -> None:
    checked = check_synthesis(Synthesis("See __init__.py.", ["__init__.py"]), READ)
    assert checked.answer == "See __init__.py."
    assert checked.files == ()
    assert checked.dropped == ()


def test_a_path_from_further_above_is_understood() -> None:
    checked = check_synthesis(Synthesis("See project/a/ref.py.", []), READ)
    assert checked.files == ("a/ref.py",)


def test_points_are_findings_and_nothing_else() -> None:
    kind = synthesis_type([("a/ref.py", "It  refers."), ("a/cell.py", "It runs.")], "point")
    said = msgspec.json.decode(
        '{"points": ["a/cell.py: It runs.", "a/cell.py: It runs.", "x.py: Hm."]}', type=kind
    )
    checked = check_synthesis(said, READ)
    assert checked.answer == "a/cell.py: It runs."
    assert checked.files == ("a/cell.py",)
    assert checked.dropped == ("x.py",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trio.lowlevel is no file, and neither is e.g. this", []),
        ("see actors/cell.py, then pyproject.toml.", ["actors/cell.py", "pyproject.toml"]),
        ("self.c() is a call; main.c is a file", ["main.c"]),
        ("https://example.org/a/b.py", []),
        (".gitignore", []),
    ],
)
def test_mentions_of_files(text: str, expected: list[str]) -> None:
    assert mentions(text) == expected
