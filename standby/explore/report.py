"""What the team found, as values: for people, for `--json`, and for whoever calls us."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from standby_actors.result import Status, TurnError
from standby_actors.usage import Usage

from .answers import Style
from .plan import View
from .reading import Skipped


class FileReport(msgspec.Struct, frozen=True):
    """What became of one file."""

    path: str
    lines: int
    view: View
    """How much of it was shown."""
    parts: int
    """In how many turns; more than 1 where the model's context does not hold it."""
    tokens: int
    """Of what was shown, about."""
    status: Status
    """How its scout ended."""
    answer: str = ""
    names: tuple[str, ...] = ()
    """Names that the scout quoted and that do occur in the file."""
    dropped: tuple[str, ...] = ()
    """Names that it quoted and that do not."""
    quoted: bool = False
    """The answer is a sentence of the file, word for word."""
    replaced: int = 0
    """Places where its bytes are no UTF-8."""
    error: TurnError | None = None
    usage: Usage = msgspec.field(default_factory=Usage)


class Exploration(msgspec.Struct, frozen=True):
    """What the team found, or has found so far."""

    question: str
    directory: str
    model: str
    style: Style
    status: Status
    """"ok" exactly if the question was answered."""
    error: TurnError | None
    answer: str
    cited: tuple[str, ...]
    """The files that the answer rests on; every one of them was read."""
    dropped: tuple[str, ...]
    """Files that the model cited and that were not read."""
    files: tuple[FileReport, ...]
    skipped: tuple[Skipped, ...]
    ignored: int
    """Entries that git ignores."""
    usage: Usage
    parallelism: float
    """Turns that ran at once, on average."""

    @property
    def answered(self) -> tuple[FileReport, ...]:
        """The files whose scouts answered."""
        return tuple(each for each in self.files if each.status == "ok")

    @property
    def unanswered(self) -> tuple[FileReport, ...]:
        """The files whose scouts did not."""
        return tuple(each for each in self.files if each.status != "ok")


def why_unanswered(files: Sequence[FileReport]) -> TurnError:
    """Why there is no answer when nobody was asked to sum up."""
    failures = [
        (each.path, each.error)
        for each in files
        if each.error is not None and each.error.kind != "not_started"
    ]
    if any(each.status == "ok" for each in files):
        return TurnError("not_started", "the files were not summed up")
    if not failures:
        return TurnError("not_started", "no file was read yet")
    path, error = failures[0]
    return TurnError(error.kind, f"no file was answered: {path}: {error.message}", error.retryable)
