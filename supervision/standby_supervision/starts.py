"""What a child may be, and be made with: looked at before anything starts."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Coroutine, Iterable
from typing import Any

from standby_actors import Actor
from standby_actors.kind import FunctionActor, kind_of

from .errors import BadSpec


def checked_start(of: str, start: object) -> str:
    """The name of what the child `of` is to be.

    Raises:
        BadSpec: it is neither an actor class nor a function of one message.
    """
    if start is None:
        raise BadSpec(of, "missing_start", "start is missing: give an actor class")
    try:
        return _name_of(start)
    # Nothing that could be one, nothing that has a hash, or a class whose own options
    # are out of their range.
    except (TypeError, ValueError) as error:
        raise BadSpec(of, "invalid_start", str(error)) from None


# Once for each: a tree may have a hundred thousand children of one class.
@functools.lru_cache(maxsize=1024)
def _name_of(start: Any) -> str:
    """The name of `start`, which takes its messages as it should; else raises what is wrong."""
    if isinstance(start, Coroutine):
        start.close()  # it will never be awaited
        called = getattr(start, "__qualname__", "it")
        raise TypeError(
            f"{called}(…) has been called already: give {called} itself, to call in each life"
        )
    if not callable(start) and hasattr(start, "receive") and not hasattr(start, "actor_kind"):
        name = type(start).__name__
        raise TypeError(
            f"{name}(…) is made already: give the class {name}, and its arguments after it"
        )
    kind = kind_of(start)
    made = start
    while isinstance(made, functools.partial):
        made = made.func
    if inspect.isabstract(made):
        abstract: frozenset[str] = getattr(made, "__abstractmethods__", frozenset())
        missing = ", ".join(sorted(abstract))
        raise TypeError(f"{kind.name} is abstract: it does not define {missing}")
    is_function = _is_function(kind.make)
    takes = made if is_function else kind.receive
    if takes is Actor.receive:
        raise TypeError(f"{kind.name} does not define receive(self, message)")
    if inspect.isgeneratorfunction(takes) or inspect.isasyncgenfunction(takes):
        raise TypeError(
            f"{kind.name} is a generator, which nobody would run: return what it is to answer"
        )
    if is_function and _misfit(start, 1, are_all=True):
        raise TypeError(f"{kind.name}{_signature_of(start)} is not a function of one message")
    return kind.name


def check_arguments(of: str, start: Any, args: object, *, are_all: bool) -> None:
    """Check that `start` can be called with `args`, as far as its signature says so.

    Args:
        of: id of the child.
        start: what has been checked already.
        args: of the specification.
        are_all: whether no further ones will follow, as they do for a template.

    Raises:
        BadSpec: it cannot; names the child and the signature.
    """
    if not isinstance(args, tuple):
        raise BadSpec(of, "invalid_args", f"args is a tuple, not {type(args).__name__}")
    fault = _fault_of(start, len(args), are_all)
    if fault:
        raise BadSpec(of, "invalid_args", fault)


# What is bound matters not, only how much of it.
@functools.lru_cache(maxsize=1024)
def _fault_of(start: Any, count: int, are_all: bool) -> str:
    """Why `start` cannot be made with `count` arguments; empty if it can, as far as it tells."""
    kind = kind_of(start)
    given = "1 argument" if count == 1 else f"{count} arguments"
    if _is_function(kind.make):
        if not count:
            return ""
        return (
            f"{kind.name} is a function of one message and is made with nothing, but was given "
            f"{given}: bind them with functools.partial"
        )
    misfit = _misfit(kind.make, count, are_all=are_all)
    if not misfit:
        return ""
    made = kind.make.func if isinstance(kind.make, functools.partial) else kind.make
    # Annotations that are text come in quotes.
    takes = str(_signature_of(made)).replace("'", "")
    return f"{kind.name}{takes} cannot be made with {given}: {misfit}"


def check_known(of: str, given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse what is none of the `known` options of `what`; says which is nearest."""
    names = list(known)
    for key in given:
        near = difflib.get_close_matches(str(key), names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
        raise BadSpec(of, "unknown_key", f"{key} is no option of a {what}; {hint}")


def _is_function(make: Any) -> bool:
    return isinstance(make, functools.partial) and make.func is FunctionActor


def _signature_of(start: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(start)
    except (TypeError, ValueError):  # one in C, that does not tell
        return None


def _misfit(start: Any, count: int, *, are_all: bool) -> str:
    """Why `start` does not take `count` arguments; empty where it does, or does not tell."""
    keywords: dict[str, Any] = {}
    if isinstance(start, functools.partial):
        # Its own signature is silent where what it binds already does not fit.
        count, keywords, start = count + len(start.args), start.keywords, start.func
    signature = _signature_of(start)
    if signature is None:
        return ""
    try:
        (signature.bind if are_all else signature.bind_partial)(*[None] * count, **keywords)
    except TypeError as error:
        return str(error)
    return ""
