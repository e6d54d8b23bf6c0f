"""What is told to an operator where a spawn was given up: a type with the allowed fields alone.

There is no field for a prompt, a transcript, a log, a stack or what was captured, so none
can be told by mistake.  What the fields hold is checked and shortened where they are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec

from standby_actors.tools.redact import redact

from .anchors import RepositoryState
from .dimensions import Anchor, Identified, Scope
from .facts import Cause
from .row import Row
from .untrusted import Secret, Untrusted

INVENTORY_UNAVAILABLE = "inventory is unavailable"

_ID = re.compile(r"[\w][\w .#:@/+-]{0,119}")
_WORDS = re.compile(r"[\w(][\w .,:;/#@()+='-]{0,159}")
_PATH = re.compile(r"[\w][\w./+-]{0,239}")

State = Literal[
    "not opened", "active", "waiting", "interrupted", "completed", "superseded", "not spawned"
]


class SessionSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One session, as an operator may see it: its id, status, role, scope and anchor."""

    session: str
    """Its id, or "pending"."""
    status: State
    role: str
    scope: Scope
    anchor: Anchor = Anchor()

    def __post_init__(self) -> None:
        _checked("the id of a session", self.session, _ID)
        _checked("a role", self.role, _ID)


class Escalation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spawn was given up for want of a slot; its workflow is blocked.

    Exactly what may be told to an operator of this machine.  For comments that others
    read there is :meth:`shared`.

    Raises:
        ValueError: a field holds what is no short name or id.
    """

    classification: Literal["orchestration resource exhaustion"] = (
        "orchestration resource exhaustion"
    )
    cause: Cause
    role: str
    """Of the one that was not spawned."""
    scope: Scope = Scope()
    sessions: tuple[SessionSummary, ...] = ()
    """What the ledger has, of those that are not over."""
    open: tuple[str, ...] | None = None
    """Ids of the sessions that are open; None where the target has no inventory."""
    repository: RepositoryState | None = None
    """None where the workflow has none."""

    def __post_init__(self) -> None:
        _checked("a role", self.role, _ID)
        for session in self.open or ():
            _checked("the id of a session", session, _ID)

    def render(self) -> str:
        """For an operator of this machine."""
        lines = [
            f"{self.classification}: no slot ({self.cause}) for {self.role}, {self.scope}",
            f"open: {_several(self.open)}",
        ]
        lines += [
            f"- {each.session}  {each.status}  {each.role}  {each.scope}"
            + (f"  {each.anchor}" if each.anchor != Anchor() else "")
            for each in self.sessions
        ]
        if self.repository is not None:
            lines.append(str(self.repository))
        return redact("\n".join(lines))

    def __str__(self) -> str:
        return self.render()

    def shared(
        self, *, reference: str = "", path: str = "", owner: str = "", follow_up: str = ""
    ) -> SharedEscalation:
        """What of it may stand in a comment on an issue or a pull request.

        Args:
            reference: a stable one that its readers share, as in "issue 6".
            path: relative to the repository.
            owner: of the requirement; the role by default.
            follow_up: whose it is now, and its title.

        Raises:
            ValueError: one of them is no short line of plain text, or the path is not
                relative to the repository.
        """
        return SharedEscalation(
            reference=reference, path=path, owner=owner or self.role, follow_up=follow_up
        )


class SharedEscalation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A spawn was given up, for readers elsewhere: no session ids, and nothing that they did."""

    evidence: Literal["standby ledger"] = "standby ledger"
    reference: str = ""
    path: str = ""
    owner: str = ""
    state: Literal["blocked"] = "blocked"
    blocker: Literal["orchestration resource exhaustion"] = "orchestration resource exhaustion"
    follow_up: str = ""

    def __post_init__(self) -> None:
        for name in ("reference", "owner", "follow_up"):
            text = getattr(self, name)
            if text:
                _checked(f"the {name} of a shared escalation", text, _WORDS)
        if self.path:
            _checked("the path of a shared escalation", self.path, _PATH)
            if ".." in PurePosixPath(self.path).parts:
                raise ValueError("the path of a shared escalation is relative to the repository")

    def render(self) -> str:
        """One line for each field that says something."""
        lines = [
            f"{name}: {text}"
            for name, text in (
                ("evidence", self.evidence),
                ("reference", self.reference),
                ("path", self.path),
                ("owner", self.owner),
                ("state", self.state),
                ("blocker", self.blocker),
                ("follow-up", self.follow_up),
            )
            if text
        ]
        return redact("\n".join(lines))

    def __str__(self) -> str:
        return self.render()


def encode_escalation(escalation: Escalation | SharedEscalation) -> bytes:
    """`escalation` as JSON, in which no secret of the environment is readable.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(escalation, Escalation | SharedEscalation):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller without types
        raise TypeError(f"this encodes escalations alone, not a {type(escalation).__name__}")
    return redact(msgspec.json.encode(escalation, enc_hook=_refuse).decode()).encode()


def summary_of(row: Row[Any]) -> SessionSummary:
    """What of `row` may be shown.  Pure."""
    session = row.identity.id if isinstance(row.identity, Identified) else "pending"
    if row.unspawned is not None:
        status: State = "not spawned"
    elif row.superseded:
        status = "superseded"
    elif row.operation is None:
        status = "not opened"
    else:
        status = row.operation.value
    return SessionSummary(shown_id(session), status, row.role, row.scope, row.anchor)


def shown_id(session: str) -> str:
    """`session`, where it is a plain id; a backend may call its sessions as it likes."""
    return session if _ID.fullmatch(session) else "(id not shown)"


def summaries(rows: Iterable[Row[Any]]) -> tuple[SessionSummary, ...]:
    """What of the rows that are not over may be shown.  Pure."""
    return tuple(summary_of(row) for row in rows if not row.is_over)


def _several(sessions: tuple[str, ...] | None) -> str:
    if sessions is None:
        return INVENTORY_UNAVAILABLE
    return ", ".join(sessions) or "none"


def _checked(what: str, text: object, pattern: re.Pattern[str]) -> None:
    allowed = text == "(id not shown)"
    if not allowed and not (isinstance(text, str) and pattern.fullmatch(text)):
        raise ValueError(f"{what} is a short name of one line; nothing else may be shown")


def _refuse(value: object) -> Any:
    if isinstance(value, Untrusted | Secret):
        raise TypeError(f"{value!r} is not to be shown")
    raise TypeError(f"an escalation has no {type(value).__name__} in it")
