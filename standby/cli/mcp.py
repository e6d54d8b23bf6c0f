"""`standby mcp`: our agents as an MCP server, for other programs' agents to call."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from attrs import evolve
from cyclopts import Parameter

from standby_actors.agent import Agent
from standby_actors.definitions.discovery import BrokenAgent, UnknownAgent, load_agents
from standby_actors.definitions.places import Scope
from standby_actors.running import run
from standby_actors.subagent import spawn
from standby_actors.tools.mcp_config import McpError
from standby_actors.tools.mcp_serving import AT_ONCE, agent_server, serve_stdio

from . import ANSWERED, FAILED, MISUSE
from .text import one_line


def mcp(
    *names: str,
    directory: Annotated[Path, Parameter(name="--in")] = Path("."),
    scope: Scope = "user",
    builtin: bool = True,
    model: str | None = None,
    approve: Annotated[bool, Parameter(negative=())] = False,
    at_once: int = AT_ONCE,
) -> int:
    """Serve agents as an MCP server over stdin and stdout, each as one tool.

    A program that speaks MCP starts this command itself; in its configuration:
    {"mcpServers": {"standby": {"command": "standby", "args": ["mcp", "scout"]}}}

    Exit codes: 0 the client has closed the connection; 1 it cannot serve; 2 misuse;
    143 it was told to end (SIGTERM), and has cut and closed what it had at work.

    Parameters
    ----------
    names
        Which agents; none for all that there are.
    directory
        Where the agents work, and where the project is.
    scope
        Whose definitions: the user's, the project's, or both.
    builtin
        Also serve the agents that come with standby.
    model
        Who answers, for all of them, as in openai/gpt-5-mini.
    approve
        Let tools run that would ask a person first; nobody is here to be asked.
    at_once
        Turns played at the same time.
    """
    if not directory.is_dir():
        print(f"standby: there is no folder {one_line(str(directory))!r}", file=sys.stderr)
        return MISUSE
    if at_once < 1:
        print(f"standby: --at-once is 1 or more, not {at_once}", file=sys.stderr)
        return MISUSE
    found = load_agents(directory, scope=scope, builtin=builtin)
    try:
        agents = [found[name] for name in names] if names else [*found]
    except (UnknownAgent, BrokenAgent) as error:
        print(f"standby: {error}", file=sys.stderr)
        return FAILED
    if not agents:
        print("standby: there are no agents; see standby agents", file=sys.stderr)
        return FAILED
    here, roster = (
        [_placed(agent, directory.resolve(), approve) for agent in dict.fromkeys(each)]
        for each in (agents, found)
    )
    try:
        # Whom those that are served hand over and delegate to need not be served.
        server = agent_server(
            here, spawn=partial(spawn, model=model, roster=roster), at_once=at_once
        )
    except (McpError, ValueError) as error:
        print(f"standby: {error}", file=sys.stderr)
        return FAILED
    # Where a person looks; stdout belongs to the protocol.
    print(f"standby: serving {', '.join(agent.name for agent in here)}", file=sys.stderr)
    run(serve_stdio, server)
    return ANSWERED


def _placed(agent: Agent, directory: Path, approve: bool) -> Agent:
    placed = agent if agent.cwd is not None else evolve(agent, cwd=directory)
    return evolve(placed, approve="allow") if approve else placed
