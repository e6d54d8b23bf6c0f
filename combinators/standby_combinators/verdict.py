"""A verdict is handed in, and is not a word in prose; prose is read where there is no tool."""

from __future__ import annotations

from typing import Any, cast

import attrs
import msgspec

from standby_actors.agent import Agent
from standby_actors.definitions.vocabulary import READING
from standby_actors.modeltext import json_objects, says_word
from standby_actors.tools.tool import Tool, ToolContext, ToolOutput, refuse

from .ledger import How, Ledger
from .member import Asked

APPROVED = "APPROVED"
"""What a reviewer without the tool says alone on a line."""


class Resolution(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What became of an obligation, as whoever raised it sees it."""

    id: str
    how: How = "addressed"
    reason: str = ""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What a reviewer decides."""

    approved: bool
    remarks: str = ""
    resolved: tuple[Resolution, ...] = ()
    raised: tuple[str, ...] = ()
    """What the work still owes, a sentence each."""


def why_not(verdict: Verdict) -> str:
    """Why `verdict` cannot be taken; empty if it can.

    Examples:
        >>> why_not(Verdict(False))
        'a "no" says what is missing: give remarks, or raise what the work still owes'
        >>> why_not(Verdict(False, "The tests fail."))
        ''
    """
    if verdict.approved or verdict.remarks.strip() or any(each.strip() for each in verdict.raised):
        return ""
    return 'a "no" says what is missing: give remarks, or raise what the work still owes'


def apply_verdict(ledger: Ledger, by: str, verdict: Verdict, round: int) -> tuple[str, ...]:  # noqa: A002 - what it is called
    """Write `verdict` into `ledger`; what could not be, a sentence each.

    What is resolved is closed before anything is raised.  An id that there is not
    does not take the decision with it.
    """
    notes = [
        note
        for each in verdict.resolved
        if (note := ledger.close(by, each.id.strip(), each.how, round, each.reason))
    ]
    for text in verdict.raised:
        if text.strip():
            ledger.open_one(by, text.strip(), round)
    return tuple(notes)


class VerdictDesk:
    """Where one reviewer hands in the verdict of a round: by a tool, or in words.

    Of several calls in a turn the last one counts.
    """

    def __init__(self, reviewer: Asked, ledger: Ledger, by: str) -> None:
        self._ledger = ledger
        self._by = by
        self._handed_in: Verdict | None = None
        self.reviewer = reviewer
        """As it is to be asked: an agent of a model has the tool besides its own."""
        self.has_tool = isinstance(reviewer, Agent) and not reviewer.is_function
        if isinstance(reviewer, Agent) and self.has_tool:
            # One that was read from a file and names no tools has those that read.
            own = reviewer.tools
            if own is None:
                own = READING if reviewer.source is not None else ()
            self.reviewer = attrs.evolve(reviewer, tools=(*own, self._tool()))

    def read(self, output: str) -> Verdict | None:
        """What was decided in the turn that said `output`; None for nothing that counts."""
        verdict, self._handed_in = self._handed_in, None
        if verdict is None:
            verdict = read_verdict(output)
        return None if verdict is None or why_not(verdict) else verdict

    def forget(self) -> None:
        """Before a turn: what was handed in by one that came to nothing does not count."""
        self._handed_in = None

    def _tool(self) -> Tool:
        async def run(arguments: dict[str, Any], _context: ToolContext) -> ToolOutput:
            verdict = msgspec.convert(arguments, Verdict)
            if reason := why_not(verdict):
                return refuse(f"{reason}; then call it again")
            self._handed_in = verdict
            mine = {each.id for each in self._ledger.owed(self._by)}
            unknown = [each.id for each in verdict.resolved if each.id.strip() not in mine]
            note = (
                f" Not yours, or not there, and left out: {', '.join(unknown)}." if unknown else ""
            )
            return ToolOutput(f"Your decision is recorded.{note}", ends_turn=True)

        schema = msgspec.json.schema_components([Verdict])
        [_], components = schema
        # One schema without references: not every provider follows them.
        shape = cast("dict[str, Any]", components["Verdict"])
        parameters = {
            "type": "object",
            "properties": {
                **shape["properties"],
                "resolved": {"type": "array", "items": components["Resolution"]},
            },
            "required": ["approved"],
        }
        return Tool(
            "verdict",
            "Hand in your decision on the work. This call is the decision; what you write is"
            " the argument for it. An obligation that you leave out stays open.",
            parameters,
            run,
        )


def read_verdict(text: str) -> Verdict | None:
    """The verdict that `text` gives in words; None if it gives none.

    A JSON object with `approved`, the last one counts; or APPROVED or LGTM alone on
    a line.  Any other text is a "no", and its remarks.

    Examples:
        >>> read_verdict("Fine.\\n**LGTM**").approved, read_verdict("It is late.")
        (True, Verdict(approved=False, remarks='It is late.'))
        >>> read_verdict('{"approved": false, "raised": ["Test it."]}').raised
        ('Test it.',)
        >>> read_verdict("  ") is None
        True
    """
    for each in reversed(json_objects(text)):
        if "approved" in each:
            try:
                return msgspec.convert(each, Verdict)
            except msgspec.ValidationError:
                return None
    if says_word(text, APPROVED) or says_word(text, "LGTM"):
        return Verdict(True)
    return Verdict(False, text.strip()) if text.strip() else None
