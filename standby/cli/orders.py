"""What a person can tell a team while it works: from a typed line to an order; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from standby_actors.agent_checks import nearest

from .text import one_line

COMMANDS = {
    "/stop": "/stop scout#2     end one for good; without a name: all of them",
    "/cut": "/cut scout#2      cut the turn in progress of one; it may have later ones",
    "/steer": "/steer scout#2 …  put a word into the turn in progress",
    "/help": "/help             this",
}


@frozen
class StopAll:
    """End everybody, those to come included."""


@frozen
class Stop:
    """End one for good."""

    id: str


@frozen
class Cut:
    """Cut the turn of one."""

    id: str


@frozen
class Steer:
    """Put a word into the turn of one."""

    id: str
    words: str


@frozen
class Help:
    """Say what can be said."""


@frozen
class NotUnderstood:
    """What is no order, and what would have been."""

    why: str


Order: TypeAlias = StopAll | Stop | Cut | Steer | Help | NotUnderstood


def order_of(line: str, ids: Sequence[str]) -> Order:
    """What `line` orders, where these subagents can be spoken of.

    A subagent may be called by its agent's name alone, where there is one of that name.

    Examples:
        >>> order_of("/stop scout#2", ["scout#1", "scout#2"])
        Stop(id='scout#2')
        >>> order_of("/steer planner be brief", ["scout#1", "planner#1"])
        Steer(id='planner#1', words='be brief')
        >>> order_of("/stpo", []).why
        "there is no '/stpo'; do you mean /stop?"
    """
    command, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    folded = command.casefold()
    if folded in ("/help", "/?", "?"):
        return Help()
    if folded == "/stop":
        return _of_one(rest, ids, "stop", Stop) if rest and rest != "all" else StopAll()
    if folded == "/cut":
        if not rest and len(ids) == 1:
            return Cut(ids[0])
        return _of_one(rest, ids, "cut", Cut)
    if folded == "/steer":
        return _steer(rest, ids)
    shown = one_line(command)
    if not command.startswith("/"):
        near = nearest(f"/{command}", COMMANDS)
        meant = f"; do you mean {near}?" if near else ""
        return NotUnderstood(f"orders begin with a slash, as in /help{meant}")
    near = nearest(command, COMMANDS)
    meant = f"do you mean {near}?" if near else f"there are {', '.join(COMMANDS)}"
    return NotUnderstood(f"there is no {shown!r}; {meant}")


def _steer(rest: str, ids: Sequence[str]) -> Order:
    who, _, words = rest.partition(" ")
    found = _named(who, ids)
    if found is None and len(ids) == 1 and rest and "#" not in who:
        # There is nobody else who could be meant.
        found, words = ids[0], rest
    if found is None:
        return _nobody(who, ids, "steer")
    if not words.strip():
        return NotUnderstood(f"what is it to be told? /steer {found} words")
    return Steer(found, words.strip())


def _of_one(who: str, ids: Sequence[str], verb: str, make: type[Stop] | type[Cut]) -> Order:
    found = _named(who, ids)
    return make(found) if found is not None else _nobody(who, ids, verb)


def _named(who: str, ids: Sequence[str]) -> str | None:
    if who in ids:
        return who
    same = [each for each in ids if each.rpartition("#")[0].casefold() == who.casefold()]
    if len(same) == 1:
        return same[0]
    return next((each for each in ids if each.casefold() == who.casefold()), None)


def _nobody(who: str, ids: Sequence[str], verb: str) -> NotUnderstood:
    there = ", ".join(ids[:8]) + (", …" if len(ids) > 8 else "")
    if not ids:
        return NotUnderstood(f"there is nobody to {verb} now")
    if not who:
        return NotUnderstood(f"{verb} whom? there are {there}")
    near = nearest(who, ids)
    meant = f"do you mean {near}? " if near else ""
    return NotUnderstood(f"there is no {one_line(who)!r} now; {meant}there are {there}")
