"""What is asked of the scouts and of the synthesiser, and what is true of what they say.

A large model writes its answer.  A small one, left to write, makes things up;
so it is asked to point: its answer must be a sentence of the file, its names
must be names of the file, and the JSON schema leaves it nothing else to say.
What a model says is checked here all the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from types import GenericAlias
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from .reading import TextFile
from .sketch import occurs, quotable, sentences

Style: TypeAlias = Literal["write", "point"]
"""How a model answers: in its own words, or by pointing at those of the file."""

POINTS = 4
"""Most findings that a small model points at in one synthesis."""


NAMES = 2
"""Most names that a small model gives of a file: each costs it half a second."""


class Finding(msgspec.Struct, frozen=True):
    """What a scout says about one file, or one part of it."""

    answer: str
    names: list[str]


class Synthesis(msgspec.Struct, frozen=True):
    """What the synthesiser says about all of them."""

    answer: str
    files: list[str]


class CheckedFinding(msgspec.Struct, frozen=True):
    """A finding, held against the file that it is about."""

    answer: str
    names: tuple[str, ...]
    """The names said that do occur in the file, each once."""
    dropped: tuple[str, ...] = ()
    """The names said that do not."""
    quoted: bool = False
    """The answer stands in the file, word for word."""


class CheckedSynthesis(msgspec.Struct, frozen=True):
    """A synthesis, held against the files that were read."""

    answer: str
    files: tuple[str, ...]
    """The files cited that were read, each once, in the order of citing."""
    dropped: tuple[str, ...] = ()
    """The files cited that were not read; the sentences that did so are gone too."""


def finding_type(path: str, text: str, style: Style) -> Any:
    """The type of a scout's answer about `text`, which msgspec decodes."""
    if style == "write":
        return Finding
    names = quotable(path, text, 12)
    # Few names: a small model repeats itself rather than stop.
    fields = [
        ("answer", _one_of(sentences(path, text))),
        ("names", _some_of(names, 1 if names else 0, NAMES)),
    ]
    return msgspec.defstruct("Finding", fields, frozen=True, module=__name__)


def synthesis_type(findings: Sequence[tuple[str, str]], style: Style) -> Any:
    """The type of the synthesiser's answer about `findings`, pairs of a path and an answer."""
    if style == "write":
        return Synthesis
    points = _some_of([point(path, answer) for path, answer in findings], 1, POINTS)
    return msgspec.defstruct("Points", [("points", points)], frozen=True, module=__name__)


def merged_type(parts: Sequence[Any], style: Style) -> Any:
    """The type of one answer about a file, out of those about its parts."""
    if style == "write":
        return Finding
    names = list(dict.fromkeys(name for part in parts for name in part.names))
    fields = [
        ("answer", _one_of(list(dict.fromkeys(part.answer for part in parts)))),
        ("names", _some_of(names, 1 if names else 0, NAMES)),
    ]
    return msgspec.defstruct("Finding", fields, frozen=True, module=__name__)


def point(path: str, answer: str) -> str:
    """A finding on one line, as a small model is shown it."""
    return f"{path}: {' '.join(answer.split())}"


# The choices are told to the model's server and not to the decoder: an answer
# that is none of them is seen by the checks, and counted, rather than lost as
# unreadable.


def _one_of(choices: Sequence[str]) -> Any:
    if not choices:
        return str
    return Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(choices)})]


def _some_of(choices: Sequence[str], at_least: int, at_most: int) -> Any:
    bounds = {"minItems": at_least, "maxItems": at_most}
    return Annotated[
        GenericAlias(list, (_one_of(choices),)), msgspec.Meta(extra_json_schema=bounds)
    ]


def check_finding(value: Any, file: TextFile) -> CheckedFinding:
    """Hold what a scout said about `file` against it.

    Args:
        value: an answer of the type that :func:`finding_type` gave.
        file: the whole file, also if the scout saw a part of it.

    Examples:
        >>> file = TextFile("a.py", '"Adds numbers."\\ndef add(a, b): ...')
        >>> check_finding(Finding("It adds.", ["add()", "`sub`", "add"]), file)
        CheckedFinding(answer='It adds.', names=('add',), dropped=('sub',), quoted=False)
    """
    kept: dict[str, None] = {}
    dropped: dict[str, None] = {}
    for said in value.names:
        name = said.strip().strip("`'\"").removesuffix("()")
        if name:
            (kept if occurs(name, file.text) else dropped)[name] = None
    answer = " ".join(value.answer.split())
    return CheckedFinding(answer, tuple(kept), tuple(dropped), _words(answer) in _words(file.text))


def check_synthesis(value: Any, read: Collection[str]) -> CheckedSynthesis:
    """Hold what the synthesiser said against the files that were `read`.

    A sentence that cites a file that was not read is left out: what it says
    about that file can only be made up.

    Examples:
        >>> said = Synthesis("`cell.py` runs actors. core/mail.py sends.", ["a/cell.py", "x.py"])
        >>> check_synthesis(said, {"a/cell.py"})
        CheckedSynthesis(answer='`cell.py` runs actors.', files=('a/cell.py',), \
dropped=('x.py', 'core/mail.py'))
    """
    if hasattr(value, "points"):
        return _check_points(value.points, read)
    files: dict[str, None] = {}
    dropped: dict[str, None] = {}

    def cite(said: str) -> bool:
        meant = _meant(said, read)
        if not meant:
            dropped[said] = None
        # A name that several files have ("__init__.py") cites none of them.
        elif len(meant) == 1:
            files[meant[0]] = None
        return bool(meant)

    def cited(sentence: str) -> list[bool]:
        return [cite(name) for name in mentions(sentence)]

    for said in value.files:
        if said.strip():
            cite(said.strip().strip("`'\""))
    kept: list[str] = []
    for paragraph in value.answer.strip().split("\n"):
        whole = [s for s in _SENTENCE_END.split(paragraph) if all(cited(s))]
        if whole or not paragraph.strip():
            kept.append(" ".join(whole))
    return CheckedSynthesis("\n".join(kept).strip(), tuple(files), tuple(dropped))


def _check_points(points: Sequence[str], read: Collection[str]) -> CheckedSynthesis:
    files: dict[str, str] = {}
    dropped: dict[str, None] = {}
    for said in points:
        path, _, answer = said.partition(": ")
        if path in read:
            files.setdefault(path, answer)
        else:
            dropped[path] = None
    answer = "\n".join(point(path, answer) for path, answer in files.items())
    return CheckedSynthesis(answer, tuple(files), tuple(dropped))


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# A name with a letter on both sides of its last dot; endings longer than those
# of files are attributes, as in `trio.lowlevel`.
_MENTION = re.compile(r"(?<![\w/.\-])(?:[\w.\-]+/)*[\w\-]+\.[A-Za-z]\w{0,4}(?![\w(/])")
_ENDINGS = re.compile(
    r"c|cc|cfg|clj|cpp|cs|css|csv|cxx|erl|exs?|go|h|hpp|hrl|hs|html|ini|ipynb|java|js|json|jsx|kt"
    r"|lua|md|mjs|ml|php|pl|proto|ps1|pyi?|r|rb|rs|rst|sass|scala|scss|sh|sql|svelte|swift|tex|tf"
    r"|toml|tsx?|txt|vue|xml|ya?ml|zig",
    re.IGNORECASE,
)


def mentions(text: str) -> list[str]:
    """What in `text` looks like the path or name of a file.

    Examples:
        >>> mentions("See `a/cell.py`, README.md and trio.lowlevel; e.g. x.stop() waits.")
        ['a/cell.py', 'README.md']
    """
    found: list[str] = _MENTION.findall(text)
    return [name for name in found if _ENDINGS.fullmatch(name.rpartition(".")[2])]


def _meant(said: str, read: Collection[str]) -> list[str]:
    """The files read that `said` may mean: by its path, else by how it ends."""
    said = said.removeprefix("./")
    if said in read:
        return [said]
    # A model may leave folders out, or name those above the directory too.
    return [path for path in read if path.endswith(f"/{said}") or said.endswith(f"/{path}")]


def _words(text: str) -> str:
    words = re.findall(r"\w+", text)
    return f" {' '.join(words)} "
