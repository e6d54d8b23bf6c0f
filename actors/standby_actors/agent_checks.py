"""What the fields of an agent may hold, and how they are brought into one shape."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .sendable import is_sendable

_NAME_LIMIT = 100
# Ids are made of names ("scout#2"), and files of ids.
_NOT_IN_NAMES = frozenset("#/\\:")

Check = Callable[[object, Any, Any], None]


def check_name(_agent: object, _attribute: object, name: Any) -> None:
    """A name can stand in an id and in the name of a file."""
    if not isinstance(name, str):
        raise TypeError(f"an agent's name is a str, not {type(name).__name__}")
    if not name or name != name.strip() or not name.isprintable() or name in (".", ".."):
        raise ValueError(
            f"an agent's name is printable text without outer space, not {name[:40]!r}"
        )
    if len(name) > _NAME_LIMIT:
        raise ValueError(f"an agent's name has at most {_NAME_LIMIT} characters, not {len(name)}")
    if bad := _NOT_IN_NAMES.intersection(name):
        raise ValueError(f"an agent's name may not hold {sorted(bad)[0]!r}: {name!r}")


def check_mind(_agent: object, _attribute: object, mind: Any) -> None:
    """A mind is a prompt or a function."""
    if not isinstance(mind, str) and not callable(mind):
        raise TypeError(f"an agent has a prompt or a function, not {type(mind).__name__}")
    if isinstance(mind, str) and not is_sendable(mind):
        raise ValueError("an agent's prompt holds half a surrogate pair, which cannot be sent")


def is_number(value: Any) -> bool:
    """`value` is a number; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """`value` is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_positive(_agent: object, attribute: Any, number: Any) -> None:
    """More than 0, or None."""
    if number is None:
        return
    if not is_number(number):
        raise TypeError(f"{attribute.name} is a number, not {type(number).__name__}")
    if not number > 0:
        raise ValueError(f"{attribute.name} is more than 0, not {number!r}")


def check_count(_agent: object, attribute: Any, count: Any) -> None:
    """A whole number of at least 1, or None."""
    if count is None:
        return
    if not is_count(count):
        raise TypeError(f"{attribute.name} is a whole number, not {type(count).__name__}")
    if count < 1:
        raise ValueError(f"{attribute.name} is at least 1, not {count!r}")


def check_task(task: Any) -> None:
    """A task, or whatever else is asked of a mind, is a text."""
    if not isinstance(task, str):
        raise TypeError(f"a task is a str, not {type(task).__name__}")


def check_timeout(seconds: float | None) -> None:
    """A turn that has a timeout may take some time."""
    if seconds is not None and not seconds > 0:
        raise ValueError(f"timeout must be more than 0 seconds, not {seconds!r}")


def check_share(_agent: object, attribute: Any, share: Any) -> None:
    """More than 0 and at most 1."""
    if not is_number(share):
        raise TypeError(f"{attribute.name} is a number, not {type(share).__name__}")
    if not 0 < share <= 1:
        raise ValueError(f"{attribute.name} is more than 0 and at most 1, not {share!r}")


def one_of(*words: str, what: str) -> Check:
    """Checks for one of `words`, or None; a wrong one is told the nearest."""

    def check(_agent: object, _attribute: object, word: Any) -> None:
        if word is None or (isinstance(word, str) and word in words):
            return
        near = nearest(word, words) if isinstance(word, str) else None
        hint = f"; did you mean {near!r}?" if near else ""
        raise ValueError(f"{what} is one of {', '.join(words)}, not {word!r}{hint}")

    return check


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one of `known` that `name` may have been meant for, its letters' case apart.

    Examples:
        >>> nearest("Scuot", ["coder", "scout"])
        'scout'
        >>> nearest("zebra", ["coder", "scout"])
    """
    # What is compared grows with the square of a name's length, and both may be a model's.
    folded = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name[:_NAME_LIMIT].casefold(), folded, 1, cutoff)
    return folded[close[0]] if close else None


def as_words(value: Any, what: str) -> tuple[str, ...]:
    """A list of names as a tuple, each once, in its order."""
    words = as_tuple(value, what)
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise TypeError(f"{what} holds names, not {word!r}")
    return tuple(dict.fromkeys(words))


def as_tools(value: Any, what: str) -> tuple[Any, ...] | None:
    """A list of tools as a tuple, each once; None stays None."""
    if value is None:
        return None
    tools = as_tuple(value, what)
    for each in tools:
        named = isinstance(each, str) or isinstance(getattr(each, "name", None), str)
        if isinstance(each, str) and not each.strip():
            raise ValueError(f"{what} holds a blank name")
        if isinstance(each, type) or not (named or callable(each)):
            raise TypeError(f"a tool is a name, a function or a Tool, not {each!r}")
    # By identity, because a tool need not have a hash.
    kept: list[Any] = []
    for each in tools:
        if not any(each is other or (isinstance(each, str) and each == other) for other in kept):
            kept.append(each)
    return tuple(kept)


def as_command(value: Any, what: str) -> tuple[str, ...] | None:
    """A program and its arguments as a tuple; None stays None."""
    if value is None:
        return None
    command = as_tuple(value, what)
    if not command or not all(isinstance(word, str) for word in command) or not command[0]:
        raise ValueError(f"{what} is a program and its arguments, not {value!r}")
    return command


def as_functions(value: Any, what: str) -> tuple[Any, ...]:
    """One function or several, as a tuple."""
    functions = (value,) if callable(value) else as_tuple(value, what)
    for function in functions:
        if not callable(function):
            raise TypeError(f"{what} holds functions, not {function!r}")
    return functions


def as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    """A list of things as a tuple.

    Raises:
        TypeError: it is no list.  One text is none either: it would be taken
            for a list of its letters.
    """
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a list, not {value!r}: write [{value!r}] for one alone")
    return tuple(value)
