"""Whatever a file holds, it gives an agent or a problem, and nothing is raised."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from standby_actors.definitions.definition import Definition, parse_definition, read_definition
from standby_actors.definitions.fields import FIELDS, SHOWN_AS
from standby_actors.definitions.files import SIZE_LIMIT
from standby_actors.definitions.frontmatter import split

FILE = Path("scout.md")

WHOLE = """---
name: scout
description: Finds things: everywhere
tools: Read, Grep, Bash(git log *)
model: sonnet
limits: {turns: 3, usd: 0.5}
mcpServers:
  - gh: {command: npx, args: ["-y"], env: {A: "1"}}
  - slack
skills: [python, 'a b']
mustCallTool: true
hooks: {}
---
Find it.
"""

# What means something in a head, so that a mutation does something.
WORDS = r"""--- [ ] { } ' " # &a *a !!x | > ? <<: %YAML \u \ud800 null ~ -1 1e999 .nan true ( ) ,"""
SPACES = ["\n", ": ", "- ", "\t", "\r", "\0", "\x85", "\u2028", "\ufeff", "   ", "a" * 200]
TOKENS = st.sampled_from([*WORDS.split(), *SPACES])
KEYS = st.sampled_from([*FIELDS, *SHOWN_AS.values(), "tool", "nmae", "x"])


def holds(made: Definition) -> None:
    """An agent or an error, and every problem can be shown and found."""
    assert made.name
    if made.agent is None:
        assert made.problems
        assert made.is_broken or any(each.code == "disabled" for each in made.problems)
    else:
        assert not made.is_broken
        assert made.agent.name == made.name
    for problem in made.problems:
        # Each is found where it is read; that the agent refuses it is the last resort.
        assert problem.code != "refused", problem
        assert problem.line is None or problem.line >= 1
        assert problem.column is None or problem.column >= 1
        assert str(problem).encode()
        assert "\n" not in str(problem)
        assert len(str(problem)) < 2_000


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), TOKENS), max_size=6))
def test_a_mutated_definition(changes: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for at, length, token in changes:
        text = text[:at] + token + text[at + length :]
    holds(parse_definition(text, FILE, env={}))


@given(st.lists(st.tuples(KEYS, st.lists(TOKENS | st.text(max_size=8), max_size=5)), max_size=6))
def test_fields_with_anything_in_them(fields: list[tuple[str, list[str]]]) -> None:
    lines = [f"{key}: {''.join(parts)}" for key, parts in fields]
    holds(parse_definition("\n".join(["---", *lines, "---", "x"]), FILE, env={}))


@given(st.text())
@example("---\n---")
@example("---\n? ? ?\n---")
def test_any_text_at_all(text: str) -> None:
    holds(parse_definition(text, FILE, env={}))
    holds(parse_definition(f"---\n{text}\n---\nx", FILE, env={}))


@given(st.binary(max_size=300), st.integers(0, len(WHOLE)))
@example(b"\xff\xfe", 0)
@example(b"x" * (SIZE_LIMIT + 1), 0)
def test_any_bytes_at_all(data: bytes, at: int) -> None:
    whole = WHOLE.encode()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scout.md"
        file.write_bytes(whole[:at] + data + whole[at:])
        holds(read_definition(file, env={}))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
def test_a_body_is_kept_as_it_is(body: str) -> None:
    head, _ = split(f"---\nname: a\n---\n{body}", FILE)
    assert head is not None
    assert head.body == body.strip()
