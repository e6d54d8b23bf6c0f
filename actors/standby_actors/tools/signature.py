"""The signature of a function as a JSON schema, and arguments read by it."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, get_args, get_origin

import msgspec
from attrs import frozen

from .schema import problems_of

_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?|Attributes|See Also):\s*$"
)
_ITEM = re.compile(r"^\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


@frozen
class Docs:
    """What a docstring says to a mind."""

    summary: str
    """All before its first section."""
    arguments: Mapping[str, str]
    """What its section ``Args:`` says of each."""


def docs_of(function: Callable[..., Any]) -> Docs:
    """The docstring of `function`, taken apart."""
    while isinstance(function, partial):
        function = function.func
    summary: list[str] = []
    arguments: dict[str, list[str]] = {}
    section = name = ""
    indent = 0
    for line in (inspect.getdoc(function) or "").splitlines():
        bare = line.strip()
        if found := _SECTION.match(line):
            section, name, indent = found[1], "", 0
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments", "Parameters") and bare:
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            item = _ITEM.match(bare) if depth <= indent else None
            if item:
                name = item[1]
                arguments[name] = [item[2]] if item[2] else []
            elif name:
                arguments[name].append(bare)
    return Docs(
        "\n".join(summary).strip(),
        {name: " ".join(words) for name, words in arguments.items() if words},
    )


@frozen
class Signature:
    """What a function takes, as a schema and as a type that reads it."""

    parameters: dict[str, Any]
    """JSON schema of the arguments."""
    context: str | None
    """Name of the parameter that is given the context of the call."""
    _kind: Any
    _positional: tuple[str, ...]

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        name: str,
        descriptions: Mapping[str, str],
        context_type: type,
    ) -> Signature:
        """Read the signature of `function`.

        Raises:
            TypeError: see :func:`~standby_actors.tools.tool.tool`.
        """
        fields: list[Any] = []
        context: str | None = None
        positional: list[str] = []
        hints = _hints(function, name)
        for parameter in inspect.signature(function).parameters.values():
            kind: Any = hints.get(parameter.name, parameter.annotation)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TypeError(
                    f"tool {name!r} takes {parameter}: a mind cannot be told what to put there;"
                    " name its parameters"
                )
            if kind is parameter.empty:
                raise TypeError(
                    f"parameter {parameter.name!r} of tool {name!r} has no type:"
                    " its schema is made of the types"
                )
            if kind is context_type:
                context = parameter.name
            else:
                kind = _described(kind, descriptions.get(parameter.name))
                fields.append((parameter.name, kind, *_default(parameter)))
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(parameter.name)
        try:
            struct = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
            schema = _schema(struct)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"the parameters of tool {name!r} have no JSON schema: {error}"
            ) from error
        return cls(schema, context, struct, tuple(positional))

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments that were given, as the function's types.

        Raises:
            msgspec.ValidationError: some are not what the schema says.
        """
        read = msgspec.convert(arguments, self._kind)
        # Only what was given: the function's own defaults stand for the rest.
        return {name: getattr(read, name) for name in arguments}

    def problems(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """Everything that is wrong with `arguments`, a sentence each."""
        try:
            msgspec.convert(arguments, self._kind)
        except msgspec.ValidationError as error:
            # msgspec stops at the first; a mind that is told all of them needs
            # one more attempt and not several.
            return problems_of(self.parameters, arguments) or (str(error),)
        return ()

    def bound(self, function: Callable[..., Any], given: dict[str, Any]) -> partial[Any]:
        """`function` with its arguments, ready to be called."""
        # A gap before a positional-only one that was given cannot be: Python
        # wants their defaults in order, and ours are looked up there.
        values: list[Any] = []
        defaults = inspect.signature(function).parameters
        for name in self._positional:
            values.append(given.pop(name, defaults[name].default))
        return partial(function, *values, **given)


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    target: Any = function
    while isinstance(target, partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"a type of tool {name!r} is not known where the function is defined: {error};"
            " types of a tool belong to the module, not to a function in it"
        ) from error


def _described(kind: Any, description: str | None) -> Any:
    """`kind` with plain words in ``Annotated`` made known to msgspec."""
    metadata: list[Any] = []
    if get_origin(kind) is Annotated:
        kind, *metadata = get_args(kind)
    described = any(isinstance(each, msgspec.Meta) and each.description for each in metadata)
    words = [each for each in metadata if isinstance(each, str)]
    said = words[0] if words else description
    rest = [each for each in metadata if isinstance(each, msgspec.Meta)]
    if said and not described:
        rest.append(msgspec.Meta(description=said))
    return Annotated[(kind, *rest)] if rest else kind


def _default(parameter: inspect.Parameter) -> tuple[Any, ...]:
    """The default of a parameter as the third part of a field, if it has one."""
    if parameter.default is parameter.empty:
        return ()
    try:
        msgspec.json.encode(parameter.default)
    except (TypeError, ValueError, RecursionError):
        # Only that there is one can be told.
        return (msgspec.field(default_factory=lambda: None),)
    if isinstance(parameter.default, (list, dict, set, bytearray)) and parameter.default:
        return (msgspec.field(default_factory=lambda: parameter.default),)
    return (parameter.default,)


def _schema(struct: Any) -> dict[str, Any]:
    """The schema of `struct`, an object at its root."""
    [root], parts = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    schema: dict[str, Any] = parts.pop(root["$ref"].rpartition("/")[2])
    del schema["title"]
    if parts:
        schema["$defs"] = parts
    return schema
