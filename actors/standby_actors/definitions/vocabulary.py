"""What other tools call the things of ours: tools, models, efforts, permission modes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

OURS = ("read", "grep", "find", "ls", "edit", "write", "shell", "subagent")
"""Tools that a definition may name without anything else being set up."""

READING = ("read", "grep", "find", "ls")
"""Those that only read: what an agent has that says nothing of tools."""

_TOOLS: Mapping[str, str] = {
    "read": "read",
    "view": "read",
    "grep": "grep",
    "search": "grep",
    "find": "find",
    "glob": "find",
    "ls": "ls",
    "list": "ls",
    "edit": "edit",
    "multiedit": "edit",
    "write": "write",
    "shell": "shell",
    "bash": "shell",
    "subagent": "subagent",
    "agent": "subagent",
    "task": "subagent",
}

ELSEWHERE = frozenset(
    (
        "AskUserQuestion",
        "BashOutput",
        "EnterPlanMode",
        "ExitPlanMode",
        "KillShell",
        "LSP",
        "ListMcpResourcesTool",
        "Monitor",
        "NotebookEdit",
        "NotebookRead",
        "PowerShell",
        "ReadMcpResourceTool",
        "SendMessage",
        "Skill",
        "TaskCreate",
        "TaskGet",
        "TaskList",
        "TaskOutput",
        "TaskStop",
        "TaskUpdate",
        "TodoRead",
        "TodoWrite",
        "ToolSearch",
        "WebFetch",
        "WebSearch",
    )
)
"""Tools that Claude Code brings and we do not."""

# Where Claude Code said in 2026 that its floating names point; its own variables
# name others.
_MODELS: Mapping[str, tuple[str, str]] = {
    "sonnet": ("ANTHROPIC_DEFAULT_SONNET_MODEL", "claude-sonnet-5"),
    "opus": ("ANTHROPIC_DEFAULT_OPUS_MODEL", "claude-opus-4-8"),
    "haiku": ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "claude-haiku-4-5"),
}

MODEL_WORDS = (*_MODELS, "inherit")

_FAMILIES = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
)

EFFORT_WORDS: Mapping[str, str] = {"off": "none", "ultra": "max"}


def tool_of(name: str) -> str:
    """What we call the tool `name`; one that we do not have keeps its name.

    A pattern stays with it: to grant more than was written is not ours to do.

    Examples:
        >>> tool_of("Glob"), tool_of("Bash(git log *)"), tool_of("WebFetch")
        ('find', 'shell(git log *)', 'WebFetch')
    """
    base, bracket, pattern = name.partition("(")
    return _TOOLS.get(base.strip().casefold(), base.strip()) + bracket + pattern


def is_pattern(name: str) -> bool:
    """The name grants some uses of a tool and not others, as in "shell(git log *)"."""
    return "(" in name


def model_of(name: str, env: Mapping[str, str]) -> str | None:
    """The model that `name` stands for; None for "inherit", that of whoever spawns.

    Examples:
        >>> model_of("claude-haiku-4-5", {}), model_of("inherit", {})
        ('anthropic/claude-haiku-4-5', None)
        >>> model_of("opus", {"ANTHROPIC_DEFAULT_OPUS_MODEL": "claude-opus-9"})
        'anthropic/claude-opus-9'
        >>> model_of("openai/gpt-5-mini", {})
        'openai/gpt-5-mini'
    """
    if name.casefold() == "inherit":
        return None
    if alias := _MODELS.get(name.casefold()):
        variable, model = alias
        name = env.get(variable, "").strip() or model
    if "/" not in name and ":" not in name:
        for pattern, provider in _FAMILIES:
            if pattern.match(name):
                return f"{provider}/{name}"
    return name


def snake(key: str) -> str:
    """A key as we write it, however somebody else does.

    Examples:
        >>> snake("mcpServers"), snake("max-turns"), snake("MCPServers"), snake("name")
        ('mcp_servers', 'max_turns', 'mcp_servers', 'name')
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key.strip())
    return re.sub(r"[\s_-]+", "_", parted).lower()


def listed(text: str) -> Iterator[str]:
    """The names in a line with commas; a comma in brackets parts nothing.

    Examples:
        >>> list(listed("Read, Bash(git add, git commit), ,Grep"))
        ['Read', 'Bash(git add, git commit)', 'Grep']
    """
    depth, begin = 0, 0
    for at, letter in enumerate(text + ","):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth = max(0, depth - 1)
        # The last comma is ours: it ends a bracket that nobody closed, too.
        elif letter == "," and (depth == 0 or at == len(text)):
            if name := text[begin:at].strip():
                yield name
            begin = at + 1


def granted(
    tools: Iterable[object] | None, disallowed: Iterable[str], default: Iterable[str] = READING
) -> tuple[object, ...]:
    """The tools that an allowlist comes to: what it names, or the default, less what is denied.

    Args:
        tools: as an agent says them; None for `default`.
        disallowed: names that are taken away again.

    Examples:
        >>> granted(None, ["grep"]), granted((), []), granted(["read", "edit"], ["edit"])
        (('read', 'find', 'ls'), (), ('read',))
    """
    denied = set(disallowed)
    kept = default if tools is None else tools
    return tuple(each for each in kept if _name_of(each) not in denied)


def _name_of(tool: object) -> str:
    if isinstance(tool, str):
        return tool
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))
