"""What a model wrote is read leniently in its shape and strictly in its content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standby_actors.modeltext import first_line, json_objects, says_word, truncate


@pytest.mark.parametrize(
    "text", ["LGTM", "lgtm", "**LGTM**", "## LGTM", "`LGTM`.", "All fine.\n\n  LGTM  \n", "_L_GTM"]
)
def test_a_word_alone_on_its_line_is_said(text: str) -> None:
    assert says_word(text, "LGTM")


@pytest.mark.parametrize(
    "text", ["", "I cannot say LGTM yet", "not LGTM", "LGTM, but", "LGTMs", "- LGTM", "LG\nTM"]
)
def test_a_word_among_others_is_not(text: str) -> None:
    assert not says_word(text, "LGTM")


def test_no_word_is_never_said() -> None:
    assert not says_word("\n\n", "")
    assert not says_word("***", "*")


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        pytest.param('{"a": 1}', [{"a": 1}], id="bare"),
        pytest.param('[{"a": 1}, {"b": 2}]', [{"a": 1}, {"b": 2}], id="in a list"),
        pytest.param('```json\n{"a": {"b": []}}\n```', [{"a": {"b": []}}], id="fenced"),
        pytest.param('So: {"a": 1}\nand {"b": 2}.', [{"a": 1}, {"b": 2}], id="in prose"),
        pytest.param('{"a": "}{\\"}"}', [{"a": '}{"}'}], id="braces in a string"),
        pytest.param(
            '{"a": "\\\\"} {"b": 1}', [{"a": "\\"}, {"b": 1}], id="a backslash at its end"
        ),
        pytest.param('{nope} {"a": 1} {"a": }', [{"a": 1}], id="what does not parse"),
        pytest.param('a 5" disk {"a": 1}', [{"a": 1}], id="a quotation mark in the prose"),
        pytest.param('use { here: {"a": 1}', [{"a": 1}], id="a brace that stays open"),
        pytest.param('{"cut": "he {"a": 1}', [{"a": 1}], id="a string that stays open"),
        pytest.param('} {"a": 1}', [{"a": 1}], id="a brace that was never opened"),
        pytest.param('[{"a": 1}, {"b": 2}, {"c', [{"a": 1}, {"b": 2}], id="a list that was cut"),
        pytest.param('{"all": [{"a": 1}, {"b"', [{"a": 1}], id="an object that was cut"),
        pytest.param("no objects, [1, 2]", [], id="none"),
    ],
)
def test_objects_are_found_wherever_they_stand(text: str, objects: list[Any]) -> None:
    assert json_objects(text) == objects


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(), PLAIN, max_size=4)


@given(
    st.lists(
        st.tuples(OBJECTS, st.text(st.characters(exclude_characters="{}")), st.booleans()),
        max_size=4,
    )
)
def test_every_object_among_any_prose_is_found(
    parts: list[tuple[dict[str, Any], str, bool]],
) -> None:
    text = "".join(
        prose + json.dumps(each, ensure_ascii=ascii_only) for each, prose, ascii_only in parts
    )
    assert json_objects(text) == [each for each, _, _ in parts]


@given(st.text(st.sampled_from('{}"\\a:[] ')))
def test_no_text_is_too_strange(text: str) -> None:
    assert all(isinstance(each, dict) for each in json_objects(text))


def test_a_long_text_of_braces_is_read_in_time_that_grows_with_its_length() -> None:
    # Were it read again behind each brace, this would take hours.
    assert json_objects("{" * 300_000 + '{"a": 1}') == [{"a": 1}]
    assert json_objects('{"' * 150_000) == []
    assert json_objects("{" * 100_000 + "}" * 100_000) == []


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("one two", 7, "one two"),
        ("one two", 6, "one t…"),
        ("one two", 5, "one…"),
        ("a\n\n b", 10, "a b"),
        ("abc", 1, "…"),
        ("", 1, ""),
    ],
)
def test_a_text_is_cut_to_one_line_and_says_so(text: str, limit: int, expected: str) -> None:
    assert truncate(text, limit) == expected


@given(st.text(), st.integers(1, 50))
def test_a_cut_text_is_never_longer_than_its_limit(text: str, limit: int) -> None:
    line = truncate(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert line == " ".join(text.split()) or line.endswith("…")


def test_a_huge_text_is_cut_without_being_read() -> None:
    assert truncate(" " * 10**7 + "x", 5) == "…"


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        truncate("a", 0)


def test_the_first_line_is_the_first_with_something_in_it() -> None:
    assert first_line("\n \n  Title \nmore") == "Title"
    assert first_line(" \n ") == ""
