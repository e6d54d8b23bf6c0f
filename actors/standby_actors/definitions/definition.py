"""From a Markdown file to an agent, or to everything that keeps it from being one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field, frozen

from ..agent import Agent, AgentSource, Limits
from ..agent_checks import nearest
from .fields import FIELDS, SHOWN_AS, Field, Wrong
from .files import read_text
from .frontmatter import Entry, split
from .problems import Problem, Severity, quoted
from .vocabulary import snake

REQUIRED = ("name", "description")

IN_CODE = Path("<code>")
"""Where an agent is that was read from no file."""

SLIP = 0.8
"""How alike a field must be to a known one to be taken for a slip of the pen, from 0 to 1."""


@frozen
class Definition:
    """What a file defines."""

    path: Path
    name: str
    """What it calls its agent; what the file is called, where it does not say."""
    agent: Agent | None
    problems: tuple[Problem, ...]

    @property
    def is_broken(self) -> bool:
        """It was meant to be an agent and is none."""
        return any(problem.severity == "error" for problem in self.problems)


def read_definition(
    path: Path, source: AgentSource | None = None, env: Mapping[str, str] | None = None
) -> Definition:
    """Read an agent from a Markdown file with YAML frontmatter.

    Raises nothing for what is in the file, or for there being none: whatever is
    wrong is in `problems`, all of it at once.  Either there is an agent, or
    there is a problem that says why not.

    Args:
        path: where the file is.
        source: what kind of place that is.
        env: where the models that Claude Code's names stand for are looked up;
            None for the process's own.
    """
    text, problems = read_text(path)
    if text is None:
        return Definition(path, path.stem, None, _about(problems, path.stem))
    return parse_definition(text, path, source, env)


def parse_definition(
    text: str,
    path: Path,
    source: AgentSource | None = None,
    env: Mapping[str, str] | None = None,
) -> Definition:
    """As :func:`read_definition`, of a text that has been read already."""
    head, problems = split(text, path)
    if head is None:
        return Definition(path, path.stem, None, _about(problems, path.stem))
    reading = _Reading(path, os.environ if env is None else env, list(problems))
    for entry in head.entries:
        reading.take(entry)
    if not head.body:
        reading.warn(
            "no-prompt",
            "nothing stands below its frontmatter, so that its prompt is empty",
            "say there what the agent is to do, and how",
        )
    agent = reading.agent(head.body, source)
    name = agent.name if agent is not None else str(reading.said.get("name") or path.stem)
    return Definition(path, name, agent, _about(tuple(reading.problems), name))


def problem_of(
    agent: Agent,
    into: str,
    code: str,
    message: str,
    advice: str,
    *,
    near: str | None = None,
    severity: Severity = "error",
) -> Problem:
    """A problem with what `agent` asks for in its field `into`, at the line that says so."""
    line = column = None
    if agent.path is not None:
        # Read again, so that no agent has to remember the lines of its file.
        text, _ = read_text(agent.path)
        head = None if text is None else split(text, agent.path)[0]
        for entry in () if head is None else head.entries:
            known = FIELDS.get(snake(entry.key))
            if known is not None and (known.into or snake(entry.key)) == into:
                line, column = entry.line, entry.column
                break
    return Problem(
        path=agent.path or IN_CODE,
        code=code,
        message=message,
        severity=severity,
        line=line,
        column=column,
        nearest=near,
        advice=advice,
        about=agent.name,
    )


def _about(problems: tuple[Problem, ...], name: str) -> tuple[Problem, ...]:
    ordered = sorted(problems, key=lambda each: (each.line or 0, each.column or 0))
    return tuple(msgspec.structs.replace(each, about=name) for each in ordered)


@define
class _Reading:
    """A file, as far as it has been read."""

    path: Path
    env: Mapping[str, str]
    problems: list[Problem]
    said: dict[str, Any] = field(factory=dict[str, Any])
    """What the agent is to hold, by its own fields."""
    where: dict[str, Entry] = field(factory=dict[str, Entry])
    """What said it first."""
    empty: dict[str, Entry] = field(factory=dict[str, Entry])
    """What should have said something and does not."""

    def take(self, entry: Entry) -> None:
        key = snake(entry.key)
        known = FIELDS.get(key)
        if known is None:
            self._unknown(entry, key)
        elif known.read is None:
            self._note(entry, known)
        elif not entry.value.text and entry.value.kind in ("nothing", "text"):
            self._empty(entry, key)
        else:
            self._read(entry, known, known.into or key)

    def _read(self, entry: Entry, known: Field, into: str) -> None:
        assert known.read is not None
        try:
            value = known.read(entry.value, self.env)
        except Wrong as wrong:
            for each in (wrong, *wrong.more):
                place = each.value or entry
                self._add(
                    "bad-value",
                    f"{entry.key}{':' if each.value else ''} {each.message}",
                    each.advice,
                    (place.line, place.column),
                    nearest=each.nearest,
                )
            self.where.setdefault(into, entry)
            return
        if into == "limits" and into in self.said:
            twice = set(value) & set(self.said[into])
            if not twice:
                self.said[into] |= value
                return
        elif into not in self.where:
            self.where[into] = entry
            self.said[into] = value
            return
        first = self.where[into]
        self._add(
            "repeated-field",
            f"{entry.key} says the same as {first.key} on line {first.line}",
            "keep one of them",
            (entry.line, entry.column),
        )

    def _unknown(self, entry: Entry, key: str) -> None:
        near = nearest(key, FIELDS, SLIP)
        slip = near is not None
        # What was meant for a known field is not passed over: an agent whose
        # `tool:` nobody reads has tools that its author took away.
        self._add(
            "unknown-field",
            f"there is no field {quoted(entry.key)}",
            "correct it, or remove it" if slip else "it is not read; remove it, or ignore this",
            (entry.line, entry.column),
            nearest=SHOWN_AS.get(near, near) if near is not None else None,
            severity="error" if slip else "warning",
        )

    def _note(self, entry: Entry, known: Field) -> None:
        self._add(
            "no-effect",
            f"{entry.key} {known.effect}",
            "",
            (entry.line, entry.column),
            severity=known.severity,
        )

    def _empty(self, entry: Entry, key: str) -> None:
        self.empty[key] = entry
        if key in ("tools", "disallowed_tools"):
            self._add(
                "bad-value",
                f"{entry.key} is empty, which can mean all tools or none",
                "write [] for none at all, or leave the line out for those that read",
                (entry.line, entry.column),
            )

    def agent(self, body: str, source: AgentSource | None) -> Agent | None:
        """The agent, if nothing stands against it."""
        for key in REQUIRED:
            if not self.said.get(key) and key not in self.where:
                self._add(
                    f"missing-{key}",
                    f"it has no {key}",
                    "write `name: ` and how it is to be called"
                    if key == "name"
                    else "write `description: ` and what it is for; others read it to choose",
                    (at.line, at.column) if (at := self.empty.get(key)) else (1, None),
                )
        if self.said.get("must_call_tool") and self.said.get("tools") == ():
            self._against(
                "must_call_tool",
                "must call a tool and has none, because tools is []",
                "leave out one of the two",
            )
        if self.said.get("backend") == "acp" and "command" not in self.where:
            self._against(
                "backend",
                "acp needs a program that speaks it",
                "add `command: ` and the program, as in `command: gemini --acp`",
            )
        if any(problem.severity == "error" for problem in self.problems):
            return None
        said = dict(self.said)
        if said.pop("disabled", False):
            self._against("disabled", "is true, so that there is no such agent", "", "note")
            return None
        if "limits" in said:
            said["limits"] = Limits(**said["limits"])
        if "cwd" in said:
            said["cwd"] = Path(said["cwd"]).expanduser()
        try:
            return Agent(said.pop("name"), body, **said, path=self.path, source=source)
        except (TypeError, ValueError) as refused:
            # What an agent may hold is its own to say, and may be less than was read.
            self._add("refused", str(refused), "correct the field that it speaks of", (1, None))
            return None

    def warn(self, code: str, message: str, advice: str) -> None:
        """Report something about the file as a whole."""
        self._add(code, message, advice, (1, None), severity="warning")

    def _against(self, into: str, message: str, advice: str, severity: Severity = "error") -> None:
        entry = self.where[into]
        code = "disabled" if severity == "note" else "contradiction"
        self._add(
            code, f"{entry.key} {message}", advice, (entry.line, entry.column), severity=severity
        )

    def _add(
        self,
        code: str,
        message: str,
        advice: str,
        place: tuple[int, int | None],
        *,
        nearest: str | None = None,
        severity: Severity = "error",
    ) -> None:
        self.problems.append(
            Problem(
                path=self.path,
                code=code,
                message=message,
                severity=severity,
                line=place[0],
                column=place[1],
                nearest=nearest,
                advice=advice,
            )
        )
