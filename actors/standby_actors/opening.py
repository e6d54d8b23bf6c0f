"""Who answers for an agent: from what the spawner and the agent say to an open session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypedDict, get_args

from attrs import evolve

from .agent import Agent
from .models import open_model
from .session import Backend, Memory, Recalls, Session
from .sessions import backends
from .sessions.function import FunctionSession
from .sessions.wires import Api

if TYPE_CHECKING:
    from .tools.tool import Tool


class Model(Protocol):
    """Whoever opens conversations that hold nothing: an opened model, or a stand-in for one."""

    def session(self, agent: Agent, /) -> Session:
        """A new conversation for `agent`, which remembers nothing of any other."""
        ...


SessionMaker: TypeAlias = Callable[[Agent], Session]

Opener: TypeAlias = Callable[[Memory | None], AbstractAsyncContextManager[Session]]
"""Opens a session, with what it is to remember, for the length of a block."""


class Minds(TypedDict, total=False):
    """Who is to answer, as whoever spawns can say it; the first that is given counts."""

    session: Session | SessionMaker | None
    """The conversation to have, or what makes one."""
    backend: Backend | None
    """Whoever opens sessions, for agents that are no functions."""
    model: str | Model | None
    """The name of a model, or an opened one to share; None for the agent's, or
    else the default of the environment."""
    env: Mapping[str, str] | None
    """The environment to find a model by; None for the process's own."""
    instructions: Path | None
    """A folder of the project whose AGENTS.md, or CLAUDE.md, a model is told.  Coding
    agents look for it themselves."""


class CannotRecall(RuntimeError):
    """Raised where a session that was given cannot be opened a second time."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return (
            f"{self.agent} was given one session, which cannot be opened anew;"
            " give a function that makes sessions, or a model"
        )


def at_hand(agent: Agent, minds: Minds) -> Session | None:
    """The session of `agent`, where opening it needs no waiting and holds nothing.

    Raises:
        BadAgent: it is a function, and names a tool or a skill that there is not.
        BadMcpConfig: it is a function, and names an MCP server that there is not.
    """
    session = minds.get("session")
    if session is not None:
        return session(agent) if callable(session) else session
    if not isinstance(agent.mind, str):
        if agent.tools or agent.disallowed_tools or agent.skills or agent.mcp_servers:
            from .told import check_names

            check_names(agent, minds.get("env"))
        return FunctionSession(agent.mind, agent.schema)
    model = minds.get("model")
    # Servers of tools, and models to fall back on, are opened and closed.
    opens = agent.mcp_servers or agent.fallback_models or agent.skills or _is_named(agent, minds)
    if opens or model is None or isinstance(model, str):
        return None
    return model.session(_told(agent, minds)[0])


def opener(agent: Agent, minds: Minds, opened: int = 0, tools: tuple[Tool, ...] = ()) -> Opener:
    """What opens sessions for `agent`, of which `opened` have been opened already.

    Its model is given `tools` besides those that its agent names.

    What it opens raises :class:`~standby_actors.models.ModelError` where there
    is no such model, or no way to ask it, and :class:`CannotRecall` where the
    one session that was given is to be opened again.
    """

    @asynccontextmanager
    async def open_session(memory: Memory | None) -> AsyncGenerator[Session]:
        nonlocal opened
        opened += 1
        given: Any = minds.get("session")
        if opened > 1 and given is not None and not callable(given):
            raise CannotRecall(agent.name)
        session = at_hand(agent, minds) if given is not None or not tools else None
        if session is not None:
            recall(session, memory)
            yield session
            return
        backend = minds.get("backend")
        if backend is None and agent.backend is not None:
            backend = _backend(agent, minds)
        if backend is not None:
            model = minds.get("model")
            # One that is named is asked for; an opened one is for those who speak HTTP.
            who = evolve(agent, model=model) if isinstance(model, str) else agent
            async with backend.open(who, memory) as session:
                yield session
            return
        async with AsyncExitStack() as stack:
            session = await _chat(agent, minds, stack, tools)
            recall(session, memory)
            yield session

    return open_session


async def _chat(
    agent: Agent, minds: Minds, stack: AsyncExitStack, given: tuple[Tool, ...]
) -> Session:
    """A session with a chat model, of which `stack` holds everything open."""
    env = minds.get("env")
    api = api_of(agent)
    model: Any = minds.get("model") or agent.model
    if model is None or isinstance(model, str):
        model = await stack.enter_async_context(open_model(model, env=env, api=api))
    more: dict[str, Any] = {}
    agent, tools = _told(agent, minds)
    tools += given
    if agent.fallback_models:
        more["fallbacks"] = [
            await stack.enter_async_context(open_model(name, env=env))
            for name in agent.fallback_models
        ]
    if agent.mcp_servers:
        from .tools.mcp_client import open_mcp_servers
        from .tools.mcp_config import servers_of

        opened = open_mcp_servers(servers_of(agent), env=env)
        connections = await stack.enter_async_context(opened)
        tools += tuple(tool for each in connections for tool in each.tools)
    if tools:
        more["tools"] = tools
    session: Session = model.session(agent, **more)
    return session


def is_of_model(agent: Agent) -> bool:
    """Whether a model that speaks HTTP answers for `agent`: no function, nor a backend."""
    return not agent.is_function and (agent.backend is None or api_of(agent) is not None)


def api_of(agent: Agent) -> Api | None:
    """The API that `agent` asks for by name; None for what its model's address says."""
    named: Any = agent.backend
    return named if named in get_args(Api) else None


def _is_named(agent: Agent, minds: Minds) -> bool:
    """Whether somebody names a backend that opens sessions."""
    return minds.get("backend") is not None or (agent.backend is not None and api_of(agent) is None)


def _told(agent: Agent, minds: Minds) -> tuple[Agent, tuple[Tool, ...]]:
    """`agent` as its model is told of it, where that is more than its prompt."""
    instructions = minds.get("instructions")
    if not (agent.skills or agent.source or agent.tools or instructions):
        return agent, ()
    from .told import told

    return told(agent, instructions, minds.get("env"))


def _backend(agent: Agent, minds: Minds) -> Backend | None:
    """The backend that `agent` names; None for the chat models."""
    named: Any = agent.backend
    if isinstance(named, str):
        return backends.named(named, minds.get("env"))
    backend: Backend | None = named  # an object that opens sessions
    return backend


def recall(session: Session, memory: Memory | None) -> None:
    """Have `session` begin with `memory`, if there is one and it can."""
    if memory is not None and isinstance(session, Recalls):
        session.recall(memory)
