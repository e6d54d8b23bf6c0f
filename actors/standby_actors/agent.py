"""An agent is a definition: who is asked, and in which terms.  It is inert."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args, overload

import msgspec
from attrs import field, frozen

from .agent_checks import (
    as_command,
    as_functions,
    as_tools,
    as_tuple,
    as_words,
    check_count,
    check_mind,
    check_name,
    check_positive,
    check_share,
    is_count,
    is_number,
    one_of,
)

if TYPE_CHECKING:
    from .kind import Kind

Lifetime = Literal["task", "workflow", "session"]
"""How long a subagent lives: one task, the block it is spawned in, or the session."""

LIFETIMES: tuple[Lifetime, ...] = ("task", "workflow", "session")

LifetimeSource = Literal["argument", "agent", "default"]

MindFunction: TypeAlias = Callable[[str], Awaitable[Any]] | Callable[[str], Any]
"""A function that is a mind: given the task, it answers.

What it answers is the output when it is a str; another value becomes the
Result's `value`, with its JSON text for output.  A plain function runs in a
thread.
"""

Backend = Literal["chat", "responses", "anthropic", "pi", "codex", "claude", "acp"]
"""Who plays the turns: a model through one of three APIs, or a coding agent over stdio."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How long a model thinks before it answers.  Not every model knows every word."""

PermissionMode = Literal[
    "default", "accept_edits", "auto", "dont_ask", "bypass_permissions", "plan"
]
"""What a coding agent may do without asking, in the words of Claude Code."""

ContextPolicy = Literal["compact", "handover", "fail"]
"""What happens when a context is nearly full."""

Remember = Literal["fresh", "replay", "summary"]
"""What a subagent still knows after its supervisor has restarted it."""

AgentSource = Literal["builtin", "user", "project"]
"""Where a definition was read: in the package, in the user's folders, in a project."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)
EFFORTS: tuple[Effort, ...] = get_args(Effort)
PERMISSION_MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)

DELEGATE = "subagent"
"""What the tool is called with which an agent has others work for it."""

_check_lifetime = one_of(*LIFETIMES, what="a lifetime")
_check_context = one_of(*get_args(ContextPolicy), what="a context policy")
_check_remember = one_of(*get_args(Remember), what="what is remembered")


class NamedTool(Protocol):
    """A tool that was made already, as opposed to one that is only named."""

    @property
    def name(self) -> str:
        """As a model calls it."""
        ...


ToolLike: TypeAlias = str | NamedTool | Callable[..., Any]
"""A tool by its name, a tool, or a function to make one of."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What may be spent at most; None for no limit."""

    turns: int | None = None
    tokens: int | None = None
    """In and out together."""
    usd: float | None = None
    seconds: float | None = None
    depth: int | None = None
    """Levels of subagents below; 0 for none."""
    descendants: int | None = None
    """Subagents below, all levels together; 0 for none."""

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "depth", "descendants"):
            count = getattr(self, name)
            least = 0 if name in ("depth", "descendants") else 1
            if count is not None and not (is_count(count) and count >= least):
                raise ValueError(
                    f"a limit of {name} is a whole number of at least {least}, not {count!r}"
                )
        for name in ("usd", "seconds"):
            number = getattr(self, name)
            if number is not None and not (is_number(number) and number > 0):
                raise ValueError(f"a limit of {name} is more than 0, not {number!r}")


def _as_path(value: str | Path | None) -> Path | None:
    return Path(value) if isinstance(value, str) else value


def _as_arguments(value: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(value, "args")


@frozen
class McpServer:
    """An MCP server: a program that is started, or an address.

    Args:
        name: as its tools are called by: ``mcp__name__tool``.
        command: the program, for a server that speaks over its stdin and stdout.
        args: its arguments.
        env: what its environment has besides.
        cwd: where it runs; None for where the agent works.
        url: the address, for a server that speaks HTTP.
        headers: what each request carries besides.

    Values of `env` and `headers` are often secrets: no repr shows them.
    """

    name: str = field(validator=check_name)
    command: str | None = field(default=None, kw_only=True)
    args: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_arguments)
    env: Mapping[str, str] = field(factory=dict[str, str], kw_only=True, repr=False, hash=False)
    cwd: Path | None = field(default=None, kw_only=True, converter=_as_path)
    url: str | None = field(default=None, kw_only=True)
    headers: Mapping[str, str] = field(factory=dict[str, str], kw_only=True, repr=False, hash=False)

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError(
                f"the MCP server {self.name!r} has either a command or a url; "
                f"it has {'both' if self.command else 'neither'}"
            )


def _as_servers(
    value: Mapping[str, McpServer] | Iterable[str | McpServer],
) -> tuple[str | McpServer, ...]:
    # Of a mapping by name, the servers know their names themselves.
    servers = as_tuple(list(value.values()) if isinstance(value, Mapping) else value, "mcp_servers")
    for server in servers:
        if not isinstance(server, McpServer) and not (isinstance(server, str) and server.strip()):
            raise TypeError(f"an MCP server is a name or an McpServer, not {server!r}")
    return servers


# Type checkers read what a field takes from a converter that is a function by name.
def _as_models(value: Iterable[str]) -> tuple[str, ...]:
    return as_words(value, "fallback_models")


def _as_skills(value: Iterable[str]) -> tuple[str, ...]:
    return as_words(value, "skills")


def _as_disallowed(value: Iterable[str]) -> tuple[str, ...]:
    return as_words(value, "disallowed_tools")


def _as_tools(value: Iterable[ToolLike] | None) -> tuple[ToolLike, ...] | None:
    return as_tools(value, "tools")


def _as_command(value: Iterable[str] | None) -> tuple[str, ...] | None:
    return as_command(value, "command")


def _as_handoffs(value: Iterable[Agent | str]) -> tuple[Agent | str, ...]:
    wrong = "a handoff goes to an Agent or to the name of one, not to"
    return _agents_or_names(value, "handoffs", wrong)


def _as_agents(value: Iterable[Agent | str]) -> tuple[Agent | str, ...]:
    return _agents_or_names(value, "agents", "agents holds Agents and names of some, not")


def _agents_or_names(
    value: Iterable[Agent | str], what: str, wrong: str
) -> tuple[Agent | str, ...]:
    agents = as_tuple(value, what)
    for each in agents:
        if not isinstance(each, (str, Agent)):
            raise TypeError(f"{wrong} {each!r}")
    return agents


def _as_input_checks(
    value: Callable[..., Any] | Iterable[Callable[..., Any]],
) -> tuple[Callable[..., Any], ...]:
    return as_functions(value, "check_input")


def _as_output_checks(
    value: Callable[..., Any] | Iterable[Callable[..., Any]],
) -> tuple[Callable[..., Any], ...]:
    return as_functions(value, "check_output")


def _check_backend(agent: object, attribute: object, backend: Any) -> None:
    # Whoever brings a backend of their own hands over the object itself.
    if not callable(getattr(backend, "open", None)):
        one_of(*BACKENDS, what="a backend")(agent, attribute, backend)


@frozen
class Agent:
    """Who may be spawned: a name, and a prompt or a function.

    Args:
        name: printable, at most 100 characters, without ``# / \\ :``.
        mind: the system prompt for a model, word for word, or a function of
            the task: then the agent needs no model.
        description: what others read to choose it.
        model: as in "openai/gpt-5-mini"; None for the default of whoever spawns it.
        fallback_models: asked in turn when `model` cannot be.
        effort: how long the model thinks; None for its own default.
        backend: who plays the turns; None for what the model asks for.  An
            object that opens sessions is a backend too.
        command: the program behind a backend over stdio, with its arguments;
            None for the one on the PATH.  "acp" needs it.
        cwd: where its tools work; None for where the spawner works.
        lifetime: what it wants where the spawner says nothing; None for "task".
        tools: names, functions and tools that it may use, and no others; () for
            none at all.  None for what the backend grants by itself: a coding
            agent its own, a model nothing, or what reads if its definition
            is a file.
        disallowed_tools: names taken away from those again.
        must_call_tool: a turn that used no tool has failed.  A function has none to use.
        permission_mode: what a coding agent may do without asking.
        approve: who is asked before a tool acts; None for each tool's own default.
        skills: names of what it may read up on.
        mcp_servers: names of servers from `.mcp.json`, and servers.
        handoffs: agents that it may pass a conversation on to, who then answer in
            its place: its model has a tool for each.  Names are those of the roster
            that whoever spawns it gives.
        agents: agents that it may have at work, by the tool `subagent`.  An agent
            that names that tool and nobody here may have all of the roster.
        concurrency: of those, how many it may have at work at once; None for 4.
        schema: a type that msgspec decodes.  The answer is then data of that
            type, and a model that does not give it has failed.
        check_input: functions that see a task first and may refuse it.
        check_output: functions that see an answer first and may refuse it.
        limits: what it may spend.
        max_requests: requests to the model within one turn, those that are tried again
            not counted; one that needs more has failed as `runaway`.  None for the
            backend's default.  Of the coding agents only claude keeps to it.
        timeout: seconds that a turn may take; None for no limit.
        idle_timeout: seconds that a model's server may say nothing in the
            middle of a turn.
        max_tokens: most tokens of one answer; None for the server's own limit.
        temperature: None for the server's own.
        context: what happens when its context is nearly full.
        context_threshold: the share of its context from where on that is so.
        remember: what it still knows after a restart by its supervisor.
        path: the file that it was read from; None when it was made in code.
        source: what kind of place that file is in.
        color: how displays may show its name.

    Examples:
        >>> Agent("scout", "Say what the file does.", lifetime="workflow").name
        'scout'
        >>> Agent("clerk", "File it.", tools=[], must_call_tool=True)
        Traceback (most recent call last):
        ...
        ValueError: agent 'clerk' must call a tool and has none: leave out one of the two
    """

    name: str = field(validator=check_name)
    mind: str | MindFunction = field(validator=check_mind)
    description: str = field(default="", kw_only=True)
    model: str | None = field(default=None, kw_only=True)
    fallback_models: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_models)
    effort: Effort | None = field(
        default=None, kw_only=True, validator=one_of(*EFFORTS, what="an effort")
    )
    backend: Any = field(default=None, kw_only=True, validator=_check_backend)
    command: tuple[str, ...] | None = field(default=None, kw_only=True, converter=_as_command)
    cwd: Path | None = field(default=None, kw_only=True, converter=_as_path)
    lifetime: Lifetime | None = field(default=None, kw_only=True, validator=_check_lifetime)
    tools: tuple[ToolLike, ...] | None = field(default=None, kw_only=True, converter=_as_tools)
    disallowed_tools: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_disallowed)
    must_call_tool: bool = field(default=False, kw_only=True)
    permission_mode: PermissionMode | None = field(
        default=None, kw_only=True, validator=one_of(*PERMISSION_MODES, what="a permission mode")
    )
    approve: Any = field(default=None, kw_only=True)
    skills: tuple[str, ...] = field(default=(), kw_only=True, converter=_as_skills)
    mcp_servers: tuple[str | McpServer, ...] = field(
        default=(), kw_only=True, converter=_as_servers
    )
    handoffs: tuple[Agent | str, ...] = field(default=(), kw_only=True, converter=_as_handoffs)
    agents: tuple[Agent | str, ...] = field(default=(), kw_only=True, converter=_as_agents)
    concurrency: int | None = field(default=None, kw_only=True, validator=check_count)
    schema: Any = field(default=None, kw_only=True)
    check_input: tuple[Callable[..., Any], ...] = field(
        default=(), kw_only=True, converter=_as_input_checks
    )
    check_output: tuple[Callable[..., Any], ...] = field(
        default=(), kw_only=True, converter=_as_output_checks
    )
    limits: Limits | None = field(default=None, kw_only=True)
    max_requests: int | None = field(default=None, kw_only=True, validator=check_count)
    timeout: float | None = field(default=None, kw_only=True, validator=check_positive)
    idle_timeout: float = field(default=120.0, kw_only=True, validator=check_positive)
    max_tokens: int | None = field(default=None, kw_only=True, validator=check_count)
    temperature: float | None = field(default=None, kw_only=True)
    context: ContextPolicy = field(default="fail", kw_only=True)
    context_threshold: float = field(default=0.8, kw_only=True, validator=check_share)
    remember: Remember = field(default="fresh", kw_only=True)
    path: Path | None = field(default=None, kw_only=True, converter=_as_path)
    source: AgentSource | None = field(default=None, kw_only=True)
    color: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        # Here, because a type checker takes the type of a field from its default and its validator.
        _check_context(self, None, self.context)
        _check_remember(self, None, self.remember)
        if self.must_call_tool and self.tools == ():
            raise ValueError(
                f"agent {self.name!r} must call a tool and has none: leave out one of the two"
            )
        if self.must_call_tool and self.is_function:
            raise ValueError(
                f"agent {self.name!r} must call a tool, and its mind is a function, which has"
                " none: leave must_call_tool out, or let the function see to that itself"
            )
        if self.backend == "acp" and self.command is None:
            raise ValueError(
                f"agent {self.name!r} has the backend acp, which needs command=: the program "
                "that speaks it, as in ('gemini', '--acp')"
            )

    @property
    def is_function(self) -> bool:
        """Its mind is a function, so that it needs no model."""
        return not isinstance(self.mind, str)

    @property
    def actor_kind(self) -> Kind:
        """How a cell runs a subagent of it: an agent stands wherever an actor class may.

        Raises:
            ValueError: its lifetime is "session", and nobody names one.
        """
        from .subagent import subagent

        return subagent(self).actor_kind


def has_others(agent: Agent) -> bool:
    """Whether it may hand over, or delegate."""
    return bool(agent.handoffs or agent.agents or (agent.tools and DELEGATE in agent.tools))


def agent_of(who: Agent | MindFunction) -> Agent:
    """`who` as an agent; a function becomes one of its own name.

    Raises:
        TypeError: it is neither.

    Examples:
        >>> async def shout(task: str) -> str:
        ...     return task.upper()
        >>> agent_of(shout).name
        'shout'
    """
    if isinstance(who, Agent):
        return who
    if isinstance(who, type) or not callable(who):
        raise TypeError(f"an Agent or a function stands for an agent, not {who!r}")
    name = getattr(who, "__name__", "")
    # A lambda or a partial has no name that could stand in an id.
    return Agent(name if name.isidentifier() else "function", who)


@overload
def agent(function: MindFunction, /) -> Agent: ...


@overload
def agent(*, name: str = ..., **fields: Any) -> Callable[[MindFunction], Agent]: ...


def agent(
    function: MindFunction | None = None, /, *, name: str | None = None, **fields: Any
) -> Agent | Callable[[MindFunction], Agent]:
    """An agent of a function; as a decorator, with or without fields.

    Args:
        function: its mind.  The first line of its docstring is the description.
        name: of the agent; None for that of the function.
        fields: as :class:`Agent` has them.

    Raises:
        TypeError: there is no such field, or it is no function.
        ValueError: a field cannot hold what it is given.

    Examples:
        >>> @agent(lifetime="workflow")
        ... async def shout(task: str) -> str:
        ...     "Says it louder."
        ...     return task.upper()
        >>> shout.name, shout.description, shout.lifetime
        ('shout', 'Says it louder.', 'workflow')
    """

    def make(mind: MindFunction) -> Agent:
        if isinstance(mind, Agent):
            raise TypeError(f"{mind.name!r} is an agent already; say its fields where it is made")
        made = agent_of(mind)
        said: dict[str, Any] = {
            "description": (inspect.getdoc(mind) or "").strip().partition("\n")[0],
            **fields,
        }
        return Agent(name or made.name, mind, **said)

    return make if function is None else make(function)


def resolve_lifetime(asked: Lifetime | None, agent: Agent) -> tuple[Lifetime, LifetimeSource]:
    """The lifetime of a subagent, and where it comes from.

    Persistence is asked for: by the argument first, then by the agent itself.

    Examples:
        >>> resolve_lifetime(None, Agent("coder", "Write it.", lifetime="workflow"))
        ('workflow', 'agent')
        >>> resolve_lifetime("task", Agent("coder", "Write it.", lifetime="workflow"))
        ('task', 'argument')
        >>> resolve_lifetime(None, Agent("scout", "Find it."))
        ('task', 'default')

    Raises:
        ValueError: `asked` is no lifetime.
    """
    if asked is not None:
        _check_lifetime(agent, None, asked)
        return asked, "argument"
    if agent.lifetime is not None:
        return agent.lifetime, "agent"
    return "task", "default"
