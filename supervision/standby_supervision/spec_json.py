"""Specifications as JSON: for a file, a wire, or the history of a running program.

What a child is stands there as the path it is imported by, ``module:name``.  What no
import can find again (a lambda, a function made in another one, an instance of
somebody's class) cannot be encoded, and is refused by the id of its child.
"""

from __future__ import annotations

import importlib
import math
from pathlib import PurePath
from types import MethodType
from typing import Any, NoReturn

import attrs
import msgspec

from .backoff import Backoff
from .child import FLAGS, OPTIONS, ChildSpec, SupervisorSpec, check_spec, default_of
from .errors import BadSpec
from .starts import check_known, checked_start

AS_THEY_ARE = (type(None), bool, str)
_FLAGS = [each for each in attrs.fields(SupervisorSpec) if each.name in FLAGS]


def encode_spec(spec: ChildSpec | SupervisorSpec) -> bytes:
    """`spec`, and all below it, as JSON; :func:`decode_spec` gives an equal one.

    Options that are as by default are left out.  Arguments may be None, bools,
    numbers, texts, bytes, paths, importable classes and functions, what msgspec can
    make of builtins and back (its Structs, dataclasses, attrs classes, enums,
    dates), and lists, tuples, sets and dicts of those.

    Raises:
        BadSpec: something in it cannot be encoded (``not_encodable``); names the child.
    """
    if isinstance(spec, ChildSpec):
        of, built = spec.id, _child_out(spec)
    else:
        of, built = "supervisor", _supervisor_out("supervisor", spec)
    try:
        return msgspec.json.encode(built)
    except (TypeError, ValueError, OverflowError) as error:  # text that is no Unicode
        raise BadSpec(of, "not_encodable", str(error)) from None


def decode_spec(data: bytes | str) -> ChildSpec | SupervisorSpec:
    """The specification that :func:`encode_spec` has made `data` of, checked as any other.

    It imports what `data` names, and a supervisor will call that: decode only what
    comes from somebody who may run code here.

    Raises:
        BadSpec: it is no JSON of a specification (``invalid_json``), names what cannot
            be imported (``not_importable``), or cannot be meant; nothing is started.
    """
    try:
        built = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadSpec("supervisor", "invalid_json", str(error)) from None
    if isinstance(built, dict) and "start" in built:
        return _child_in(built)
    return _supervisor_in("supervisor", built)


# ---- out


def _child_out(spec: ChildSpec) -> dict[str, Any]:
    check_spec(spec)
    built: dict[str, Any] = {"id": spec.id}
    if isinstance(spec.start, SupervisorSpec):
        built["start"] = _supervisor_out(spec.id, spec.start)
    else:
        built["start"] = _path_of(spec.id, spec.start)
    if spec.args:
        built["args"] = [_value_out(spec.id, each) for each in spec.args]
    for option in OPTIONS:
        value = getattr(spec, option.name)
        if value != default_of(option, spec.start):
            built[option.name] = _value_out(spec.id, value)
    return built


def _supervisor_out(of: str, spec: SupervisorSpec) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for flag in _FLAGS:
        value = getattr(spec, flag.name)
        if isinstance(value, Backoff):
            numbers = attrs.asdict(value)
            built[flag.name] = {key: _value_out(of, each) for key, each in numbers.items()}
        elif value != flag.default:
            built[flag.name] = _value_out(of, value)
    if spec.children:
        built["children"] = [_child_out(each) for each in spec.children]
    return built


def _path_of(of: str, thing: Any) -> str:
    """The path that `thing` is imported by."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        path = f"{module}:{name}"
        found = _find(path)
        # Methods of a class are bound anew each time that they are looked up.
        if found is thing or (isinstance(thing, MethodType) and found == thing):
            return path
    return _refuse(of, thing, "no import finds it again: define it at the top of a module")


def _value_out(of: str, value: Any) -> Any:
    kind = type(value)
    if kind in AS_THEY_ARE:
        return value
    if kind is int:
        return value if -(2**63) <= value < 2**63 else {"$": "int", "is": str(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$": "float", "is": str(value)}
    if kind is list:
        return [_value_out(of, each) for each in value]
    if kind in (tuple, set, frozenset):
        inner = [_value_out(of, each) for each in value]
        # A set has no order; the same one is to be the same text.
        ordered = inner if kind is tuple else sorted(inner, key=msgspec.json.encode)
        return {"$": kind.__name__, "is": ordered}
    if kind is dict:
        if "$" not in value and all(type(key) is str for key in value):
            return {key: _value_out(of, each) for key, each in value.items()}
        pairs = [[_value_out(of, key), _value_out(of, each)] for key, each in value.items()]
        return {"$": "dict", "is": pairs}
    if kind is bytes:
        return {"$": "bytes", "is": value.hex()}
    if isinstance(value, PurePath):
        return {"$": "path", "of": _path_of(of, kind), "is": str(value)}
    if isinstance(value, type) or callable(value):
        return {"$": "import", "is": _path_of(of, value)}
    path = _path_of(of, kind)
    try:
        built = msgspec.to_builtins(value)
        if msgspec.convert(built, kind) == value:
            return {"$": "made", "of": path, "is": _value_out(of, built)}
    except (TypeError, ValueError, RecursionError, msgspec.ValidationError):
        pass
    return _refuse(of, value, f"a {kind.__name__} cannot be taken apart and put together again")


def _refuse(of: str, what: Any, why: str) -> NoReturn:
    # Not its repr: arguments may be long, or secret.
    name = getattr(what, "__qualname__", None) or f"an instance of {type(what).__qualname__}"
    raise BadSpec(of, "not_encodable", f"{name} cannot be encoded: {why}")


# ---- in


def _child_in(built: dict[str, Any]) -> ChildSpec:
    of = built.get("id")
    if not isinstance(of, str):
        raise BadSpec(repr(of)[:80], "missing_id", "an id is a text of at least one character")
    known = {"id", "start", "args", *(each.name for each in OPTIONS)}
    check_known(of, built.keys() - known, known, "child")
    start = built["start"]
    made: Any = _supervisor_in(of, start) if isinstance(start, dict) else _import(of, start)
    if not isinstance(made, SupervisorSpec):
        checked_start(of, made)  # its defaults are asked for next
    args = built.get("args", [])
    if not isinstance(args, list):
        raise BadSpec(of, "invalid_args", "args is a list")
    options = {
        each.name: _value_in(of, built[each.name]) if each.name in built else default_of(each, made)
        for each in OPTIONS
    }
    spec = ChildSpec(id=of, start=made, args=tuple(_value_in(of, each) for each in args), **options)
    check_spec(spec)
    return spec


def _supervisor_in(of: str, built: Any) -> SupervisorSpec:
    if not isinstance(built, dict):
        raise BadSpec(of, "invalid_json", "a specification is an object with a start, or children")
    check_known(of, built.keys() - {*FLAGS, "children"}, (*FLAGS, "children"), "supervisor")
    flags = {key: _value_in(of, each) for key, each in built.items() if key != "children"}
    if isinstance(flags.get("backoff"), dict):
        try:
            flags["backoff"] = Backoff(**flags["backoff"])
        except TypeError as error:
            raise BadSpec(of, "invalid_backoff", str(error)) from None
    children = built.get("children", [])
    if not isinstance(children, list):
        raise BadSpec(of, "bad_start_spec", "children is a list")
    made: list[ChildSpec] = []
    for each in children:
        if not isinstance(each, dict) or "start" not in each:
            raise BadSpec(of, "missing_start", "each child is an object with id and start")
        made.append(_child_in(each))
    return SupervisorSpec(children=tuple(made), **flags)


def _value_in(of: str, built: Any) -> Any:
    if isinstance(built, list):
        return [_value_in(of, each) for each in built]
    if not isinstance(built, dict):
        return built
    if "$" not in built:
        return {key: _value_in(of, each) for key, each in built.items()}
    inner = built.get("is")
    try:
        match built["$"]:
            case "int":
                return int(inner)  # type: ignore[arg-type]  # whatever it is, it is tried
            case "float":
                return float(inner)  # type: ignore[arg-type]  # as above
            case "tuple":
                return tuple(_value_in(of, inner))
            case "set":
                return set(_value_in(of, inner))
            case "frozenset":
                return frozenset(_value_in(of, inner))
            case "dict":
                return {_value_in(of, key): _value_in(of, each) for key, each in inner}  # type: ignore[union-attr]  # as above
            case "bytes":
                return bytes.fromhex(inner)  # type: ignore[arg-type]  # as above
            case "import":
                return _import(of, inner)
            case "path":
                return _import(of, built.get("of"))(inner)
            case "made":
                return msgspec.convert(_value_in(of, inner), _import(of, built.get("of")))
            case _:
                raise ValueError(f"{built['$']!r} is no kind of value")
    except (TypeError, ValueError, msgspec.ValidationError) as error:
        if isinstance(error, BadSpec):
            raise
        raise BadSpec(of, "invalid_json", str(error)) from None


def _import(of: str, path: Any) -> Any:
    if not isinstance(path, str) or path.count(":") != 1:
        raise BadSpec(of, "not_importable", f"{path!r} is not of the form 'module:name'")
    found = _find(path)
    if found is None:
        raise BadSpec(of, "not_importable", f"there is no {path}")
    return found


def _find(path: str) -> Any:
    """What stands at `path`; None if nothing does."""
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found
