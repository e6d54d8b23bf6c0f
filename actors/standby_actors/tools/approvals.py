"""Who may call what: rules, questions to a person, and what the person said for good.

A question is data: it can be stored, shown elsewhere, and answered by a later
process, whose answer holds for the next call that is the same.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeAlias

import msgspec
import trio
from attrs import define, field

Choice = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
"""What a person says; "always" is remembered as a rule."""

CHOICES: tuple[Choice, ...] = ("allow_once", "allow_always", "reject_once", "reject_always")

DEADLINE_SECONDS = 600.0
"""How long a person is waited for, where nobody says otherwise."""


class ApprovalRequest(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """A call that waits for a person's word."""

    id: str
    """Unique among the pending ones."""
    tool: str
    arguments: str
    """JSON, keys in order: equal for equal calls."""
    subagent: str = ""
    description: str = ""
    """What the tool does."""


class Approved(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What a person said to a request."""

    choice: Choice
    reason: str = ""
    """Told to the model when it is a rejection."""
    arguments: str = "*"
    """With "always": which arguments it holds for, a pattern as in :class:`ApprovalRule`."""

    @property
    def allows(self) -> bool:
        """The call may run."""
        return self.choice in ("allow_once", "allow_always")


class ApprovalRule(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What holds for calls of some tools, without asking anybody.

    Examples:
        >>> rule = ApprovalRule("shell", "allow", '{"command":"git status*')
        >>> rule.covers("shell", '{"command":"git status -s"}')
        True
        >>> rule.covers("shell", '{"command":"rm -rf /"}')
        False
    """

    tool: str
    """A pattern with ``*`` and ``?``, as in "mcp__github__*"."""
    policy: Literal["allow", "ask", "reject"]
    arguments: str = "*"
    """A pattern for the arguments as JSON text without spaces, keys in order."""
    reason: str = ""

    def covers(self, tool: str, arguments: str) -> bool:
        """It holds for this call."""
        # The brackets of JSON are no set of characters.
        pattern = self.arguments.replace("[", "[[]")
        return fnmatch.fnmatchcase(tool, self.tool) and fnmatch.fnmatchcase(arguments, pattern)


class ApprovalState(msgspec.Struct, frozen=True):
    """What approvals remember, for a later process."""

    rules: tuple[ApprovalRule, ...] = ()
    pending: tuple[ApprovalRequest, ...] = ()


Approve: TypeAlias = Callable[[ApprovalRequest], Awaitable[Approved | Choice]]
"""Asks somebody; a program's own way to a person."""


@define(eq=False)
class _Waiting:
    request: ApprovalRequest
    answered: trio.Event | None
    """None for a request of an earlier process: nobody waits here."""
    answer: Approved | None = None


@define(eq=False)
class Approvals:
    """Decides for every call of a tool that asks: by rule, by a person, or not at all.

    Rules are tried from the last to the first, for every call.  Where none holds,
    a tool that does not ask just runs.  For one that asks, `ask` is awaited;
    without it the request is pending until :meth:`answer` is called, or its
    time is up and the call is refused.  A turn that is cut takes its requests
    with it.

    Args:
        rules: what holds without asking.
        ask: asks a person, instead of a pending request.
        nobody: there is no person: "allow" or "reject" what would be asked.
        deadline: seconds that a person is waited for; `math.inf` for ever.
        on_pending: hears of each new request; it only notes it and returns.
    """

    rules: list[ApprovalRule] = field(factory=list)
    ask: Approve | None = field(default=None, kw_only=True, repr=False)
    nobody: Literal["allow", "reject"] | None = field(default=None, kw_only=True)
    deadline: float = field(default=DEADLINE_SECONDS, kw_only=True)
    on_pending: Callable[[ApprovalRequest], None] = field(
        default=lambda _: None, kw_only=True, repr=False
    )
    _waiting: dict[str, _Waiting] = field(init=False, factory=dict, repr=False)
    _answered: dict[tuple[str, str, str], Approved] = field(init=False, factory=dict, repr=False)
    _numbers: itertools.count[int] = field(init=False, factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        if not self.deadline > 0:
            raise ValueError(f"deadline is more than 0 seconds, not {self.deadline!r}")

    @classmethod
    def restored(cls, state: ApprovalState) -> Approvals:
        """With the rules and the open questions of an earlier process.

        An answer to such a question is kept for the next call that is the same.
        """
        approvals = cls(list(state.rules))
        for request in state.pending:
            approvals._waiting[request.id] = _Waiting(request, None)
        return approvals

    @property
    def state(self) -> ApprovalState:
        """Rules and open questions, to be stored."""
        return ApprovalState(tuple(self.rules), self.pending)

    @property
    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Requests that wait for an answer, oldest first."""
        return tuple(each.request for each in self._waiting.values() if each.answer is None)

    def answer(self, request_id: str, said: Approved | Choice) -> None:
        """Answer a pending request; once.

        Raises:
            KeyError: no such request waits; it was answered, or its turn is over.
            ValueError: it is no choice.
        """
        said = _approved(said)
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.answer is not None:
            raise KeyError(f"no request {request_id!r} waits for an answer")
        waiting.answer = said
        if waiting.answered is not None:
            waiting.answered.set()
            return
        del self._waiting[request_id]
        request = waiting.request
        self._remember(request, said)
        if not said.choice.endswith("always"):
            self._answered[request.subagent, request.tool, request.arguments] = said

    def rule_for(self, tool: str, arguments: str) -> ApprovalRule | None:
        """The rule that holds for a call, if any does."""
        held = (rule for rule in reversed(self.rules) if rule.covers(tool, arguments))
        return next(held, None)

    async def decide(
        self,
        tool: str,
        arguments: str,
        *,
        asks: bool = True,
        subagent: str = "",
        description: str = "",
    ) -> Approved:
        """What is to become of a call; when it is cut, nothing of it is pending.

        An earlier process's answer to the same call is used up by it.

        Args:
            tool: its name.
            arguments: as in :class:`ApprovalRequest`.
            asks: the tool wants approval where no rule says anything.
            subagent: id of who calls.
            description: what the tool does, for the person.
        """
        rule = self.rule_for(tool, arguments)
        kept = self._answered.pop((subagent, tool, arguments), None)
        policy = (self.nobody or "ask" if asks else "allow") if rule is None else rule.policy
        if policy == "ask" and kept is None and self.nobody is not None:
            policy = self.nobody
        if kept is not None and policy == "ask":
            await trio.lowlevel.checkpoint()
            return kept
        if policy == "allow":
            await trio.lowlevel.checkpoint()
            return Approved("allow_once")
        if policy == "reject":
            await trio.lowlevel.checkpoint()
            why = "nobody is there to approve it" if rule is None else rule.reason
            return Approved("reject_once", why)
        request = ApprovalRequest(self._new_id(), tool, arguments, subagent, description)
        with trio.move_on_after(self.deadline):
            if self.ask is not None:
                said = _approved(await self.ask(request))
            else:
                said = await self._wait(request)
            self._remember(request, said)
            return said
        return Approved("reject_once", f"nobody answered within {self.deadline:g} s")

    def _new_id(self) -> str:
        # A number may be taken by a request of an earlier process.
        return next(name for n in self._numbers if (name := f"approval-{n}") not in self._waiting)

    async def _wait(self, request: ApprovalRequest) -> Approved:
        answered = trio.Event()
        waiting = self._waiting[request.id] = _Waiting(request, answered)
        try:
            self.on_pending(request)
            await answered.wait()
        finally:
            del self._waiting[request.id]
        assert waiting.answer is not None
        return waiting.answer

    def _remember(self, request: ApprovalRequest, said: Approved) -> None:
        if said.choice == "allow_always":
            self.rules.append(ApprovalRule(request.tool, "allow", said.arguments))
        elif said.choice == "reject_always":
            self.rules.append(ApprovalRule(request.tool, "reject", said.arguments, said.reason))


def approvals_of(
    what: Approvals | Approve | Iterable[ApprovalRule] | Literal["allow", "reject"] | None,
) -> Approvals:
    """Whatever an agent says about approvals, as one object.

    None and "reject" refuse what asks, because nobody is there to be asked;
    "allow" lets it run.

    Raises:
        TypeError: it says nothing about approvals.
    """
    if isinstance(what, Approvals):
        return what
    if what is None or what == "reject":
        return Approvals(nobody="reject")
    if what == "allow":
        return Approvals(nobody="allow")
    if callable(what):
        return Approvals(ask=what)
    rules: Any = what
    if isinstance(rules, Iterable) and not isinstance(rules, str):
        return Approvals([*rules])
    raise TypeError(
        f'approvals are "allow", "reject", rules, a function or Approvals, not {what!r:.80}'
    )


def _approved(said: Approved | Choice) -> Approved:
    if isinstance(said, Approved):
        return said
    if said not in CHOICES:
        raise ValueError(f"an answer is one of {', '.join(CHOICES)}, not {said!r:.80}")
    return Approved(said)
