from __future__ import annotations

import gc
import pickle
import weakref
from typing import get_args

import msgspec
import pytest

from standby_actors.result import (
    ERROR_KINDS,
    STATUS_OF,
    STATUSES,
    ChatMessage,
    ErrorKind,
    Result,
    TurnError,
    failed,
    succeeded,
)
from standby_actors.usage import Usage


def test_every_kind_of_error_has_one_status() -> None:
    assert set(STATUS_OF) == ERROR_KINDS
    assert set(STATUS_OF.values()) == STATUSES - {"ok"}


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_a_failed_result_has_the_status_of_its_error(kind: ErrorKind) -> None:
    result = failed("scout", kind)
    assert not result.ok
    assert result.status == STATUS_OF[kind]
    assert result.error is not None
    assert result.error.message


def test_a_result_is_neither_true_nor_false() -> None:
    for result in (succeeded("scout", ""), failed("scout", "stopped")):
        with pytest.raises(TypeError, match=r"use result\.ok"):
            bool(result)


def test_a_status_that_its_error_does_not_mean_is_refused() -> None:
    with pytest.raises(ValueError, match="timed_out, not failed"):
        Result(agent="scout", status="failed", error=TurnError("timeout", "late"))
    with pytest.raises(ValueError, match="is ok, not failed"):
        Result(agent="scout", status="failed")
    with pytest.raises(ValueError, match="timed_out, not ok"):
        Result(agent="scout", error=TurnError("timeout", "late"))


def test_a_result_travels_as_json_and_by_pickle_without_the_cause() -> None:
    error = TurnError("crash", "ValueError: odd", retryable=True).with_cause(ValueError("odd"))
    result = failed(
        "scout",
        error,
        subagent="scout#2",
        messages=(ChatMessage("user", "go"), ChatMessage("assistant", "I w", partial=True)),
        usage=Usage(turns=1, output_tokens=3, context_tokens=40),
    )
    for twin in (
        msgspec.json.decode(msgspec.json.encode(result), type=Result),
        pickle.loads(pickle.dumps(result)),
    ):
        assert twin == result
        assert twin.error is not None
        assert twin.error.cause is None
    assert isinstance(error.cause, ValueError)
    assert "odd" in repr(error)


def test_a_value_travels_as_plain_data() -> None:
    class Point(msgspec.Struct):
        x: int

    result = succeeded("scout", '{"x":1}', value=Point(1))
    twin = msgspec.json.decode(msgspec.json.encode(result), type=Result)
    assert msgspec.convert(twin.value, Point) == Point(1)


def test_what_a_cut_turn_had_said_is_partial_and_no_output() -> None:
    said = (ChatMessage("user", "go"), ChatMessage("assistant", "Half an ans", partial=True))
    result = failed("scout", "truncated", messages=said)
    assert result.output == ""
    assert result.partial == "Half an ans"
    assert succeeded("scout", "all", messages=(ChatMessage("assistant", "all"),)).partial == ""


def test_an_error_in_a_circle_with_its_cause_is_collected() -> None:
    class Torn(RuntimeError):
        """Raised by a mind, and kept by what it has made of it."""

        turn: Result

    def fail() -> weakref.ref[Torn]:
        cause = Torn("torn")
        cause.turn = failed("scout", TurnError("crash", "torn").with_cause(cause))
        return weakref.ref(cause)

    left = fail()
    gc.collect()
    assert left() is None
