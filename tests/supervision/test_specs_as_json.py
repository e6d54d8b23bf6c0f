"""A tree of specifications goes to JSON and comes back equal, or says what cannot."""

from __future__ import annotations

import datetime
import enum
import functools
import json
import math
from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from standby_actors import Actor
from standby_supervision import (
    Backoff,
    BadSpec,
    ChildSpec,
    SupervisorSpec,
    child,
    decode_spec,
    encode_spec,
    supervisor,
    workers,
)


class Keeps(Actor):
    """Is made with whatever it is given."""

    shutdown = 7.0

    def __init__(self, *args: Any) -> None:
        self.args = args

    def receive(self, message: Any) -> Any:
        return self.args

    @classmethod
    def respond(cls, message: Any) -> Any:
        return message

    class Inner(Actor):
        def receive(self, message: Any) -> None: ...


async def echo(message: Any) -> Any:
    return message


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct, frozen=True):
    x: int
    y: tuple[int, ...] = ()


class Loose(msgspec.Struct, frozen=True):
    anything: Any


@frozen
class Pair:
    left: int
    right: str


class Opaque:
    """Nothing can be made of it."""


# ---- any tree comes back

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"))
    | st.binary(max_size=20)
    | st.sampled_from(
        [
            Colour.RED,
            Point(1, (2, 3)),
            Loose((1, 2)),
            Pair(1, "r"),
            datetime.timedelta(seconds=5),
            datetime.date(2024, 2, 29),
            PurePosixPath("/a/b"),
            Keeps,
            echo,
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=3)
        | st.dictionaries(st.integers() | st.just("$"), inner, max_size=3)
        | st.frozensets(st.integers() | st.text(st.characters(codec="utf-8")), max_size=3)
    ),
    max_leaves=5,
)
SECONDS = st.just(math.inf) | st.floats(0.001, 1e6)
STARTS: st.SearchStrategy[Any] = st.sampled_from([Keeps, echo, Keeps.respond, Keeps.Inner])


@st.composite
def a_worker(draw: st.DrawFn, key: str, auto: str) -> ChildSpec:
    start = draw(STARTS)
    options: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "restart": st.sampled_from(["permanent", "transient", "temporary"]),
                "shutdown": SECONDS | st.sampled_from([0, "brutal_kill"]),
                "start_timeout": SECONDS,
                "when_down": st.sampled_from(["wait", "fail"]),
                "redeliver": st.integers(0, 3),
                "capacity": st.integers(1, 10**6) | st.just(math.inf),
                "overflow": st.sampled_from(["raise", "drop_oldest", "drop_new"]),
                "stop_mode": st.sampled_from(["finish", "interrupt"]),
                "dedicated": st.booleans(),
                "stalled_after": SECONDS,
            },
        )
    )
    if auto != "never" and options.get("restart", "permanent") != "permanent":
        options["significant"] = draw(st.booleans())
    args = draw(st.lists(VALUES, max_size=2)) if start is Keeps else ()
    return child(start, *args, id=key, **options)


@st.composite
def a_tree(draw: st.DrawFn, depth: int = 3, key: str = "top") -> ChildSpec:
    strategy: Any = draw(st.sampled_from(["one_for_one", "one_for_all", "rest_for_one", "dynamic"]))
    auto: Any = (
        "never"
        if strategy == "dynamic"
        else draw(st.sampled_from(["never", "any_significant", "all_significant"]))
    )
    backoff = draw(
        st.none() | st.builds(Backoff, st.floats(0, 1), cap=st.floats(1, 60), jitter=st.just(0.5))
    )
    number = 1 if strategy == "dynamic" else draw(st.integers(0, 3))
    children = [
        draw(a_tree(depth - 1, str(each)))
        if depth and draw(st.booleans())
        else draw(a_worker(str(each), auto))
        for each in range(number)
    ]
    return supervisor(
        *children,
        id=key,
        strategy=strategy,
        auto_shutdown=auto,
        backoff=backoff,
        intensity=draw(st.integers(0, 9) | (st.none() if backoff else st.nothing())),
        period=draw(st.floats(0.1, 1e6)),
        max_children=draw(st.just(math.inf) | st.integers(0, 100)),
        name=draw(st.none() | st.just(f"name {key}")) if key == "top" else None,
        shutdown=draw(SECONDS),
    )


@settings(max_examples=50, deadline=None)
@given(a_tree())
def test_any_tree_comes_back_equal(spec: ChildSpec) -> None:
    data = encode_spec(spec)
    back = decode_spec(data)
    assert back == spec
    assert str(back) == str(spec)
    assert encode_spec(back) == data
    json.loads(data)  # it is JSON to anybody
    assert decode_spec(encode_spec(spec.start)) == spec.start


def test_it_is_short_and_can_be_read() -> None:
    spec = supervisor(
        child(Keeps, 1, (2, math.inf), id="keeps", restart="transient"),
        workers(echo, count=1, intensity=None, backoff=Backoff(1)),
        id="top",
        strategy="rest_for_one",
    )
    here = __name__
    assert json.loads(encode_spec(spec)) == {
        "id": "top",
        "start": {
            "strategy": "rest_for_one",
            "children": [
                {
                    "id": "keeps",
                    "start": f"{here}:Keeps",
                    "args": [1, {"$": "tuple", "is": [2, {"$": "float", "is": "inf"}]}],
                    "restart": "transient",
                },
                {
                    "id": "echo",
                    "start": {
                        "intensity": None,
                        "backoff": {
                            "first": 1,
                            "factor": 2.0,
                            "cap": 30.0,
                            "jitter": 0.1,
                            "reset_after": 30.0,
                        },
                        "children": [{"id": "1", "start": f"{here}:echo"}],
                    },
                },
            ],
        },
    }


def local(message: Any) -> Any:
    def inner(message: Any) -> Any: ...

    return inner


WHAT: list[Any] = [
    pytest.param(lambda message: None, (), "lambda", id="a lambda"),
    pytest.param(local(None), (), "inner", id="a function made in another one"),
    pytest.param(functools.partial(Keeps, 1), (), "partial", id="a partial"),
    pytest.param(Keeps().receive, (), "Keeps.receive", id="a method of an instance"),
    pytest.param(Keeps, (Opaque(),), "an instance of Opaque", id="an instance"),
    pytest.param(Keeps, ([{"a": Opaque()}],), "an instance of Opaque", id="an instance within"),
    pytest.param(Keeps, (lambda: 1,), "lambda", id="a lambda as an argument"),
    pytest.param(Keeps, (Loose(Point(1)),), "an instance of Loose", id="what comes back another"),
    pytest.param(Keeps, ("\ud800",), "", id="a text that is no Unicode"),
]


@pytest.mark.parametrize(("start", "args", "what"), WHAT)
def test_what_cannot_be_encoded_is_refused_with_its_child(
    start: Any, args: tuple[Any, ...], what: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        encode_spec(supervisor(supervisor(child(start, *args, id="culprit"), id="between")))
    assert caught.value.rule == "not_encodable"
    assert what in str(caught.value)
    if what:
        assert caught.value.actor == "culprit"


HERE = __name__
MADE_OF_A_NUMBER = {"$": "made", "of": f"{HERE}:Point", "is": 1}
WRONG: list[Any] = [
    pytest.param(b"{", "supervisor", "invalid_json", "", id="no JSON"),
    pytest.param(b"\xff", "supervisor", "invalid_json", "", id="no text"),
    pytest.param([1], "supervisor", "invalid_json", "", id="a list"),
    pytest.param({"id": 1, "start": f"{HERE}:echo"}, "1", "missing_id", "", id="id"),
    pytest.param(
        {"id": "a", "start": "nowhere:x"}, "a", "not_importable", "no nowhere:x", id="module"
    ),
    pytest.param({"id": "a", "start": f"{HERE}:x"}, "a", "not_importable", "", id="name"),
    pytest.param({"id": "a", "start": "plain"}, "a", "not_importable", "module:name", id="form"),
    pytest.param({"id": "a", "start": 7}, "a", "not_importable", "", id="a number"),
    pytest.param({"id": "a", "start": "math:pi"}, "a", "invalid_start", "", id="no actor"),
    pytest.param(
        {"id": "a", "start": f"{HERE}:echo", "restrat": 1}, "a", "unknown_key", "restart", id="key"
    ),
    pytest.param({"stratgy": 1}, "supervisor", "unknown_key", "strategy", id="flag"),
    pytest.param({"children": [{}]}, "supervisor", "missing_start", "", id="an empty child"),
    pytest.param({"children": 5}, "supervisor", "bad_start_spec", "", id="children"),
    pytest.param({"backoff": {"frist": 1}}, "supervisor", "invalid_backoff", "", id="backoff"),
    pytest.param(
        {"id": "a", "start": f"{HERE}:echo", "restart": "always"},
        "a",
        "invalid_restart_type",
        "",
        id="a value",
    ),
    pytest.param(
        {"id": "a", "start": f"{HERE}:Keeps", "args": 1}, "a", "invalid_args", "", id="args"
    ),
    pytest.param(
        {"id": "a", "start": f"{HERE}:Keeps", "args": [{"$": "tuple", "is": 5}]},
        "a",
        "invalid_json",
        "",
        id="a tuple of a number",
    ),
    pytest.param(
        {"id": "a", "start": f"{HERE}:Keeps", "args": [{"$": "spell"}]},
        "a",
        "invalid_json",
        "spell",
        id="an unknown kind",
    ),
    pytest.param(
        {
            "id": "a",
            "start": f"{HERE}:Keeps",
            "args": [{"$": "made", "of": f"{HERE}:Point", "is": 1}],
        },
        "a",
        "invalid_json",
        "",
        id="a Struct of a number",
    ),
]


@pytest.mark.parametrize(("data", "of", "rule", "words"), WRONG)
def test_what_cannot_be_decoded_is_refused_with_child_and_rule(
    data: Any, of: str, rule: str, words: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        decode_spec(data if isinstance(data, bytes) else json.dumps(data))
    assert (caught.value.actor, caught.value.rule) == (of, rule)
    assert words in str(caught.value)


def test_what_is_damaged_is_a_bad_spec_wherever_it_is_cut() -> None:
    data = encode_spec(supervisor(child(Keeps, 1, "text", id="a"), id="top"))
    for end in range(len(data)):
        with pytest.raises(BadSpec):
            decode_spec(data[:end])


def test_an_empty_supervisor_is_an_empty_object() -> None:
    assert encode_spec(SupervisorSpec()) == b"{}"
    assert decode_spec("{}") == SupervisorSpec()
