"""What a cell of an experiment was played with, as words that are the same in every process."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import attrs
import msgspec

_PLAIN = (str, int, float, bool, type(None), Path)
_DEEP = 12


def settings_of(thing: object, name: str = "member", depth: int = 0) -> dict[str, str]:
    """What there is to say of `thing`, each part under its own name, as in "member.mind".

    An agent, a team and a list are taken apart.  Of a function it is the name and a
    fingerprint of its source; what it closes over is not seen.  Of anything else it is
    the class.

    Examples:
        >>> settings_of(["a", 1])
        {'member.0': "'a'", 'member.1': '1'}
    """
    if isinstance(thing, _PLAIN):
        return {name: repr(str(thing)) if isinstance(thing, Path) else repr(thing)}
    if depth > _DEEP:
        return {name: _named(type(thing))}
    parts: Mapping[str, object]
    if isinstance(thing, (list, tuple)):
        many = cast("list[object]", thing)
        parts = {str(place): part for place, part in enumerate(many)}
    elif isinstance(thing, dict):
        parts = {str(key): part for key, part in cast("dict[Any, object]", thing).items()}
    elif isinstance(thing, (set, frozenset)):
        return {name: repr(sorted(map(repr, cast("set[object]", thing))))}
    elif isinstance(thing, type):
        return {name: _named(thing)}
    elif isinstance(thing, msgspec.Struct):
        parts = {each: getattr(thing, each) for each in thing.__struct_fields__}
    elif attrs.has(type(thing)):
        fields: Any = attrs.fields(cast("Any", type(thing)))
        # What is made, and not given, is no setting.
        parts = {each.name: getattr(thing, each.name) for each in fields if each.init}
    elif callable(thing):
        return {name: _function(thing)}
    else:
        return {name: _named(type(thing))}
    said = {name: _named(type(thing))} if not isinstance(thing, (list, tuple, dict)) else {}
    for part, value in parts.items():
        # What is not set says nothing: a new option does not make an old cell another one.
        if value is not None and value != ():
            said |= settings_of(value, f"{name}.{part.strip('_')}", depth + 1)
    return said


def fingerprint(settings: Mapping[str, str]) -> str:
    """The same for the same settings, in every process."""
    said = msgspec.json.encode(sorted(settings.items()))
    return hashlib.sha256(said).hexdigest()[:16]


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Which settings are not what they were, each with what it was and is."""
    names = sorted({*before, *now})
    return tuple(
        f"{name} was {_short(before.get(name))} and is {_short(now.get(name))}"
        for name in names
        if before.get(name) != now.get(name)
    )


def _short(said: str | None) -> str:
    if said is None:
        return "not set"
    return said if len(said) <= 60 else f"{said[:57]}…"


def _named(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _function(function: Any) -> str:
    inner = inspect.unwrap(getattr(function, "func", function))
    try:
        source = inspect.getsource(inner)
    # Made at a prompt, or not in Python: its code, or its name, has to do.
    except (OSError, TypeError):
        code = getattr(inner, "__code__", None)
        source = "" if code is None else repr((code.co_code, code.co_names))
    name = getattr(inner, "__qualname__", type(inner).__qualname__)
    mark = hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{getattr(inner, '__module__', '')}.{name} {mark}"
