"""What every team command can be told, and how its words are read: agents, a task, limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Literal

from attrs import evolve, field, frozen
from cyclopts import Group, Parameter
from cyclopts.validators import Number

from standby_actors.agent import Agent, Lifetime
from standby_actors.agent_checks import nearest
from standby_actors.budget import Budget
from standby_actors.definitions.definition import read_definition
from standby_actors.definitions.discovery import BrokenAgent, Found, UnknownAgent, load_agents
from standby_actors.definitions.places import Scope
from standby_actors.models import LOCAL, default_model, model_settings, open_model
from standby_actors.opening import is_of_model
from standby_actors.prices import LIST_PRICES, price_of
from standby_combinators.options import Options

from .amounts import BadAmount, read_budget, read_seconds
from .text import one_line

TASK_LIMIT = 4_000_000
"""Bytes of a task that are read from the standard input at most."""

LOOKALIKE = 0.8
"""How much a single word must look like an agent's name to be taken for a slip, from 0 to 1."""

Count = Annotated[int, Parameter(validator=Number(gte=1))]


class Misuse(ValueError):
    """Raised where a command was not called as it should be; nothing was begun."""


_MODEL = Group("Model", sort_key=1)
_LIMITS = Group("Limits", sort_key=2)
_AGENTS = Group("Agents", sort_key=3)
_OUTPUT = Group("Output", sort_key=4)


def _switch(group: Group, text: str) -> Parameter:
    return Parameter(group=group, help=text, negative=(), show_default=False)


@Parameter(name="*")
@frozen
class Common:
    """What every command of a team can be told."""

    model: Annotated[
        str | None,
        Parameter(
            group=_MODEL,
            help="As in openai/gpt-5-mini: for all agents, in place of their own. Without it each"
            " asks its own, or else STANDBY_MODEL, the provider whose key is set, the local one.",
        ),
    ] = field(default=None, kw_only=True)
    local: Annotated[bool, _switch(_MODEL, f"The same as --model {LOCAL}: offline, no key.")] = (
        field(default=False, kw_only=True)
    )
    base_url: Annotated[
        str | None,
        Parameter(
            group=_MODEL,
            help="A server of your own that speaks OpenAI's protocol; --model says what it calls"
            " its model.",
        ),
    ] = field(default=None, kw_only=True)
    budget: Annotated[
        tuple[str, ...],
        Parameter(
            group=_LIMITS,
            negative=(),
            show_default=False,
            help="What all turns together may cost: 0.50usd, 200k (tokens), 12turns; several with"
            " commas.",
        ),
    ] = field(default=(), kw_only=True)
    deadline: Annotated[
        str | None,
        Parameter(group=_LIMITS, help="Time for the whole: 90, 90s, 5m, 1h30m."),
    ] = field(default=None, kw_only=True)
    timeout: Annotated[
        str | None, Parameter(group=_LIMITS, help="Time for each turn, written the same way.")
    ] = field(default=None, kw_only=True)
    lifetime: Annotated[
        Literal["task", "workflow"] | None,
        Parameter(
            group=_AGENTS,
            help="Fresh eyes for every turn, or one memory over all of them. [default: as each"
            " agent says]",
        ),
    ] = field(default=None, kw_only=True)
    scope: Annotated[
        Scope,
        Parameter(
            group=_AGENTS,
            help="Whose agents: your own and those of standby, the project's, or both.",
        ),
    ] = field(default="user", kw_only=True)
    directory: Annotated[
        Path,
        Parameter(name="--in", group=_AGENTS, help="Where the project is, and their tools work."),
    ] = field(default=Path("."), kw_only=True)
    task: Annotated[
        str | None,
        Parameter(
            group=_AGENTS, help="The task, in place of the last word, whatever it looks like."
        ),
    ] = field(default=None, kw_only=True)
    export: Annotated[
        Path | None,
        Parameter(
            group=_OUTPUT, help="A folder for the record of each subagent; see standby export."
        ),
    ] = field(default=None, kw_only=True)
    json: Annotated[
        bool, _switch(_OUTPUT, "Print one JSON line for each event, and at last the result.")
    ] = field(default=False, kw_only=True)
    plain: Annotated[
        bool, _switch(_OUTPUT, "A line for each thing that happens, also on a terminal.")
    ] = field(default=False, kw_only=True)


DEFAULTS = Common()


@frozen
class Words:
    """The words of a command, read."""

    agents: tuple[Agent, ...]
    task: str
    found: Found


def read_words(
    words: Sequence[str], common: Common, *, verb: str, is_optional: bool = False
) -> Words:
    """Agents by name, then the task; without a task, what the standard input says.

    Args:
        words: as they were typed.
        common: where agents are looked for, and `--task`.
        verb: of the command, for what is said of misuse.
        is_optional: there need not be a task; the standard input is left alone then.

    Raises:
        Misuse: one of them is no agent, there is none, or there is no task.
    """
    agents = Roster(common)
    names, task = split_words(words, agents, common.task, verb)
    if not names:
        raise Misuse(
            f"{verb} wants an agent before the task, as in: standby run {verb} scout 'Where is …?'"
            f"\nthere are {', '.join(agents.found.names)}"
        )
    chosen = tuple(agents[name] for name in names)
    if task is None and is_optional:
        return Words(chosen, "", agents.found)
    return Words(chosen, read_task(task, verb), agents.found)


def split_words(
    words: Sequence[str], agents: Roster, task: str | None, verb: str
) -> tuple[list[str], str | None]:
    """Which of `words` are agents, and the task among them, if it is there.

    Raises:
        Misuse: a word is neither.
    """
    names: list[str] = []
    for place, word in enumerate(words):
        if word in agents:
            names.append(word)
            continue
        rest = words[place:]
        near = nearest(word, agents.found.names, LOOKALIKE)
        is_slip = near is not None and not any(letter.isspace() for letter in word)
        if task is not None or len(rest) > 1 or is_slip:
            raise Misuse(_no_agent(word, near if is_slip else None, agents, names, rest, verb))
        return names, word
    return names, task


def _no_agent(
    word: str, near: str | None, agents: Roster, names: list[str], rest: Sequence[str], verb: str
) -> str:
    try:
        agents[word]
    except Misuse as error:
        why = str(error)
    else:  # pragma: no cover - a word that is an agent is none of these
        why = f"{word!r} is an agent"
    if len(rest) == 1 and near is not None:
        return f"{why}\nif it is the task, say: --task {word}"
    if names and not near:
        return f"{why}\nif it begins the task, put the task into quotes: one word for it all"
    return why


class Roster:
    """The agents that can be named, found where `common` says; files are agents too."""

    def __init__(self, common: Common) -> None:
        self._directory = common.directory
        if not common.directory.is_dir():
            why = "is a file, not a folder" if common.directory.exists() else "does not exist"
            raise Misuse(f"--in {one_line(str(common.directory))}: it {why}")
        self.found = load_agents(common.directory, scope=common.scope)
        self._scope: Scope = common.scope

    def __contains__(self, word: str) -> bool:
        return word in self.found.names or word in self.found.broken or _is_file(word)

    def __getitem__(self, name: str) -> Agent:
        """The agent called `name`, or of the file of that name.

        Raises:
            Misuse: there is none, or it is broken; it says which is meant.
        """
        try:
            agent = _of_file(name) if _is_file(name) else self.found[name]
        except BrokenAgent as error:
            raise Misuse(str(error)) from None
        except UnknownAgent as error:
            raise Misuse(f"{error}{self._elsewhere(name)}") from None
        return self.placed(agent)

    def placed(self, agent: Agent) -> Agent:
        """`agent`, at work where the command says, unless it says where itself."""
        if agent.is_function or agent.cwd is not None or self._directory == Path("."):
            return agent
        return evolve(agent, cwd=self._directory.absolute())

    @property
    def all(self) -> tuple[Agent, ...]:
        """Every agent that there is, as those have it who hand over and delegate."""
        return tuple(self.placed(agent) for agent in self.found)

    def _elsewhere(self, name: str) -> str:
        if self._scope != "user":
            return ""
        project = load_agents(self._directory, scope="project", builtin=False)
        if name in project.names or name in project.broken:
            return (
                f"\nthe project has one of that name; its files are instructions by whoever wrote"
                f" them: say --scope both to use {name!r} all the same"
            )
        return ""


def _is_file(word: str) -> bool:
    return word.endswith(".md") and not any(letter.isspace() for letter in word)


def _of_file(word: str) -> Agent:
    path = Path(word)
    # Named by whoever calls the command, who has thereby chosen to trust it.
    made = read_definition(path, "user")
    if made.agent is None:
        raise Misuse("\n".join([f"{one_line(word)} is no agent:", *map(str, made.problems)]))
    return made.agent


def read_task(task: str | None, verb: str) -> str:
    """The task, from the argument or the standard input.

    Raises:
        Misuse: there is none.
    """
    if task is None:
        task = read_input(f"standby run {verb} … 'the task'")
    if not task.strip():
        raise Misuse("the task is empty")
    return task


def read_input(otherwise: str) -> str:
    """All of the standard input.

    Raises:
        Misuse: it is a terminal, where nobody would know what is waited for.
    """
    if sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # None without a console
        raise Misuse(f"there is no task: say it last, in quotes, or pipe it in, as in\n{otherwise}")
    data = sys.stdin.buffer.read(TASK_LIMIT + 1)
    if len(data) > TASK_LIMIT:
        raise Misuse(f"the standard input has more than {TASK_LIMIT:,} bytes, too much for a task")
    return data.decode("utf-8", "replace")


@frozen
class Settings:
    """What `Common` came to, checked."""

    model: str | None
    env: Mapping[str, str] | None
    """Where a server of one's own is said; None for the process's own environment."""
    budget: Budget | None
    deadline: float | None
    timeout: float | None
    lifetime: Lifetime | None
    export: Path | None
    roster: tuple[Agent, ...]

    async def options(self, stack: AsyncExitStack) -> Options:
        """The options of a combinator; what they hold open, `stack` closes.

        Raises:
            ModelError: there is no such model, or no way to ask it.
        """
        made = Options(
            lifetime=self.lifetime,
            timeout=self.timeout,
            budget=self.budget,
            export_dir=self.export,
            roster=self.roster,
        )
        if self.env is not None:
            made["model"] = await stack.enter_async_context(open_model(self.model, env=self.env))
        elif self.model is not None:
            made["model"] = self.model
        return made


def settings_of(common: Common, agents: Sequence[Agent], roster: Sequence[Agent]) -> Settings:
    """What `common` says, for these agents; nothing is opened yet.

    Raises:
        Misuse: two options contradict each other, or one cannot be read.
        ModelError: a model that is named cannot be asked.
    """
    if common.local and (common.base_url or common.model not in (None, LOCAL)):
        raise Misuse("--local is a model of its own: leave out --model and --base-url")
    if common.json and common.plain:
        raise Misuse("--json and --plain are two ways to be told: say one")
    model, env = LOCAL if common.local else common.model, None
    if common.base_url is not None:
        if model is None:
            raise Misuse("--base-url wants --model as well: what its server calls the model")
        model = f"openai/{model.removeprefix('openai/')}"
        env = {**os.environ, "OPENAI_BASE_URL": common.base_url}
    asked = {model or each.model or default_model() for each in agents if is_of_model(each)}
    for named in asked:
        # A name or a key that is no good is told before anything is begun.
        if named.partition("/")[0].partition(":")[0] != "local":
            model_settings(named, env)
    try:
        limits = read_budget(common.budget) if common.budget else None
        deadline = None if common.deadline is None else read_seconds(common.deadline)
        timeout = None if common.timeout is None else read_seconds(common.timeout)
    except BadAmount as error:
        raise Misuse(str(error)) from None
    unpriced = sorted(each for each in asked if price_of(each, LIST_PRICES) is None)
    if limits is not None and limits.usd is not None and unpriced:
        what = one_line(", ".join(unpriced))
        raise Misuse(
            f"nobody knows what {what} costs, so no budget of dollars can be kept: say it in"
            " tokens (200k) or turns (12turns)"
        )
    if common.export is not None and common.export.exists() and not common.export.is_dir():
        raise Misuse(f"--export {one_line(str(common.export))}: it is a file, not a folder")
    return Settings(
        model,
        env,
        None if limits is None else Budget(limits, name="--budget"),
        deadline,
        timeout,
        common.lifetime,
        common.export,
        tuple(roster),
    )
