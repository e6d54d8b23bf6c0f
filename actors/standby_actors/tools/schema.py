"""Arguments held against a JSON schema: everything that is wrong with them, in sentences."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

MOST_PROBLEMS = 20
"""Problems that are said of one call; more of them would only be more of the same."""

_SHOWN = 60
_NAMED = 20


def problems_of(schema: Mapping[str, Any], value: Any) -> tuple[str, ...]:
    """Everything that is wrong with `value`, a sentence each, by `schema`.

    Regular expressions in the schema are not tried: a bad one would hold up the
    whole program, and whoever runs the tool checks again.

    Examples:
        >>> schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        >>> problems_of(schema, {"n": "many"})
        ("`n` must be an integer, and is 'many'",)
        >>> problems_of(schema, {})
        ('`n` is missing; it must be an integer',)
    """
    from referencing.exceptions import Unresolvable

    said: list[str] = []
    try:
        for error in _validator()(schema, registry=_registry()).iter_errors(value):
            said.extend(each for each in _sentences(error) if each not in said)
            if len(said) > MOST_PROBLEMS:
                return (*said[:MOST_PROBLEMS], "and more like these")
    except RecursionError:
        return ("the arguments are nested too deeply",)
    except Unresolvable:
        # The schema refers to what it does not hold; nobody fetches it.
        return tuple(said)
    return tuple(said)


def fault_of(schema: Any) -> str:
    """What is wrong with `schema` itself, in words; empty if it can be used."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator

    if not isinstance(schema, dict):
        return "it is no object"
    if schema.get("type", "object") != "object":
        return "it does not describe an object"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_path(error.absolute_path) or 'it'}: {error.message:.200}"
    except RecursionError:
        return "it is nested too deeply"
    return ""


@functools.cache
def _validator() -> Any:
    # Imported when a call has to be checked: it takes longer than `import standby`.
    from jsonschema import validators

    extend: Any = validators.extend

    def untried(*_: object) -> Iterator[Any]:
        yield from ()

    return extend(
        validators.Draft202012Validator, {"pattern": untried, "patternProperties": untried}
    )


@functools.cache
def _registry() -> Any:
    from referencing import Registry

    # The default one of jsonschema would fetch addresses that a schema names.
    return Registry()


def _sentences(error: Any) -> Iterator[str]:
    path = _path(error.absolute_path)
    name = f"`{path}`" if path else "the whole"
    match error.validator:
        case "required":
            parts: Mapping[str, Any] = error.schema.get("properties", {})
            for missing in error.validator_value:
                if missing not in error.instance:
                    expected = (
                        f"; it must be {_expected(parts[missing])}" if missing in parts else ""
                    )
                    yield f"`{_joined(path, missing)}` is missing{expected}"
        case "additionalProperties":
            known = [*error.schema.get("properties", {})]
            for extra in error.instance:
                if extra not in known:
                    yield f"`{_joined(path, extra)}` is not a parameter; {_known(extra, known)}"
        case "anyOf" | "oneOf" | "type" | "enum" | "const":
            yield f"{name} must be {_expected(error.schema)}, and is {shown(error.instance)}"
        case keyword:
            bound = shown(error.validator_value)
            yield f"{name} does not keep to {keyword} {bound}: it is {shown(error.instance)}"


def _known(extra: str, known: Sequence[str]) -> str:
    if not known:
        return "there are none"
    near = get_close_matches(extra[:100], known, 1)
    return f"do you mean {near[0]}?" if near else f"there are {listed(known)}"


def listed(names: Iterable[str], most: int = _NAMED) -> str:
    """`names` in a row; of very many the first.

    Examples:
        >>> listed(["a", "b", "c"], 2)
        'a, b and 1 more'
    """
    names = list(names)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def shown(value: Any) -> str:
    """`value`, or its beginning, in a sentence.

    Examples:
        >>> shown("text"), shown({"a": None}), shown([1] * 100)
        ("'text'", '{"a":null}', '[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1…')
    """
    if isinstance(value, str):
        return f"{value!r}" if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}…"
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError):
        text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_ARTICLES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _expected(schema: Any) -> str:
    """What a schema asks for, in a few words."""
    if not isinstance(schema, dict):
        return "something else"
    if "enum" in schema:
        return f"one of {listed([shown(each) for each in schema['enum']])}"
    if "const" in schema:
        return shown(schema["const"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(_expected(each) for each in schema[choice]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(_ARTICLES.get(each, str(each)) for each in kind)
    if kind == "array" and isinstance(schema.get("items"), dict) and "type" in schema["items"]:
        return f"a list of {schema['items']['type']}s"
    if isinstance(kind, str):
        return _ARTICLES.get(kind, kind)
    return "an object" if "$ref" in schema else "something else"


def _joined(path: str, name: str) -> str:
    name = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    return f"{path}.{name}" if path else name


def _path(parts: Iterable[Any]) -> str:
    """Where in the arguments, as in ``a.b[2]``."""
    path = ""
    for part in parts:
        path = f"{path}[{part}]" if isinstance(part, int) else _joined(path, str(part))
    return path
