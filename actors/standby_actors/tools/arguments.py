"""The arguments of a call, read from the JSON text that a model wrote."""

from __future__ import annotations

import json
import math
from typing import Any

from .schema import shown

MOST_CHARACTERS = 500_000
"""Of the arguments of one call; no model writes as much in one answer and means it."""


class BadArguments(ValueError):
    """Raised on text that is no JSON object; says what is wrong with it, and where."""


def read_arguments(text: str) -> dict[str, Any]:
    """The object in `text`; an empty one if there is no text.

    Stricter than most readers, because what is not exactly understood must not
    be executed: NaN, a key that comes twice and text behind the object are refused.

    Raises:
        BadArguments: it is no JSON object.

    Examples:
        >>> read_arguments('{"a": [1, 2]}'), read_arguments(" ")
        ({'a': [1, 2]}, {})
        >>> read_arguments('{"a": 1')
        Traceback (most recent call last):
            ...
        standby_actors.tools.arguments.BadArguments: they are no JSON: Expecting ',' delimiter ...
    """
    if len(text) > MOST_CHARACTERS:
        raise BadArguments(
            f"they have {len(text):,} characters, and at most {MOST_CHARACTERS:,} are read;"
            " say it in several calls"
        )
    if not text.strip():
        return {}
    try:
        # json, not msgspec: that takes a key that comes twice.
        value: Any = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
        # A lone half of a surrogate pair is no text: nothing could send it on.
        text.encode()
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadArguments(
            f"they are no JSON: {error.msg} at character {error.pos} of {len(text)}"
        ) from error
    except BadArguments:
        raise
    except RecursionError as error:
        raise BadArguments("they are nested too deeply") from error
    except ValueError as error:
        raise BadArguments(f"they hold what is no text or no number: {error}") from error
    if not isinstance(value, dict):
        raise BadArguments(f"they must be a JSON object, and are {shown(value)}")
    return value


def canonical(arguments: dict[str, Any]) -> str:
    """One text for equal arguments, whatever the order of their keys.

    Examples:
        >>> canonical({"b": 1, "a": "x"})
        '{"a":"x","b":1}'
    """
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in pairs:
        if key in read:
            raise BadArguments(f"the key {shown(key)} comes twice in one object")
        read[key] = value
    return read


def _constant(word: str) -> Any:
    raise BadArguments(f"{word} is no JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BadArguments(f"the number {digits:.40} is too large")
    return number
