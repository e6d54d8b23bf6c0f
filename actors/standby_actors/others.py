"""Who works below a subagent at its mind's wish: whom it hands over to, and whom it delegates to.

A mind chooses among agents that it was given, by name; what is spawned for it is in
its subtree, spends from its budget, and ends with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from attrs import define, field

from .agent import DELEGATE, Agent, Limits
from .agent_checks import nearest
from .budget import Budget
from .cell import Cell, as_cell
from .failure import described
from .models import ModelError
from .opening import is_of_model
from .record import Noted, wall_time
from .result import Attachment, Result, TurnError, failed
from .session import Handoff, MessageEnded, SessionEvent, Turn
from .tools.tool import Tool, ToolContext, ToolOutput, refuse
from .usage import NOTHING, Usage

if TYPE_CHECKING:
    from .mind import Mind, Order
    from .subagent import Subagent, SubagentStart

MAX_HANDOFFS = 8
"""How often a conversation is handed over within one turn."""
MAX_DEPTH = 2
"""Levels of subagents that delegate, where no budget has a limit of depth."""
MAX_TASKS = 16
"""Tasks of one call of the tool `subagent`."""
CONCURRENCY = 4
"""Subagents of one mind at work at once, where its agent does not say."""
# Of how it is opened below: a session that was given is one conversation, and the
# lifetime and the parent are said by us.
_INHERITED = ("backend", "env", "export_dir", "instructions", "model", "prices", "timeout")
_OVER_TO_YOU = "The conversation was handed over to you.  Answer in it."
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class NoSuchAgent(ValueError):
    """Raised where an agent names another one that nobody has given it; nothing was spawned."""

    def __init__(self, agent: str, into: str, name: str, there: tuple[str, ...]) -> None:
        super().__init__(agent, into, name, there)
        self.agent = agent
        self.into = into
        self.name = name
        self.there = there

    def __str__(self) -> str:
        near = nearest(self.name, self.there)
        meant = f"; do you mean {near!r}?" if near else ""
        have = ", ".join(self.there) or "none"
        return (
            f"the agent {self.agent!r} names {self.name!r} in {self.into}, and there is no such"
            f" agent{meant}; there are: {have}.  Give others with roster=, where it is spawned"
        )


class NobodyBelow(ValueError):
    """Raised where an agent was given others, and cannot have them; nothing was spawned."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(agent, why)
        self.agent = agent
        self.why = why

    def __str__(self) -> str:
        return f"the agent {self.agent!r} cannot be spawned: {self.why}"


@define(eq=False)
class Passed:
    """What others did in one turn."""

    usage: Usage = NOTHING
    answer: Result | None = None
    """Of the one that answered in place of who was asked."""
    shown: set[str] = field(factory=set[str])
    """Those who were given what is attached to the task."""

    def merged(self, result: Result) -> Result:
        """The Result of the whole turn, from that of who was asked."""
        mine, theirs = result.usage, self.usage
        both = mine.accumulate(theirs)
        usage = msgspec.structs.replace(
            both,
            wall_seconds=mine.wall_seconds,
            busy_seconds=mine.busy_seconds,
            context_tokens=mine.context_tokens,
        )
        who = result if self.answer is None else self.answer
        return msgspec.structs.replace(result, agent=who.agent, subagent=who.subagent, usage=usage)


@define(eq=False)
class Others:
    """Those below one mind, for one life of it.

    Args:
        cell: owns what is spawned.
        mind: whose they are.
        start: how it was spawned; others are opened in the same way.

    Raises:
        NoSuchAgent: it names one that there is not.
        NobodyBelow: it cannot have the others that it names.
    """

    cell: Cell[Any]
    mind: Mind
    start: SubagentStart
    roster: dict[str, Agent] = field(init=False)
    """Who is meant by a name."""
    tools: tuple[Tool, ...] = field(init=False)
    """What its model is given to hand over, and to delegate."""
    taker: Subagent | None = field(init=False, default=None)
    """Who is answering in its place."""
    _targets: tuple[Agent, ...] = field(init=False)
    _members: dict[str, Subagent] = field(init=False, factory=dict)
    """Those it has handed over to; they remember."""
    _said: list[str] = field(init=False, factory=list)
    """The conversation so far, a line for each who said something."""
    _seen: dict[str, int] = field(init=False, factory=dict)
    """How many of those lines each has been told."""
    _places: trio.CapacityLimiter = field(init=False)
    _budget: Budget | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        agent, options = self.mind.agent, self.start.options
        if agent.is_function:
            raise NobodyBelow(
                agent.name,
                "its mind is a function, which has no tools: let it ask whom it likes itself",
            )
        is_named = options.get("backend") is None and isinstance(agent.backend, str)
        if is_named and not is_of_model(agent):
            raise NobodyBelow(
                agent.name,
                f"its backend {agent.backend!r} takes no tools of ours, so it can neither"
                " hand over nor delegate; give it a model, or leave those out",
            )
        given = [*(options.get("roster") or ()), *_agents(agent.handoffs), *_agents(agent.agents)]
        self.roster = {each.name: each for each in (agent, *given)}
        self._targets = self._named(agent.handoffs, "handoffs")
        self._places = trio.CapacityLimiter(agent.concurrency or CONCURRENCY)
        budget = self.mind.budget
        if budget is not None and agent.limits is None and not self.mind.is_resident:
            # A level of its own, so that depth is counted from where it is limited.
            budget = Budget(Limits(), budget, self.mind.id)
        self._budget = budget
        for target in self._targets:
            if agent.schema is not None and target.schema != agent.schema:
                raise NobodyBelow(
                    agent.name,
                    f"it promises data, and {target.name}, which it may hand over to,"
                    " does not promise the same: give both the same schema",
                )
        self.tools = (*self._handoff_tools(), *self._delegate_tools())

    def _named(self, names: Iterable[Agent | str], into: str) -> tuple[Agent, ...]:
        found: list[Agent] = []
        for each in names:
            if isinstance(each, str) and each not in self.roster:
                there = tuple(name for name in self.roster if name != self.mind.agent.name)
                raise NoSuchAgent(self.mind.agent.name, into, each, there)
            found.append(self.roster[each] if isinstance(each, str) else each)
        return tuple(found)

    # ---- handing over

    def _handoff_tools(self) -> Iterable[Tool]:
        names: dict[str, Agent] = {}
        for target in self._targets:
            name = f"handoff_to_{_NOT_IN_NAMES.sub('_', target.name)}"[:64]
            if name in names:
                raise NobodyBelow(
                    self.mind.agent.name,
                    f"its handoffs to {names[name].name} and {target.name} would be the same"
                    f" tool, {name}: rename one",
                )
            names[name] = target
        return [_handoff_tool(name, target) for name, target in names.items()]

    def told(self, task: str, attachments: Sequence[Attachment] = ()) -> str:
        """`task`, with what was said by others since its mind was asked last."""
        name = self.mind.agent.name
        told = self._news(name, task)
        # Who takes over in a later turn is not shown it, and can ask for it.
        named = f"  (attached: {_named_all(attachments)})" if attachments else ""
        self._said.append(f"user: {task}{named}")
        self._seen[name] = len(self._said)
        return told

    def heard(self, turn: Turn) -> None:
        """Its mind has had a turn: whoever takes over will be told of it."""
        self._note(self.mind.agent.name, turn.text, turn.handoff)

    async def pass_on(self, order: Order, turn: Turn, hear: Any) -> Turn:
        """The turn of whoever answers in the end, after one that was handed over.

        It is played in the turn of `order`, so that whatever cuts that cuts it.
        """
        passed = order.passed = order.passed or Passed()
        giver: Others = self
        count = 0
        while (handoff := turn.handoff) is not None and turn.error is None:
            count += 1
            if count > MAX_HANDOFFS:
                trail = f"the conversation was handed over {MAX_HANDOFFS} times in one turn"
                return Turn(turn.text, error=TurnError("runaway", trail))
            target = giver.roster.get(handoff.to)
            if target is None:
                why = f"{giver.mind.id} hands over to {handoff.to!r}, whom nobody knows"
                return Turn(turn.text, error=TurnError("protocol", why))
            if target is self.mind.agent:
                self._tell(giver, self.mind.id, target.name, count, handoff)
                passed.answer = None
                session = self.mind.session
                assert session is not None
                turn = await session.ask(self._news(target.name, _OVER_TO_YOU), hear)
                giver = self
                self.heard(turn)
                continue
            turn = await self._take_over(order, passed, giver, target, handoff, count)
            member = self._members.get(target.name)
            others = None if member is None else mind_of(member).others
            if others is not None:
                giver = others
        return turn

    async def _take_over(
        self,
        order: Order,
        passed: Passed,
        giver: Others,
        target: Agent,
        handoff: Handoff,
        count: int,
    ) -> Turn:
        member = self._members.get(target.name)
        if member is not None and (member.is_dead or not member.ref.is_alive):
            # It would answer nothing any more, in this turn and all that come.
            del self._members[target.name]
            await member.close()
            member = None
        if member is None:
            self._seen.pop(target.name, None)
            member, error = await self._open(target, "workflow")
            if member is None:
                assert error is not None
                passed.answer = failed(target.name, error)
                return Turn(error=error)
            self._members[target.name] = member
        self._tell(giver, member.id, target.name, count, handoff)
        from .subagent import ask_of

        handed: list[Handoff] = []

        def hear(event: SessionEvent) -> None:
            if isinstance(event, MessageEnded):
                order.messages.append(event.message)
            order.hear(event)

        text, attached = self._input(member, target, order.attachments, passed)
        before = member.usage_with_others
        self.taker = member
        try:
            result = await ask_of(member, text, attached, hear, handed.append)
        finally:
            self.taker = None
            self._charge(order, _cost(member, before))
        passed.answer = result
        went_on = handed[-1] if handed and result.ok else None
        self._note(target.name, result.output, went_on)
        return Turn(result.output, error=result.error, value=result.value, handoff=went_on)

    def _input(
        self, member: Subagent, target: Agent, given: tuple[Attachment, ...], passed: Passed
    ) -> tuple[str, tuple[Attachment, ...]]:
        """What `member` is asked: what it has not been told yet, and what it can be shown."""
        if member.id in passed.shown:
            return self._news(target.name, _OVER_TO_YOU), ()
        passed.shown.add(member.id)
        session = mind_of(member).session
        can = None if session is None else session.capabilities
        shown = tuple(
            each
            for each in given
            if can is not None and (can.images if each.is_image else can.files)
        )
        hidden = [each for each in given if each not in shown]
        task = _OVER_TO_YOU
        if hidden:
            task += f"  Attached, and not shown to you: {_named_all(hidden)}."
        return self._news(target.name, task), shown

    def _news(self, name: str, task: str) -> str:
        """`task`, after what was said in the conversation and `name` was not told yet."""
        known = self._seen.get(name, 0)
        news = self._said[known:]
        self._seen[name] = len(self._said)
        if not news:
            return task
        since = "since your last turn" if known else "so far"
        return f"What was said {since}:\n\n" + "\n\n".join(news) + f"\n\n{task}"

    def _note(self, name: str, text: str, handoff: Handoff | None) -> None:
        said = text.strip()
        if handoff is not None:
            more = f": {handoff.message}" if handoff.message else ""
            said = f"{said}\n(hands over to {handoff.to}{more})".strip()
        if said:
            self._said.append(f"{name}: {said}")
        self._seen[name] = len(self._said)

    def _tell(self, giver: Others, taker: str, name: str, count: int, handoff: Handoff) -> None:
        mind = self.mind
        mind.tell(
            "handoff",
            giver=giver.mind.id,
            taker=taker,
            agent=name,
            number=count,
            message=handoff.message,
        )
        if mind.recorder is not None:
            more = f": {handoff.message}" if handoff.message else ""
            mind.record(Noted(wall_time(), "handoff", f"{giver.mind.id} to {taker}{more}"))

    def again(self, life: Others) -> Others:
        """These, for another life: what was said stays known, unless it is to be forgotten."""
        if self.mind.agent.remember != "fresh":
            life._said = self._said
            name = self.mind.agent.name
            life._seen = {name: self._seen.get(name, 0)}
        return life

    # ---- delegating

    def _delegate_tools(self) -> Iterable[Tool]:
        agent = self.mind.agent
        names_it = agent.tools is not None and DELEGATE in agent.tools
        if not names_it and not agent.agents:
            return []
        if agent.agents:
            there = self._named(agent.agents, "agents")
        else:
            there = tuple(each for each in self.roster.values() if each is not agent)
        if not there:
            raise NobodyBelow(
                agent.name,
                f"it names the tool {DELEGATE}, and there is nobody whom it could have at work:"
                " name them in its agents=, or give roster= where it is spawned",
            )
        return [self._delegate_tool({each.name: each for each in there})]

    def _delegate_tool(self, there: dict[str, Agent]) -> Tool:
        listed = "\n".join(f"- {name}: {each.description}" for name, each in there.items())

        async def run(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            tasks = [task for task in arguments["tasks"] if task.strip()]
            if not tasks:
                return refuse("Every task is blank: say what is to be done.")
            if len(tasks) > MAX_TASKS:
                return refuse(f"There are {len(tasks)} tasks, and {MAX_TASKS} are the most at once")
            depth = self.depth()
            if depth >= MAX_DEPTH and not _limits_depth(self._budget):
                return refuse(
                    f"You are {depth} levels deep, and {MAX_DEPTH} is the limit."
                    "  Do this part of the work yourself."
                )
            return _answer(await self.delegate(there[arguments["agent"]], tasks))

        return Tool(
            DELEGATE,
            "Have other agents work for you, each task by a fresh one that knows nothing but"
            f" what you write.  They work side by side; you get their answers.\n{listed}",
            {
                "type": "object",
                "properties": {
                    "agent": {"type": "string", "enum": list(there)},
                    "tasks": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "what is to be done; each whole in itself",
                    },
                },
                "required": ["agent", "tasks"],
                "additionalProperties": False,
            },
            run,
            # Turns have limits of their own.
            timeout=float("inf"),
        )

    async def delegate(self, agent: Agent, tasks: Sequence[str]) -> tuple[Result, ...]:
        """Have each of `tasks` done by a fresh subagent of `agent`, side by side.

        A failure is a Result.  What they cost is part of the turn in flight.
        Cancelled, all of them have been cut and closed.
        """
        results: dict[int, Result] = {}

        async def do(number: int, task: str) -> None:
            async with self._places:
                results[number] = await self._once(agent, task)

        async with trio.open_nursery() as nursery:
            for number, task in enumerate(tasks):
                nursery.start_soon(do, number, task)
        return tuple(results[number] for number in range(len(tasks)))

    async def _once(self, agent: Agent, task: str) -> Result:
        worker, error = await self._open(agent, "task")
        if worker is None:
            assert error is not None
            return failed(agent.name, error)
        try:
            return await worker.ask(task)
        finally:
            await worker.close()
            self._charge(self.mind.turn, _cost(worker, NOTHING))

    def _charge(self, order: Order | None, cost: Usage) -> None:
        """Count what somebody below has spent, for the turn in flight if there is one."""
        self.mind.below = self.mind.below.accumulate(cost)
        if order is not None:
            order.passed = order.passed or Passed()
            order.passed.usage = order.passed.usage.accumulate(cost)

    def depth(self) -> int:
        """How many subagents are above its mind."""
        count, cell = 0, self.cell.parent
        while cell is not None:
            count += _is_mind(cell)
            cell = cell.parent
        return count

    async def _open(
        self, agent: Agent, lifetime: Any
    ) -> tuple[Subagent, None] | tuple[None, TurnError]:
        """A subagent of `agent` below; or why there is none."""
        from .process import CannotRun
        from .sessions.stdio import StartFailed
        from .subagent import OutOfBudget, SubagentStart, start_in
        from .tools.mcp_config import McpError

        said: Any = self.start.options
        options = {name: said[name] for name in _INHERITED if name in said}
        session = said.get("session")
        if callable(session):
            options["session"] = session
        try:
            start = SubagentStart(
                agent,
                **options,
                lifetime=lifetime,
                budget=self._budget,
                parent=self.mind.id,
                roster=tuple(self.roster.values()),
            )
            return await start_in(self.cell, start, {}, False), None
        except OutOfBudget as error:
            return None, TurnError("budget", str(error)).with_cause(error)
        # What may keep one from being opened; the rest is a bug, and the cell's.
        except (ModelError, StartFailed, CannotRun, McpError, ValueError, OSError) as error:
            why = TurnError("start_failed", f"{agent.name} did not start: {described(error)}")
            return None, why.with_cause(error)


def mind_of(subagent: Subagent) -> Mind:
    """What `subagent` is the handle of."""
    mind: Mind = as_cell(subagent.ref).rare().left
    return mind


def _named_all(attachments: Iterable[Attachment]) -> str:
    return ", ".join(each.name or each.media_type for each in attachments)


def _agents(those: Iterable[Agent | str]) -> list[Agent]:
    return [each for each in those if isinstance(each, Agent)]


def _handoff_tool(name: str, target: Agent) -> Tool:
    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        await trio.lowlevel.checkpoint()
        handoff = Handoff(target.name, arguments.get("message", ""))
        said = f"{target.name} goes on with this conversation."
        return ToolOutput(said, ends_turn=True, handoff=handoff)

    return Tool(
        name,
        f"Hand the conversation over to {target.name}, who answers in your place."
        f"  {target.description}".strip(),
        {
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "description": "what they should know, besides what was said",
                }
            },
            "additionalProperties": False,
        },
        run,
        in_order=True,
    )


def _answer(results: Sequence[Result]) -> ToolOutput:
    """What a mind is told of those who worked for it; failures are shown, never dropped."""
    if len(results) == 1:
        (result,) = results
        if result.error is not None:
            return refuse(f"{result.agent} failed: {result.error}")
        return ToolOutput(result.output or "(no output)")
    parts: list[str] = []
    for number, result in enumerate(results, 1):
        mark = "" if result.ok else " (failed)"
        said = (result.output or "(no output)") if result.error is None else str(result.error)
        parts.append(f"## {number}. {result.agent}{mark}\n\n{said}")
    return ToolOutput("\n\n".join(parts), is_error=not any(result.ok for result in results))


def _cost(subagent: Subagent, before: Usage) -> Usage:
    cost = subagent.usage_with_others.delta(before)
    return msgspec.structs.replace(cost, wall_seconds=0.0, busy_seconds=0.0, context_tokens=None)


def _limits_depth(budget: Budget | None) -> bool:
    return budget is not None and any(each.limits.depth is not None for each in budget.chain())


def _is_mind(cell: Cell[Any]) -> bool:
    from .mind import Mind

    return cell.extra is not None and isinstance(cell.rare().left, Mind)
