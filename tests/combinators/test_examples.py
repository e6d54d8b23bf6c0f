"""Every example of a combinator runs, and prints what it says that it prints."""

from __future__ import annotations

import ast
import doctest
import runpy
import textwrap
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "combinators").glob("*.py"))


@pytest.mark.real
@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_an_example_prints_what_it_says(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""
    expected = textwrap.dedent(said.partition("Prints:\n\n")[2]) + "\n"
    assert expected.strip(), f"{example.name} does not say what it prints"
    runpy.run_path(str(example), run_name="__main__")
    printed = capsys.readouterr().out
    same = doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS)
    assert same, f"said:\n{expected}\nprinted:\n{printed}"


def test_every_combinator_has_an_example() -> None:
    combinators = {
        "chain", "copies", "experiment", "fallback", "fan_out", "hedge", "interview", "leases",
        "loop", "map_reduce", "orchestrate", "race", "reduce", "retry", "review", "route", "swarm",
        "vote",
    }  # fmt: skip
    assert combinators <= {example.stem for example in EXAMPLES}
