"""An agent is a definition: who is asked, and in which terms.  It is inert."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

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

_NAME_LIMIT = 100
# Ids are made of names ("scout#2"), and files of ids.
_NOT_IN_NAMES = frozenset("#/\\:")


def _check_name(_agent: object, _attribute: object, name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"an agent's name is a str, not {type(name).__name__}")
    if not name or name != name.strip() or not name.isprintable() or name in (".", ".."):
        raise ValueError(
            f"an agent's name is printable text without outer space, not {name[:40]!r}"
        )
    if len(name) > _NAME_LIMIT:
        raise ValueError(f"an agent's name has at most {_NAME_LIMIT} characters, not {len(name)}")
    if bad := _NOT_IN_NAMES.intersection(name):
        raise ValueError(f"an agent's name may not hold {sorted(bad)[0]!r}: {name!r}")


def _check_lifetime(_agent: object, _attribute: object, lifetime: Any) -> None:
    if lifetime is not None and lifetime not in LIFETIMES:
        raise ValueError(f"a lifetime is one of {', '.join(LIFETIMES)}, not {lifetime!r}")


def _check_positive(_agent: object, attribute: Any, number: Any) -> None:
    if number is not None and not number > 0:
        raise ValueError(f"{attribute.name} is more than 0, not {number!r}")


def _check_mind(_agent: object, _attribute: object, mind: Any) -> None:
    if not isinstance(mind, str) and not callable(mind):
        raise TypeError(f"an agent has a prompt or a function, not {type(mind).__name__}")


@frozen
class Agent:
    """Who may be spawned: a name, and a prompt or a function.

    Args:
        name: printable, at most 100 characters, without ``# / \\ :``.
        mind: the system prompt for a model, word for word, or a function of
            the task: then the agent needs no model.
        description: what others read to choose it.
        model: as in "openai/gpt-5-mini"; None for the default of whoever spawns it.
        lifetime: what it wants where the spawner says nothing; None for "task".
        schema: a type that msgspec decodes.  The answer is then data of that
            type, and a model that does not give it has failed.
        timeout: seconds that a turn may take; None for no limit.
        idle_timeout: seconds that a model's server may say nothing in the
            middle of a turn.
        max_tokens: most tokens of one answer; None for the server's own limit.
        temperature: None for the server's own.

    Examples:
        >>> Agent("scout", "Say what the file does.", lifetime="workflow").name
        'scout'
    """

    name: str = field(validator=_check_name)
    mind: str | MindFunction = field(validator=_check_mind)
    description: str = field(default="", kw_only=True)
    model: str | None = field(default=None, kw_only=True)
    lifetime: Lifetime | None = field(default=None, kw_only=True, validator=_check_lifetime)
    schema: Any = field(default=None, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True, validator=_check_positive)
    idle_timeout: float = field(default=120.0, kw_only=True, validator=_check_positive)
    max_tokens: int | None = field(default=None, kw_only=True, validator=_check_positive)
    temperature: float | None = field(default=None, kw_only=True)

    @property
    def is_function(self) -> bool:
        """Its mind is a function, so that it needs no model."""
        return not isinstance(self.mind, str)


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
