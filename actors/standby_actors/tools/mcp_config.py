"""MCP servers as they are written down: `.mcp.json`, or `mcpServers` in line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from ..agent import Agent, McpServer

FILE_NAME = ".mcp.json"

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KEYS = ("command", "args", "env", "cwd", "url", "headers", "type", "transport")
_LOCAL = ("stdio",)
_REMOTE = ("http", "streamable-http", "streamable_http", "streamableHttp")


class McpError(Exception):
    """Base of what is wrong with an MCP server, or with what is written about it.

    McpError
    ├── BadMcpConfig    what is written about servers cannot be used
    ├── NoMcp           the package `mcp` is not installed
    └── McpStartFailed  a server did not start, or does not speak MCP
    """


class BadMcpConfig(McpError):
    """Raised on servers that are not written as they should be; says where and how."""


def read_servers(where: Path | Mapping[str, Any]) -> dict[str, McpServer]:
    """The servers of a `.mcp.json`, or of its contents, by name.

    ``${NAME}`` in values of `env` and `headers` stays as it is: it is replaced
    when the server is started, so that no secret stands in what was read.

    Args:
        where: a file, or ``{"mcpServers": {…}}``, or the inner part of that.

    Raises:
        BadMcpConfig: something in it cannot be used.

    Examples:
        >>> read_servers({"git": {"command": "git-mcp", "args": ["--stdio"]}})["git"].args
        ('--stdio',)
    """
    said = ""
    if isinstance(where, Path):
        said = f"{where}: "
        try:
            held: Any = msgspec.json.decode(where.read_bytes())
        except OSError as error:
            raise BadMcpConfig(f"{said}{error.strerror}") from error
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadMcpConfig(f"{said}it is no JSON: {error}") from error
    else:
        held = where
    if isinstance(held, Mapping) and "mcpServers" in held:
        held = held["mcpServers"]
    if not isinstance(held, Mapping):
        raise BadMcpConfig(f"{said}servers are an object, by name")
    return {str(name): _server(said, str(name), each) for name, each in held.items()}


def servers_of(agent: Agent) -> tuple[McpServer, ...]:
    """The servers of `agent`; those that it only names are read from the `.mcp.json` nearest to it.

    Raises:
        BadMcpConfig: it names one that is nowhere written down.
    """
    written: dict[str, McpServer] | None = None
    servers: list[McpServer] = []
    for each in agent.mcp_servers:
        if isinstance(each, McpServer):
            servers.append(each)
            continue
        if written is None:
            written = _written_for(agent.cwd or Path.cwd())
        if each not in written:
            near = get_close_matches(each, written, 1)
            meant = f"; do you mean {near[0]!r}?" if near else ""
            raise BadMcpConfig(
                f"the agent {agent.name!r} names the MCP server {each!r}, which is in no"
                f" {FILE_NAME}{meant}; there are: {', '.join(written) or 'none'}"
            )
        servers.append(written[each])
    return tuple(servers)


def _written_for(folder: Path) -> dict[str, McpServer]:
    folder = folder.resolve()
    for each in (folder, *folder.parents):
        file = each / FILE_NAME
        if file.is_file():
            return read_servers(file)
    return {}


def find_servers(said: Iterable[str | McpServer], cwd: Path) -> tuple[McpServer, ...]:
    """The servers that `said` names, and those that it holds.

    Args:
        said: names are looked up in the nearest `.mcp.json`, from `cwd` upwards.
        cwd: where to begin.

    Raises:
        BadMcpConfig: there is no such server, or no such file.
    """
    servers: list[McpServer] = []
    known: dict[str, McpServer] | None = None
    path: Path | None = None
    for each in said:
        if isinstance(each, McpServer):
            servers.append(each)
            continue
        if known is None:
            path = next(
                (here / FILE_NAME for here in (cwd, *cwd.parents) if (here / FILE_NAME).is_file()),
                None,
            )
            known = {} if path is None else read_servers(path)
        if each not in known:
            near = get_close_matches(each, known, 1)
            meant = f"; do you mean {near[0]!r}?" if near else ""
            where = f"{path} does not have it" if path else f"there is no {FILE_NAME} at {cwd}"
            raise BadMcpConfig(f"the MCP server {each!r} is not known: {where}{meant}")
        servers.append(known[each])
    return tuple(servers)


def _server(said: str, name: str, held: Any) -> McpServer:
    where = f"{said}server {name!r}"
    if not isinstance(held, Mapping):
        raise BadMcpConfig(f"{where} is no object")
    for key in held:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, 1)
            meant = f"do you mean {near[0]!r}?" if near else f"there are {', '.join(_KEYS)}"
            raise BadMcpConfig(f"{where}: unknown key {key!r}; {meant}")
    kind = held.get("type", held.get("transport"))
    if kind is not None and kind not in (*_LOCAL, *_REMOTE):
        raise BadMcpConfig(
            f"{where}: type {kind!r} is not spoken; there are stdio (a command) and http (a url)"
        )
    for key in ("env", "headers"):
        values: Any = held.get(key, {})
        if not isinstance(values, Mapping) or not all(isinstance(v, str) for v in values.values()):
            # Not what it is: it may be a secret.
            raise BadMcpConfig(f"{where}: {key} is an object of texts")
    try:
        return McpServer(
            name,
            command=held.get("command"),
            args=held.get("args", ()),
            env=dict(held.get("env", {})),
            cwd=held.get("cwd"),
            url=held.get("url"),
            headers=dict(held.get("headers", {})),
        )
    except (TypeError, ValueError) as error:
        raise BadMcpConfig(f"{where}: {error}") from error


def expand(values: Mapping[str, str], env: Mapping[str, str], where: str) -> dict[str, str]:
    """`values` with each ``${NAME}`` and ``${NAME:-default}`` replaced from `env`.

    Raises:
        BadMcpConfig: a variable without a default is not set.

    Examples:
        >>> expand({"KEY": "Bearer ${T}", "MODE": "${M:-fast}"}, {"T": "t"}, "server 'x'")
        {'KEY': 'Bearer t', 'MODE': 'fast'}
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name in env:
            return env[name]
        if default is None:
            raise BadMcpConfig(f"{where} needs the environment variable {name}, which is not set")
        return default

    return {name: _VARIABLE.sub(value, text) for name, text in values.items()}
