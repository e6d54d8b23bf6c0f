"""The YAML at the head of a Markdown file, with the line of everything in it.

Read from the tree that YAML is parsed into, so that nothing in a file is ever
made an object, and `name: no` is still the text that somebody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import frozen

from .problems import Problem, quoted

if TYPE_CHECKING:
    import yaml

HEAD_LIMIT = 16 * 1024
"""Characters of a head: what YAML makes of a text may cost much more than reading it."""

DEPTH_LIMIT = 32
"""Lists and tables within each other."""

ValueKind = Literal["text", "list", "map", "nothing"]

_ENDS = ("---", "...")
# What stands on one line of its own and is no YAML, because of a colon in it.
_PLAIN_LINE = re.compile(r"(?P<key>[A-Za-z_][\w-]*):[ \t]+(?P<value>[^\s\"'\[{>|&*!#%@`].*)")


@frozen
class Value:
    """Something in a head, and where it stands."""

    kind: ValueKind
    line: int
    column: int
    text: str = ""
    """As it was written, without its quotes."""
    items: tuple[Value, ...] = ()
    entries: tuple[Entry, ...] = ()

    @property
    def shown(self) -> str:
        """As a message calls it."""
        match self.kind:
            case "text":
                return quoted(self.text)
            case "list":
                return "a list"
            case "map":
                return "a table of keys"
            case "nothing":
                return "nothing"


@frozen
class Entry:
    """A key and its value."""

    key: str
    line: int
    column: int
    value: Value


@frozen
class Head:
    """A Markdown file in its two parts."""

    entries: tuple[Entry, ...]
    body: str
    """What comes after the head, without outer blank lines."""
    body_line: int


def split(text: str, path: Path) -> tuple[Head | None, tuple[Problem, ...]]:
    """The head and the body of a text; or None, and why not.

    With a head there may be problems too: those that leave the rest readable.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return None, (_headless(lines, path),)
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in _ENDS), None)
    if end is None:
        return None, (
            Problem(
                path=path,
                code="open-frontmatter",
                message="its frontmatter, which begins with ---, has no end",
                line=1,
                column=1,
                advice="write --- on a line of its own after the last field",
            ),
        )
    yaml_text = "\n".join(lines[1:end])
    if len(yaml_text) > HEAD_LIMIT:
        return None, (
            Problem(
                path=path,
                code="too-large",
                message=f"its frontmatter has {len(yaml_text):,} characters, and {HEAD_LIMIT:,} "
                "are read at most",
                line=1,
                advice="long text belongs below the second ---",
            ),
        )
    entries, problems = _parsed(yaml_text, path)
    if entries is None:
        return None, problems
    rest = lines[end + 1 :]
    blank = next((at for at, line in enumerate(rest) if line.strip()), 0)
    return Head(entries, "\n".join(rest).strip(), end + 2 + blank), problems


def _headless(lines: list[str], path: Path) -> Problem:
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    late = first is not None and lines[first].strip() == "---"
    return Problem(
        path=path,
        code="no-frontmatter",
        message="it is empty"
        if first is None
        else f"its frontmatter begins on line {first + 1}, not on the first"
        if late
        else "it has no frontmatter",
        line=1,
        advice="begin the file with ---, name:, description: and ---",
    )


def _parsed(text: str, path: Path) -> tuple[tuple[Entry, ...] | None, tuple[Problem, ...]]:
    import yaml

    first: Problem
    try:
        return _read(text, path)
    except yaml.YAMLError as error:
        first = _not_yaml(error, text, path)
    except RecursionError:
        return None, (_too_deep(path),)
    except (ValueError, OverflowError):
        # Escapes are made letters as they come, whether there is such a letter or not.
        return None, (_no_letter(path),)
    # "description: Use it so: …" is how most of these files are written, and how
    # other tools read them.
    repaired, lines = _quoted_lines(text)
    if lines:
        try:
            entries, problems = _read(repaired, path)
        except (yaml.YAMLError, RecursionError, ValueError, OverflowError):
            return None, (first,)
        return entries, (*(_needs_quotes(path, *line) for line in lines), *problems)
    return None, (first,)


def _read(text: str, path: Path) -> tuple[tuple[Entry, ...] | None, tuple[Problem, ...]]:
    """Raises YAMLError, RecursionError, ValueError and OverflowError."""
    import yaml

    # The loader in Python: the one in C dies of deep nesting, and takes us with it.
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_LIMIT:
            # The time that YAML takes grows with the square of the depth.
            return None, (_too_deep(path, _line(event.start_mark), _column(event.start_mark)),)
        # One name for a large thing, used often, is how a small file fills the memory.
        if isinstance(event, yaml.AliasEvent):
            return None, (
                Problem(
                    path=path,
                    code="yaml-alias",
                    message=f"it refers to *{event.anchor}, and references are not read here",
                    line=_line(event.start_mark),
                    column=_column(event.start_mark),
                    advice="write the value itself; a text that begins with * needs quotes",
                ),
            )
    node = yaml.compose(text, yaml.SafeLoader)
    if node is None:
        return (), ()
    if not isinstance(node, yaml.MappingNode):
        return None, (
            Problem(
                path=path,
                code="not-fields",
                message="its frontmatter is no list of fields",
                line=_line(node.start_mark),
                column=_column(node.start_mark),
                advice="write one field a line, as in `name: scout`",
            ),
        )
    problems: list[Problem] = []
    return tuple(_entries(node, path, problems)), tuple(problems)


def _line(mark: Any) -> int:
    # The head begins on the second line, and YAML counts from 0.
    return int(mark.line) + 2


def _column(mark: Any) -> int:
    return int(mark.column) + 1


def _entries(node: yaml.MappingNode, path: Path, problems: list[Problem]) -> Iterator[Entry]:
    import yaml

    first_lines: dict[str, int] = {}
    for key, value in node.value:
        line, column = _line(key.start_mark), _column(key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            problems.append(
                Problem(
                    path=path,
                    code="bad-key",
                    message="a key is a word, and this one is a list or a table",
                    line=line,
                    column=column,
                    advice="a text that begins with [ or { needs quotes",
                )
            )
            continue
        if not encodable(key.value):
            problems.append(_no_letter(path, line, column))
            continue
        if key.value in first_lines:
            problems.append(
                Problem(
                    path=path,
                    code="repeated-field",
                    message=f"{quoted(key.value)} is said a second time, first on line "
                    f"{first_lines[key.value]}",
                    line=line,
                    column=column,
                    advice="keep one of them",
                )
            )
            continue
        first_lines[key.value] = line
        yield Entry(key.value, line, column, _value(value, path, problems))


def _value(node: yaml.Node, path: Path, problems: list[Problem]) -> Value:
    import yaml

    line, column = _line(node.start_mark), _column(node.start_mark)
    if isinstance(node, yaml.ScalarNode):
        nothing = node.tag == "tag:yaml.org,2002:null"
        if not encodable(node.value):
            problems.append(_no_letter(path, line, column))
            return Value("text", line, column, "?")
        return Value("nothing" if nothing else "text", line, column, node.value.strip())
    if isinstance(node, yaml.SequenceNode):
        items = tuple(_value(each, path, problems) for each in node.value)
        return Value("list", line, column, items=items)
    assert isinstance(node, yaml.MappingNode)
    return Value("map", line, column, entries=tuple(_entries(node, path, problems)))


def encodable(text: str) -> bool:
    """It can be written and sent: no half of a letter is in it."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _quoted_lines(text: str) -> tuple[str, list[tuple[int, str]]]:
    """`text` with quotes around the values that need them, and which lines those are."""
    mended: list[tuple[int, str]] = []
    lines = text.split("\n")
    for at, line in enumerate(lines):
        match = _PLAIN_LINE.fullmatch(line.rstrip())
        if match and (": " in match["value"] or match["value"].endswith(":")):
            value = match["value"].replace("'", "''")
            lines[at] = f"{match['key']}: '{value}'"
            mended.append((at + 2, match["key"]))
    return "\n".join(lines), mended


def _needs_quotes(path: Path, line: int, key: str) -> Problem:
    return Problem(
        path=path,
        code="unquoted-text",
        message=f"the value of {key} holds a colon, which YAML allows within quotes only; "
        "it was read as the text that it is",
        severity="note",
        line=line,
        column=1,
        advice="put it in quotes",
    )


def _not_yaml(error: yaml.YAMLError, text: str, path: Path) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        line, column = _line(mark), _column(mark)
    else:
        # An unprintable letter is reported by its place in the text.
        before = text[: getattr(error, "position", 0)]
        line, column = before.count("\n") + 2, len(before.rpartition("\n")[2]) + 1
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
    return Problem(
        path=path,
        code="bad-yaml",
        message=f"its frontmatter is no YAML: {quoted(said)[1:-1]}",
        line=line,
        column=column,
        advice="remove it"
        if mark is None
        else "put texts with a colon, a # or a bracket in quotes",
    )


def _no_letter(path: Path, line: int = 2, column: int | None = None) -> Problem:
    return Problem(
        path=path,
        code="bad-encoding",
        message="an escape in its frontmatter, as in \\u…, stands for no letter",
        line=line,
        column=column,
        advice="write the letter itself",
    )


def _too_deep(path: Path, line: int = 2, column: int | None = None) -> Problem:
    return Problem(
        path=path,
        code="bad-yaml",
        message=f"its frontmatter is nested more than {DEPTH_LIMIT} deep",
        line=line,
        column=column,
        advice="a list of names, or a table of them, is the deepest that a field needs",
    )
