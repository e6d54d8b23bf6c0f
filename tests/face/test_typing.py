"""Keys, lines, orders and amounts: what is made of what a person types."""

from __future__ import annotations

import random
from typing import Any

import pytest

from standby.cli.amounts import BadAmount, read_budget, read_seconds
from standby.cli.keys import PASTE_LIMIT, Key, keys_of, names
from standby.cli.line import LIMIT, History, Line
from standby.cli.orders import (
    COMMANDS,
    Cut,
    Help,
    NotUnderstood,
    Order,
    Steer,
    Stop,
    StopAll,
    order_of,
)
from standby_actors.agent import Limits


def pressed(data: bytes, *, is_last: bool = True) -> list[str]:
    return list(names(keys_of(data, is_last=is_last)[0]))


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        pytest.param(b"a", ["a"], id="a letter"),
        pytest.param(b"/stop scout#2\r", ["/stop scout#2", "enter"], id="a line"),
        pytest.param(b"\n", ["enter"], id="a line feed"),
        pytest.param("é€😀".encode(), ["é€😀"], id="letters of several bytes"),
        pytest.param(b"\x1b", ["esc"], id="escape"),
        pytest.param(b"\x1b\x1b", ["esc", "esc"], id="escape twice"),
        pytest.param(b"\x1b[27u", ["esc"], id="escape of kitty"),
        pytest.param(b"\x1b[3;5~", ["ctrl+del"], id="ctrl+del of xterm"),
        pytest.param(b"\x1b[3^", ["ctrl+del"], id="ctrl+del of rxvt"),
        pytest.param(b"\x18", ["ctrl+x"], id="ctrl+x"),
        pytest.param(b"\x1b[3~", ["del"], id="del"),
        pytest.param(b"\x7f\x08", ["backspace", "backspace"], id="both backspaces"),
        pytest.param(b"\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"], id="arrows"),
        pytest.param(b"\x1bOA\x1bOB", ["up", "down"], id="arrows of application mode"),
        pytest.param(b"\x1b[H\x1b[F\x1b[1~\x1b[4~", ["home", "end"] * 2, id="home and end"),
        pytest.param(
            b"\x01\x05\x15\x17\x0b\x04\t",
            ["home", "end", "ctrl+u", "ctrl+w", "ctrl+k", "ctrl+d", "tab"],
            id="control",
        ),
        pytest.param(b"\x1b[5~x", ["x"], id="page up means nothing"),
        pytest.param(b"\x1b[1;5Cx", ["x"], id="ctrl+right means nothing"),
        pytest.param(b"\x1b[[Ax", ["x"], id="F1 of the console"),
        pytest.param(b"\x1bOPx", ["x"], id="F1 of xterm"),
        pytest.param(b"\x1bbx", ["x"], id="alt+b is not escape"),
        pytest.param("\x1béx".encode(), ["x"], id="alt and a letter of two bytes"),
        pytest.param(b"\x1b[<0;10;20Mx", ["x"], id="a mouse"),
        pytest.param(b"\x1b[200~a\nb\x1b[201~c", ["a b", "c"], id="a paste is one line"),
        pytest.param(
            b"\x1b[200~/stop\r\x1b[3;5~\x1b[201~",
            ["/stop  [3;5~"],
            id="no key is pressed in a paste",
        ),
        pytest.param(b"\x1b[3\x1b", ["esc"], id="a sequence that is cut off"),
        pytest.param(b"\x00\x1cx", ["x"], id="control that means nothing"),
        pytest.param(b"\xffx", ["\ufffdx"], id="no text at all"),
        pytest.param(b"a\x1b[Ab", ["a", "up", "b"], id="between letters"),
    ],
)
def test_bytes_are_keys(data: bytes, keys: list[str]) -> None:
    assert pressed(data) == keys


@pytest.mark.parametrize(
    "begun", [b"\x1b", b"\x1b[", b"\x1b[3;", b"\x1bO", b"\xe2\x82", b"\x1b[200~half a paste"]
)
def test_what_may_go_on_is_kept(begun: bytes) -> None:
    assert keys_of(begun) == ([], begun)


def test_a_sequence_without_an_end_is_given_up() -> None:
    assert pressed(b"\x1b[" + b"1" * 200, is_last=False)[0].startswith("1")
    assert pressed(b"\x1b[3", is_last=True) == []


def test_a_paste_without_an_end_is_taken_when_it_is_too_long() -> None:
    [key] = keys_of(b"\x1b[200~" + b"a" * PASTE_LIMIT)[0]
    assert key.text == "a" * PASTE_LIMIT


@pytest.mark.parametrize("seed", range(200))
def test_where_the_bytes_are_parted_makes_no_difference(seed: int) -> None:
    drawn = random.Random(seed)
    parts = [
        "a",
        "é",
        "😀",
        "\r",
        "\x1b[3;5~",
        "\x1b[A",
        "\x1bOB",
        "\x7f",
        "\x1b[200~x\ny\x1b[201~",
    ]
    data = "".join(drawn.choices(parts, k=30)).encode()
    keys: list[Key] = []
    left, at = b"", 0
    while at < len(data):
        step = drawn.randint(1, 7)
        some, left = keys_of(left + data[at : at + step])
        keys += some
        at += step
    assert left == b""
    # Letters may come in several keys, and say the same.
    assert "".join(names(keys)) == "".join(names(keys_of(data)[0]))


@pytest.mark.parametrize("seed", range(200))
def test_any_bytes_are_read_to_their_end(seed: int) -> None:
    drawn = random.Random(seed)
    data = bytes(drawn.choices([0x1B, 0x5B, 0x4F, 0x33, 0x7E, *range(256)], k=200))
    keys, left = keys_of(data, is_last=True)
    # But for a paste that has not ended.
    assert left == b"" or left.startswith(b"\x1b[200~")
    for key in keys:
        assert all(letter.isprintable() or letter == " " for letter in key.text)


def typed(*keys: str, line: Line | None = None) -> Line:
    line = line or Line()
    for key in keys:
        line = line.pressed(Key("text", key[1:]) if key.startswith("=") else Key(key))
    return line


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["=abc"], Line("abc", 3)),
        (["=abc", "left", "left", "=x"], Line("axbc", 2)),
        (["=abc", "home", "=x", "end", "=y"], Line("xabcy", 5)),
        (["=abc", "backspace", "left", "backspace"], Line("b", 0)),
        (["=abc", "home", "del", "backspace"], Line("bc", 0)),
        (["=abc", "right", "left", "ctrl+k"], Line("ab", 2)),
        (["=abc", "left", "ctrl+u"], Line("c", 0)),
        (["=ab cd  ", "ctrl+w"], Line("ab ", 3)),
        (["=ab", "ctrl+w", "ctrl+w"], Line()),
        (["=ab", "up", "esc"], Line("ab", 2)),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_keys_edit_a_line(keys: list[str], line: Line) -> None:
    assert typed(*keys) == line


def test_a_line_is_bounded() -> None:
    assert len(typed("=" + "a" * (LIMIT + 5)).text) == LIMIT


def test_words_are_completed_as_far_as_they_agree() -> None:
    words = [*COMMANDS, "scout#1", "scout#2", "planner#1"]
    assert Line("/he", 3).completed(words) == Line("/help ", 6)
    assert Line("/steer sc", 9).completed(words) == Line("/steer scout#", 13)
    assert Line("/steer pl be", 9).completed(words) == Line("/steer planner#1 be", 17)
    assert Line("", 0).completed(words) == Line()
    assert Line("/x", 2).completed(words) == Line("/x", 2)


def test_lines_come_back_in_their_order_and_what_was_begun_last() -> None:
    history = History()
    for text in ("one", "two", "two", ""):
        history.entered(text)
    line = history.step(Line("begun", 5), back=True)
    assert line.text == "two"
    line = history.step(line, back=True)
    assert history.step(line, back=True).text == "one"
    line = history.step(line, back=False)
    assert history.step(line, back=False).text == "begun"
    assert history.step(Line("begun", 5), back=False).text == "begun"


IDS = ["scout#1", "scout#2", "planner#1"]


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ("/stop", StopAll()),
        ("/stop all", StopAll()),
        ("  /STOP  ", StopAll()),
        ("/stop scout#2", Stop("scout#2")),
        ("/stop SCOUT#2", Stop("scout#2")),
        ("/stop planner", Stop("planner#1")),
        ("/cut scout#1", Cut("scout#1")),
        ("/steer scout#2 be brief, please", Steer("scout#2", "be brief, please")),
        ("/steer planner  think", Steer("planner#1", "think")),
        ("/help", Help()),
        ("/?", Help()),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_a_line_is_an_order(line: str, order: Order) -> None:
    assert order_of(line, IDS) == order


@pytest.mark.parametrize(
    ("line", "ids", "words"),
    [
        ("/stpo", IDS, "do you mean /stop?"),
        ("/zzz", IDS, "there are /stop, /cut, /steer, /help"),
        ("stop", IDS, "orders begin with a slash, as in /help; do you mean /stop?"),
        ("be quick", IDS, "orders begin with a slash, as in /help"),
        ("/stop scuot#2", IDS, "do you mean scout#2? there are scout#1, scout#2, planner#1"),
        ("/stop scout", IDS, "there is no 'scout' now"),
        ("/stop scout#1", [], "there is nobody to stop now"),
        ("/cut", IDS, "cut whom? there are scout#1"),
        ("/cut", [], "there is nobody to cut now"),
        ("/steer", IDS, "steer whom?"),
        ("/steer scout#1", IDS, "what is it to be told? /steer scout#1 words"),
        ("/steer reviewer#1 words", ["scout#1"], "there is no 'reviewer#1' now"),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_what_is_no_order_is_answered_with_what_would_be(
    line: str, ids: list[str], words: str
) -> None:
    order = order_of(line, ids)
    assert isinstance(order, NotUnderstood)
    assert words in order.why


def test_where_there_is_only_one_it_need_not_be_named() -> None:
    assert order_of("/cut", ["scout#1"]) == Cut("scout#1")
    assert order_of("/steer be brief", ["scout#1"]) == Steer("scout#1", "be brief")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("0.5", 0.5),
        ("5m", 300),
        ("5min", 300),
        ("1h", 3600),
        ("1h 30m", 5400),
    ],
)
def test_a_time_is_read(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5", "5d", "1h30", "soon", "1e9", "inf", "5 5"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadAmount, match="a time is written"):
        read_seconds(text)


@pytest.mark.parametrize(
    ("texts", "limits"),
    [
        (("0.50usd",), {"usd": 0.5}),
        (("$2",), {"usd": 2.0}),
        (("2$",), {"usd": 2.0}),
        (("200k",), {"tokens": 200_000}),
        (("1.5m tokens",), {"tokens": 1_500_000}),
        (("5000",), {"tokens": 5_000}),
        (("1 turn",), {"turns": 1}),
        (("0.5usd, 12turns", "9k"), {"usd": 0.5, "turns": 12, "tokens": 9_000}),
    ],
    ids=str,
)
def test_a_budget_is_read(texts: tuple[str, ...], limits: dict[str, Any]) -> None:
    assert read_budget(texts) == Limits(**limits)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (("much",), "a budget is written"),
        (("",), "a budget is written"),
        (("-1usd",), "a budget is written"),
        (("$5turns",), "a budget is written"),
        (("0usd",), "buys nothing whole"),
        (("0.5turns",), "buys nothing whole"),
        (("9" * 400,), "buys nothing whole"),
        (("1usd", "2usd"), "two limits of usd"),
    ],
    ids=str,
)
def test_what_is_no_budget_is_refused(texts: tuple[str, ...], words: str) -> None:
    with pytest.raises(BadAmount, match=words):
        read_budget(texts)
