"""The fields of a definition: what each may hold, and what it means here."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from ..agent import BACKENDS, EFFORTS, LIFETIMES, PERMISSION_MODES, McpServer
from ..agent_checks import check_name, nearest
from .frontmatter import Entry, Value
from .problems import Severity, quoted
from .vocabulary import EFFORT_WORDS, listed, model_of, snake, tool_of


class Wrong(Exception):
    """Why a value cannot stand where it stands; within this package only."""

    def __init__(
        self, message: str, advice: str, nearest: str | None = None, value: Value | None = None
    ) -> None:
        super().__init__(message, advice, nearest, value)
        self.message = message
        self.advice = advice
        self.nearest = nearest
        self.value = value
        """The part of the value that is wrong; None for all of it."""
        self.more: tuple[Wrong, ...] = ()
        """What else is wrong with the same value."""


def _raise_all(wrongs: list[Wrong]) -> None:
    if wrongs:
        wrongs[0].more = tuple(wrongs[1:])
        raise wrongs[0]


Read = Callable[[Value, Mapping[str, str]], Any]
"""From a value, and the environment, to what an agent holds; raises `Wrong`."""


def text(value: Value, _env: Mapping[str, str]) -> str:
    if value.kind != "text":
        raise Wrong(f"wants a text, not {value.shown}", "write it on one line")
    return value.text


def name(value: Value, env: Mapping[str, str]) -> str:
    said = text(value, env)
    try:
        check_name(None, None, said)
    except ValueError as error:
        raise Wrong(
            f"cannot be {quoted(said)}: {error}", "use lower-case letters and hyphens"
        ) from None
    return said


def model(value: Value, env: Mapping[str, str]) -> str | None:
    return model_of(text(value, env), env)


def models(value: Value, env: Mapping[str, str]) -> tuple[str, ...]:
    found = (model_of(each, env) for each in names(value, env))
    return tuple(each for each in found if each)


def names(value: Value, _env: Mapping[str, str]) -> tuple[str, ...]:
    if value.kind == "text":
        return tuple(dict.fromkeys(listed(value.text)))
    if value.kind != "list":
        raise Wrong(f"wants a list of names, not {value.shown}", "write it as in `read, grep`")
    _raise_all(
        [
            Wrong(
                f"holds names, not {item.shown}",
                "a name with special letters needs quotes",
                value=item,
            )
            for item in value.items
            if item.kind != "text"
        ]
    )
    return tuple(dict.fromkeys(each for item in value.items for each in listed(item.text)))


def command(value: Value, env: Mapping[str, str]) -> tuple[str, ...]:
    """A program and its arguments: a list, or a line as a shell would part it."""
    if value.kind == "list":
        words = [text(each, env) for each in value.items]
    else:
        try:
            words = shlex.split(text(value, env))
        except ValueError as error:
            raise Wrong(f"cannot be parted into words: {error}", "write it as a list") from None
    if not words or not words[0]:
        raise Wrong("names no program", "write it as in `pi --mode rpc`")
    return tuple(words)


def tools(value: Value, env: Mapping[str, str]) -> tuple[str, ...]:
    said = names(value, env)
    if not said and value.kind == "text":
        raise Wrong(
            "is empty, which can mean all tools or none",
            "write [] for none at all, or leave the line out for those that read",
        )
    return tuple(dict.fromkeys(tool_of(each) for each in said))


def flag(value: Value, env: Mapping[str, str]) -> bool:
    said = text(value, env).casefold()
    if said in ("true", "yes", "on"):
        return True
    if said in ("false", "no", "off"):
        return False
    raise Wrong(f"is true or false, not {value.shown}", "write true or false")


def number(value: Value, env: Mapping[str, str]) -> float:
    said = text(value, env).replace("_", "")
    try:
        found = float(said)
    except ValueError:
        raise Wrong(f"wants a number, not {value.shown}", "write it in digits") from None
    if not math.isfinite(found):
        raise Wrong(f"wants a number with an end, not {value.shown}", "leave it out for no limit")
    return found


def positive(value: Value, env: Mapping[str, str]) -> float:
    found = number(value, env)
    if found <= 0:
        raise Wrong(f"is more than 0, not {value.text}", "leave it out for no limit")
    return found


def milliseconds(value: Value, env: Mapping[str, str]) -> float:
    return positive(value, env) / 1000


def share(value: Value, env: Mapping[str, str]) -> float:
    found = number(value, env)
    if not 0 < found <= 1:
        raise Wrong(f"is more than 0 and at most 1, not {value.text}", "write 0.8 for 80 %")
    return found


def count(value: Value, env: Mapping[str, str], least: int = 1) -> int:
    found = number(value, env)
    if found != int(found) or found < least:
        raise Wrong(
            f"is a whole number of at least {least}, not {value.text}", "leave it out for no limit"
        )
    return int(found)


def count_from_0(value: Value, env: Mapping[str, str]) -> int:
    return count(value, env, 0)


def word(*known: str, also: Mapping[str, str] | None = None) -> Read:
    """Reads one of `known`, or what `also` calls one of them."""

    def read(value: Value, env: Mapping[str, str]) -> str:
        said = text(value, env)
        found = snake(said)
        found = (also or {}).get(found, found)
        if found not in known:
            raise Wrong(
                f"cannot be {quoted(said)}",
                f"write one of {', '.join(known)}",
                nearest(said, known),
            )
        return found

    return read


def limits(value: Value, env: Mapping[str, str]) -> dict[str, Any]:
    if value.kind != "map":
        raise Wrong(f"is a table of limits, not {value.shown}", "write it as {turns: 20, usd: 1.5}")
    found: dict[str, Any] = {}
    wrongs: list[Wrong] = []
    for entry in value.entries:
        key = snake(entry.key)
        if key not in _LIMITS:
            wrongs.append(
                Wrong(
                    f"there is no limit {quoted(entry.key)}",
                    f"there are {', '.join(_LIMITS)}",
                    nearest(key, _LIMITS),
                    _key(entry),
                )
            )
            continue
        try:
            found[key] = _LIMITS[key](entry.value, env)
        except Wrong as wrong:
            wrongs.append(
                Wrong(f"{entry.key} {wrong.message}", wrong.advice, wrong.nearest, _key(entry))
            )
    _raise_all(wrongs)
    return found


def one_limit(key: str) -> Read:
    """Reads a limit that other tools have for a field of its own."""

    def read(value: Value, env: Mapping[str, str]) -> dict[str, Any]:
        return {key: _LIMITS[key](value, env)}

    return read


_LIMITS: Mapping[str, Read] = {
    "turns": count,
    "tokens": count,
    "usd": positive,
    "seconds": positive,
    "depth": count_from_0,
    "descendants": count_from_0,
}


def servers(value: Value, env: Mapping[str, str]) -> tuple[str | McpServer, ...]:
    if value.kind == "text":
        return names(value, env)
    found: list[str | McpServer] = []
    wrongs: list[Wrong] = []
    for item in value.items if value.kind == "list" else (value,):
        if item.kind == "text":
            found += listed(item.text)
        elif item.kind == "map":
            for entry in item.entries:
                try:
                    found.append(_server(entry, env))
                except Wrong as wrong:
                    wrongs.append(wrong)
        else:
            wrongs.append(
                Wrong(
                    f"holds names of servers, or servers, not {item.shown}",
                    "write a name from .mcp.json, or {name: {command: …}}",
                    value=item,
                )
            )
    _raise_all(wrongs)
    return tuple(found)


def _server(entry: Entry, env: Mapping[str, str]) -> McpServer:
    said: dict[str, Any] = {}
    if entry.value.kind != "map":
        raise Wrong(
            f"the server {quoted(entry.key)} is a table, not {entry.value.shown}",
            "write it as in .mcp.json: {command: …, args: […]} or {url: …}",
            None,
            _key(entry),
        )
    for part in entry.value.entries:
        match part.key:
            case "command" | "cwd" | "url":
                said[part.key] = _part(part, part.value, env)
            case "args":
                # Never parted at commas: an argument may hold one.
                items = part.value.items if part.value.kind == "list" else (part.value,)
                said["args"] = tuple(_part(part, each, env) for each in items)
            case "env" | "headers":
                said[part.key] = {
                    each.key: _part(each, each.value, env) for each in part.value.entries
                }
            case "type" | "transport":
                pass  # a command or a url says which
            case _:
                known = ("command", "args", "env", "cwd", "url", "headers", "type")
                raise Wrong(
                    f"a server has no {quoted(part.key)}",
                    f"it has {', '.join(known)}",
                    nearest(part.key, known),
                    _key(part),
                )
    try:
        return McpServer(entry.key, **said)
    except ValueError as error:
        raise Wrong(str(error), "see .mcp.json", None, _key(entry)) from None


def _part(entry: Entry, value: Value, env: Mapping[str, str]) -> str:
    if value.kind == "text":
        return value.text
    raise Wrong(f"{entry.key} wants a text, not {value.shown}", "write it on one line", None, value)


def _key(entry: Entry) -> Value:
    return Value("text", entry.line, entry.column, entry.key)


@frozen
class Field:
    """A field that a definition may have.

    Args:
        read: makes of its value what the agent holds.
        into: the agent's field, when it is called otherwise.
        effect: why it changes nothing here; empty when it does.
        severity: of that; a `warning` where somebody could rely on it.
    """

    read: Read | None = None
    into: str = ""
    effect: str = ""
    severity: Severity = "note"


_TOOL_S_OWN = "is a setting of pi-subagents and has no effect here"

FIELDS: Mapping[str, Field] = {
    # Ours, and the same in most tools.
    "name": Field(name),
    "description": Field(text),
    "model": Field(model),
    "tools": Field(tools),
    "disallowed_tools": Field(tools),
    "must_call_tool": Field(flag),
    "skills": Field(names),
    "mcp_servers": Field(servers),
    "lifetime": Field(word(*LIFETIMES)),
    "concurrency": Field(count),
    "effort": Field(word(*EFFORTS, also=EFFORT_WORDS)),
    "permission_mode": Field(word(*PERMISSION_MODES)),
    "backend": Field(word(*BACKENDS)),
    "command": Field(command),
    "cwd": Field(text),
    "fallback_models": Field(models),
    "limits": Field(limits),
    "max_requests": Field(count),
    "max_tokens": Field(count),
    "timeout": Field(positive),
    "idle_timeout": Field(positive),
    "temperature": Field(number),
    "context": Field(word("compact", "handover", "fail")),
    "context_threshold": Field(share),
    "remember": Field(word("fresh", "replay", "summary")),
    "handoffs": Field(names),
    "agents": Field(names),
    "color": Field(text),
    "disabled": Field(flag),
    # What others call those.
    "max_turns": Field(count, "max_requests"),
    "max_steps": Field(count, "max_requests"),
    "steps": Field(count, "max_requests"),
    "thinking": Field(word(*EFFORTS, also=EFFORT_WORDS), "effort"),
    "reasoning_effort": Field(word(*EFFORTS, also=EFFORT_WORDS), "effort"),
    "timeout_ms": Field(milliseconds, "timeout"),
    "max_subagent_depth": Field(one_limit("depth"), "limits"),
    "max_budget_usd": Field(one_limit("usd"), "limits"),
    "colour": Field(text, "color"),
    "disable": Field(flag, "disabled"),
    # Known, and without effect.
    "hooks": Field(
        effect="has no effect here: hooks are run by Claude Code. What must be kept from an agent "
        "is kept by tools and disallowedTools",
        severity="warning",
    ),
    "isolation": Field(
        effect="has no effect here: the agent works in the same folder as whoever spawns it, "
        "unless it is given another as cwd",
        severity="warning",
    ),
    "memory": Field(effect="has no effect here: an agent remembers as its lifetime says"),
    "background": Field(effect="has no effect here: whoever spawns an agent decides when to wait"),
    "initial_prompt": Field(effect="has no effect here: whoever spawns an agent says the task"),
    "open_in_herdr": Field(effect="has no effect here: there is no such display"),
    "default_context": Field(effect=_TOOL_S_OWN),
    "default_progress": Field(effect=_TOOL_S_OWN),
    "default_reads": Field(effect=_TOOL_S_OWN),
    "extensions": Field(effect=_TOOL_S_OWN),
    "inherit_project_context": Field(effect=_TOOL_S_OWN),
    "inherit_skills": Field(effect=_TOOL_S_OWN),
    "interactive": Field(effect=_TOOL_S_OWN),
    "output": Field(effect=_TOOL_S_OWN),
    "system_prompt_mode": Field(effect=_TOOL_S_OWN),
}

SHOWN_AS: Mapping[str, str] = {
    "disallowed_tools": "disallowedTools",
    "fallback_models": "fallbackModels",
    "max_turns": "maxTurns",
    "mcp_servers": "mcpServers",
    "must_call_tool": "mustCallTool",
    "permission_mode": "permissionMode",
}
"""How a field is written in the documentation, where not as we call it."""
