"""Who reads what is decided beforehand, and nothing is cut by it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from standby.explore.plan import SHARE_FLOOR, assign
from standby.explore.prompts import window_for
from standby.explore.reading import TextFile
from standby_combinators.tokens import estimate_tokens

CODE = '"""Adds numbers."""\n\n' + "".join(
    f'def add{number}(a, b):\n    """Their sum."""\n    return a + b\n\n' for number in range(40)
)
PROSE = "It rains, and it rains again, and nobody minds.\n" * 100


def test_without_a_budget_every_file_is_shown_whole() -> None:
    whole, split_up = assign([TextFile("a.py", "a = 1\n"), TextFile("b.py", CODE)], window=300)
    assert (whole.view, len(whole.parts)) == ("whole", 1)
    assert split_up.view == "whole"
    assert len(split_up.parts) > 1
    assert "".join(part.text for part in split_up.parts) == CODE


def test_with_one_a_file_that_exceeds_its_share_is_shown_as_a_sketch() -> None:
    small, large = assign(
        [TextFile("a.py", "a = 1\n"), TextFile("b.py", CODE)], window=5_000, budget=600
    )
    assert small.view == "whole"
    assert large.view == "sketch"
    assert large.tokens <= 300


def test_a_text_of_which_there_is_no_sketch_is_shown_whole_all_the_same() -> None:
    [prose] = assign([TextFile("a.txt", PROSE)], window=200, budget=200)
    assert prose.view == "whole"
    assert "".join(part.text for part in prose.parts) == PROSE


def test_a_share_has_a_floor_however_many_files_there_are() -> None:
    files = [TextFile(f"{number}.py", CODE) for number in range(500)]
    assert all(each.tokens <= SHARE_FLOOR * 2 for each in assign(files, window=900, budget=1_000))


def test_a_sketch_is_preferred_to_parts_where_there_is_a_budget() -> None:
    [file] = assign([TextFile("b.py", CODE)], window=700, budget=100_000)
    assert file.view == "sketch"
    assert len(file.parts) == 1


@given(
    st.lists(st.sampled_from([CODE, PROSE, "x\n"]), max_size=5),
    st.integers(10, 2_000),
    st.none() | st.integers(0, 5_000),
)
def test_every_part_fits_in_the_window(texts: list[str], window: int, budget: int | None) -> None:
    files = [TextFile(f"{number}.py", text) for number, text in enumerate(texts)]
    assigned = assign(files, window=window, budget=budget)
    assert [each.file for each in assigned] == files
    for each in assigned:
        assert all(estimate_tokens(part.text) <= window for part in each.parts)
        if each.view == "whole":
            assert "".join(part.text for part in each.parts) == each.file.text


def test_a_longer_question_leaves_less_room() -> None:
    short = window_for("Why?", "point", 2_048)
    long = window_for("Why? " * 300, "point", 2_048)
    assert 0 < long < short < 2_048
    assert window_for("Why? " * 3_000, "point", 2_048) < 0
