"""Roles: what must be kept of a session before it may be closed or superseded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from standby_actors.result import ErrorKind, Result, Status

from .dimensions import Captured, Disposition

R = TypeVar("R")


class CannotCapture(ValueError):
    """Raised where what was handed in is not what the role needs; nothing was recorded."""

    def __init__(self, role: str, detail: str) -> None:
        super().__init__(role, detail)
        self.role = role
        self.detail = detail

    def __str__(self) -> str:
        return f"this cannot be captured for the role {self.role}: {self.detail}"


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is kept of a session.  Subagents have written it: no repr shows it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class LastTurn(_State, frozen=True):
    """How the last turn of a session ended: what there is of every subagent."""

    status: Status = "not_started"
    """`not_started` of one that was never asked."""
    error: ErrorKind | None = None
    output: str = ""
    export: str = ""
    """The file with the transcript; empty without one."""
    turns: int = 0


class GateResult(_State, frozen=True):
    """Of an issue assessor."""

    result: str
    reason: str


class Research(_State, frozen=True):
    """Of a research leaf."""

    scope: str
    report: str
    sources: tuple[str, ...] = ()
    blocker: str = ""


class Specialism(_State, frozen=True):
    """Of a focused specialist."""

    domain: str
    expected: str
    summary: str
    constraints: tuple[str, ...] = ()
    anchor: str = ""


class Gap(_State, frozen=True):
    """A gap that a reviewer has found, and what was answered to it."""

    gap: str
    response: str


class PlanReview(_State, frozen=True):
    """Of a reviewer of plans, or of whether they can be executed."""

    plan: str
    """Its path or digest."""
    scope: str
    verdict: Literal["PASS", "FAIL"]
    findings: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    comments: str = ""
    """The path of comments that it read, if any."""


class TopicalReview(_State, frozen=True):
    """Of a reviewer of one topic."""

    scope: str
    diff: str
    """The range, as in "main..HEAD"."""
    base: str
    head: str
    report: str
    disposition: Disposition
    findings: tuple[str, ...] = ()
    envelope: str = ""


class Critique(_State, frozen=True):
    """Of a critic of merged findings."""

    scope: str
    findings: tuple[str, ...]
    report: str
    verdicts: tuple[str, ...] = ()
    carried_forward: tuple[str, ...] = ()


class ScenarioEvidence(_State, frozen=True):
    """Of a pressure scenario."""

    evidence: str


class Implementation(_State, frozen=True):
    """Of an implementer or an executor."""

    status: Literal["DONE", "DONE_WITH_CONCERNS", "NEEDS_CONTEXT", "BLOCKED"]
    report: str
    snapshot: Literal["requested", "skipped", "emitted", "malformed"] = "skipped"
    changed_files: tuple[str, ...] = ()
    tests: str = ""
    base: str = ""
    head: str = ""
    routing_target: str = ""
    fixups: int = 0
    blocker_family: str = ""
    blocker_detail: str = ""
    question: str = ""
    """One that is open still."""


class HeadReview(_State, frozen=True):
    """Of a reviewer of one head: against the specification, for quality, or the last."""

    head: str
    report: str
    disposition: Disposition
    findings: tuple[str, ...] = ()
    re_review: str = ""
    """What is to be reviewed again."""


class Investigation(_State, frozen=True):
    """Of an investigator of continuous integration."""

    runs: tuple[str, ...]
    jobs: tuple[str, ...]
    evidence: str
    in_scope: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    fix_route: str = ""
    blocker: str = ""


class SemanticContext(_State, frozen=True):
    """Of whoever gathers what words mean here: four families."""

    terms: str
    decisions: str
    contracts: str
    history: str


OfResult: TypeAlias = Callable[[Result | None, int, str], R]
"""Makes the state of the last Result, the number of turns, and the export's path."""


class Role(Generic[R]):
    """What a session is there for, and what must be kept of it: a value of `captures`.

    Args:
        name: as rows and escalations show it.
        route: the number in names of its sessions, as in "d12_3".
        captures: a type that msgspec decodes.
        of_result: how the state is made of the last Result, where it can be without
            the workflow; None: of a Result whose value, or output as JSON, is of
            the type.

    Raises:
        TypeError: msgspec does not decode the type.
        ValueError: the name is not of lower-case letters, digits and "-", or the route
            is less than 1.
    """

    __slots__ = ("_decoder", "_of_result", "captures", "name", "route")

    def __init__(
        self, name: str, route: int, captures: type[R], *, of_result: OfResult[R] | None = None
    ) -> None:
        if not name.replace("-", "").isalnum() or name != name.lower() or len(name) > 60:
            raise ValueError(f"a role is named like quality-reviewer, not {name[:60]!r}")
        if route < 1:
            raise ValueError(f"a route is a number from 1, not {route!r}")
        self.name = name
        self.route = route
        self.captures = captures
        self._decoder: msgspec.json.Decoder[R] = msgspec.json.Decoder(captures)
        self._of_result = of_result

    def __repr__(self) -> str:
        return f"<Role {self.name}>"

    def check(self, value: R) -> Captured[R]:
        """`value`, in the form in which it is kept.

        Raises:
            CannotCapture: it is not of the role's type.
        """
        try:
            state = msgspec.json.encode(value)
            self._decoder.decode(state)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise CannotCapture(self.name, _shape(error)) from None
        return Captured(self.name, msgspec.Raw(state))

    def read(self, captured: Captured[R]) -> R:
        """What was kept, as it was handed in."""
        return self._decoder.decode(captured.state)

    def of_result(self, last: Result | None, turns: int, export: str) -> R | None:
        """The state that the last Result has in it; None if it has none."""
        if self._of_result is not None:
            return self._of_result(last, turns, export)
        if last is None or not last.ok:
            # Whatever a turn that failed has said: it is no result of the role.
            return None
        try:
            if last.value is None:
                return self._decoder.decode(last.output)
            return msgspec.convert(last.value, self.captures, from_attributes=True)
        except msgspec.MsgspecError:
            return None


def _shape(error: Exception) -> str:
    """What is wrong, without what was said: msgspec quotes a wrong word, but not in the place."""
    place = str(error).rpartition(" - at ")[2] if isinstance(error, msgspec.ValidationError) else ""
    return f"it is of another shape at {place}" if place else "it is no data of its type"


def _last_turn(last: Result | None, turns: int, export: str) -> LastTurn:
    if last is None:
        return LastTurn(export=export, turns=turns)
    kind = None if last.error is None else last.error.kind
    return LastTurn(last.status, kind, last.output, export, turns)


ISSUE_ASSESSOR = Role("issue-assessor", 1, GateResult)
RESEARCHER = Role("researcher", 2, Research)
DEEP_RESEARCHER = Role("deep-researcher", 3, Research)
SPECIALIST = Role("specialist", 4, Specialism)
PLAN_REVIEWER = Role("plan-reviewer", 5, PlanReview)
EXECUTABILITY_REVIEWER = Role("executability-reviewer", 6, PlanReview)
CODE_REVIEWER = Role("code-reviewer", 7, TopicalReview)
DOCS_REVIEWER = Role("docs-reviewer", 8, TopicalReview)
SECURITY_REVIEWER = Role("security-reviewer", 9, TopicalReview)
CRITIC = Role("critic", 10, Critique)
PRESSURE_SCENARIO = Role("pressure-scenario", 11, ScenarioEvidence)
IMPLEMENTER = Role("implementer", 12, Implementation)
EXECUTOR = Role("executor", 13, Implementation)
SPEC_REVIEWER = Role("spec-reviewer", 14, HeadReview)
QUALITY_REVIEWER = Role("quality-reviewer", 15, HeadReview)
FINAL_REVIEWER = Role("final-reviewer", 16, HeadReview)
CI_INVESTIGATOR = Role("ci-investigator", 17, Investigation)
CONTEXT_GATHERER = Role("context-gatherer", 18, SemanticContext)
SUBAGENT = Role("subagent", 19, LastTurn, of_result=_last_turn)
"""Of whoever has no role of its own: how its last turn ended is enough."""

ROLES: Mapping[str, Role[Any]] = MappingProxyType(
    {
        role.name: role
        for role in (
            ISSUE_ASSESSOR,
            RESEARCHER,
            DEEP_RESEARCHER,
            SPECIALIST,
            PLAN_REVIEWER,
            EXECUTABILITY_REVIEWER,
            CODE_REVIEWER,
            DOCS_REVIEWER,
            SECURITY_REVIEWER,
            CRITIC,
            PRESSURE_SCENARIO,
            IMPLEMENTER,
            EXECUTOR,
            SPEC_REVIEWER,
            QUALITY_REVIEWER,
            FINAL_REVIEWER,
            CI_INVESTIGATOR,
            CONTEXT_GATHERER,
            SUBAGENT,
        )
    }
)
"""The roles that we ship, by name."""
