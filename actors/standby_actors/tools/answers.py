"""Answers that are tool calls: data through `submit`, a decision through `verdict`.

Both belong to one turn: they keep what the mind has handed in, for the loop to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from attrs import define, field

from ..result import TurnError
from ..sessions.schema import AnswerSchema
from .calls import Answers, CallHistory
from .schema import listed, problems_of
from .tool import Tool, ToolContext, ToolOutput, refuse, tool

SUBMIT = "submit"
VERDICT = "verdict"


@define(eq=False)
class Submission:
    """The answer of one turn as data, handed in by calling `submit`.

    A call whose arguments are not of the type is refused and may be corrected
    once; a turn that ends in prose is asked for the call once.  Of several
    accepted calls the last is the answer.

    Args:
        kind: the type of the answer, for msgspec.  One that is no object is
            asked for as the property `value` of one.
        description: what is handed in, for the mind.

    Raises:
        TypeError: msgspec cannot describe the type.
    """

    kind: Any
    description: str = "Hand in your answer.  Call it once, when the work is done."
    tool: Tool = field(init=False)
    """The tool to give to the mind, in this turn only."""
    accepted: bool = field(init=False, default=False)
    value: Any = field(init=False, default=None)
    """The answer, once one was accepted."""
    refused: int = field(init=False, default=0)
    _why: str = field(init=False, default="", repr=False)
    _asked_again: bool = field(init=False, default=False, repr=False)
    _schema: AnswerSchema = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._schema = AnswerSchema(self.kind)
        self.tool = Tool(
            SUBMIT,
            self.description,
            self._schema.schema,
            self._take,
            check=self._check,
            in_order=True,
        )

    def instruction(self) -> str:
        """What the mind is told beside its task."""
        return f"When you are done, hand in your answer by calling the tool {SUBMIT}."

    def hear(self, answers: Answers) -> TurnError | None:
        """What the calls of a message mean for the turn: an error of kind `schema`, or nothing.

        It fails at the second call that was refused, if none was accepted since.
        """
        for each in answers.answered:
            if each.call.name != SUBMIT:
                continue
            if each.output.is_error:
                self.refused += 1
                self._why = each.output.text
            else:
                self.refused = 0
        if self.refused > 1:
            return TurnError("schema", f"no {self._schema.name} was handed in: {self._why}", True)
        return None

    def ask_again(self) -> str | None:
        """For a turn that ended without an accepted call: what to say, once; then None."""
        if self.accepted or self._asked_again:
            return None
        self._asked_again = True
        return (
            f"You have not called {SUBMIT}, so there is no answer yet.  Call it now, with the whole"
            " answer, and say nothing else."
        )

    def error(self) -> TurnError | None:
        """Why the turn has no answer; None if it has one."""
        if self.accepted:
            return None
        why = self._why or f"the turn ended without a call of {SUBMIT}, asked for twice"
        return TurnError("schema", f"no {self._schema.name} was handed in: {why}", True)

    def _read(self, arguments: dict[str, Any]) -> Any:
        held = arguments.get("value") if self._schema.wrapped else arguments
        return msgspec.convert(held, self.kind)

    def _check(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        try:
            self._read(arguments)
        except msgspec.ValidationError as error:
            return problems_of(self._schema.schema, arguments) or (str(error),)
        return ()

    async def _take(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        self.value = self._read(arguments)
        self.accepted = True
        return ToolOutput("taken", ends_turn=True)


class Resolved(msgspec.Struct, frozen=True):
    """An open remark that is closed."""

    id: str
    how: Literal["addressed", "withdrawn"]
    reason: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What a reviewer decided."""

    approved: bool
    """What it said; with something left open it is no approval, see :meth:`Verdicts.settled`."""
    remarks: str = ""
    resolved: tuple[Resolved, ...] = ()
    """Of those that were open, each once."""
    raised: tuple[str, ...] = ()


@define(eq=False)
class Verdicts:
    """The decision of one turn, made by calling `verdict`; the last call is it.

    Args:
        open: remarks that this reviewer raised and that are open, by id.
    """

    open: Mapping[str, str] = field(factory=dict)
    tool: Tool = field(init=False)
    """The tool to give to the mind, in this turn only."""
    verdict: Verdict | None = field(init=False, default=None)
    """The decision, once there is one."""

    def __attrs_post_init__(self) -> None:
        self.tool = tool(self._decide, name=VERDICT, in_order=True)

    @property
    def left_open(self) -> tuple[str, ...]:
        """Ids that the verdict did not close; all of them while there is none."""
        closed = {each.id for each in self.verdict.resolved} if self.verdict else set()
        return tuple(each for each in self.open if each not in closed)

    @property
    def settled(self) -> bool:
        """It was approved, and nothing is left open or was raised."""
        said = self.verdict
        return said is not None and said.approved and not said.raised and not self.left_open

    async def _decide(
        self,
        approved: bool,
        remarks: str = "",
        resolved: list[Resolved] = [],  # noqa: B006 - never changed
        raised: list[str] = [],  # noqa: B006 - never changed
    ) -> ToolOutput:
        """Give your decision.  It is this call that counts, not what you write.

        Args:
            approved: the work is good as it is
            remarks: why, for whoever reads it
            resolved: open remarks that are closed now, by their id
            raised: new remarks, each a thing to be done
        """
        raised = [each for each in raised if each.strip()]
        if not approved and not remarks.strip() and not raised:
            return refuse("A rejection needs its remarks: say what is wrong, and call it again.")
        known = {each.id: each for each in resolved if each.id in self.open}
        unknown = dict.fromkeys(each.id for each in resolved if each.id not in self.open)
        self.verdict = Verdict(approved, remarks.strip(), tuple(known.values()), tuple(raised))
        said = ["recorded"]
        if unknown:
            # An invented id must not lose the decision.
            there = listed(self.open) if self.open else "none"
            said.append(f"not known and left out: {listed(unknown)}; open were: {there}")
        if approved and not self.settled:
            said.append(f"not yet approved: open are {listed([*self.left_open, *raised])}")
        return ToolOutput("; ".join(said), ends_turn=True)


def no_tool(history: CallHistory, names: Iterable[str] = ()) -> TurnError | None:
    """The error of a turn that had to call a tool and did not.

    A call that was refused or failed counts: the mind has tried.

    Args:
        history: of the turn.
        names: tools of which each has to be called; none for any tool at all.

    Examples:
        >>> print(no_tool(CallHistory()))
        no_tool: called no tool (must_call_tool)
    """
    called = {call.name for call in history.calls if call.fate != "unknown"}
    wanted = [*names]
    if missing := [name for name in wanted if name not in called]:
        return TurnError("no_tool", f"did not call {listed(missing)} (must_call_tool)", True)
    if not wanted and not called:
        return TurnError("no_tool", "called no tool (must_call_tool)", True)
    return None
