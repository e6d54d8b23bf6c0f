"""A tool is something that a mind may call: a name, a JSON schema, and what runs.

:func:`tool` makes one of a typed Python function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, overload

import msgspec
import trio
from attrs import define, field, frozen

from ..result import Attachment, ToolCall
from ..session import Handoff
from .schema import problems_of
from .signature import Signature, docs_of
from .text import as_text

TIMEOUT_SECONDS = 60.0
"""What a call may take, where its tool says nothing."""

THREADS = 64
"""Plain functions at work at once in one run of trio, those that were left behind included."""

Approval = Literal["allow", "ask"]
"""Whether calls of a tool just run, or whoever approves is asked first."""

# What every provider takes.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOutput(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True):
    """What a mind is told of its call."""

    text: str
    is_error: bool = False
    """The tool failed or was refused; the text says how, and what to do."""
    attachments: tuple[Attachment, ...] = ()
    ends_turn: bool = False
    """Nothing more is wanted of the mind in this turn: the calls beside this one are
    answered, and the model is not asked again."""
    handoff: Handoff | None = None
    """Who goes on with the conversation, where that is what the call was for."""


def refuse(text: str) -> ToolOutput:
    """An output that tells a mind why not, and what to do instead."""
    return ToolOutput(text, is_error=True)


@define(eq=False)
class ToolContext:
    """Who calls, and how to tell how far it has come."""

    call: ToolCall
    subagent: str = ""
    """Id of the subagent whose mind calls, as in "scout#2"; empty where there is none."""
    progress: Callable[[str], None] = field(default=lambda _: None, repr=False)
    """Tell people, in a few words, what is being done.  The mind does not see it."""


Run: TypeAlias = Callable[[dict[str, Any], ToolContext], Awaitable[ToolOutput | str]]
Check: TypeAlias = Callable[[dict[str, Any]], Sequence[str]]


def _check_name(_tool: object, _attribute: object, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "a tool's name has 1 to 64 of the characters A-Z a-z 0-9 _ -,"
            f" which providers take; {name!r:.80} does not"
        )


def _check_timeout(_tool: object, _attribute: object, seconds: Any) -> None:
    if not seconds > 0:
        raise ValueError(f"a tool's timeout is more than 0 seconds, not {seconds!r}")


@frozen(eq=False)
class Tool:
    """Something that a mind may call.

    Args:
        name: 1 to 64 letters, digits, ``_`` and ``-``.
        description: what it does, for the mind.
        parameters: JSON schema of its arguments, an object.
        run: does it.  It is given arguments that passed `check`.  What it
            raises is told to the mind as an error; a cancellation passes.
        timeout: seconds that one call may take.
        approval: "ask" to have every call approved first.
        read_only: it changes nothing, anywhere.
        check: says everything that is wrong with some arguments, a sentence
            each; None to hold them against `parameters`.
        in_order: of the calls of one message to such tools, each begins when the
            one before has ended; others run side by side.
        leaves_thread: cut, it leaves a thread behind that works on.
    """

    name: str = field(validator=_check_name)
    description: str
    parameters: Mapping[str, Any] = field(repr=False)
    run: Run = field(repr=False)
    timeout: float = field(default=TIMEOUT_SECONDS, kw_only=True, validator=_check_timeout)
    approval: Approval = field(default="allow", kw_only=True)
    read_only: bool = field(default=False, kw_only=True)
    check: Check | None = field(default=None, kw_only=True, repr=False)
    in_order: bool = field(default=False, kw_only=True, repr=False)
    leaves_thread: bool = field(default=False, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.approval not in ("allow", "ask"):
            raise ValueError(f'a tool\'s approval is "allow" or "ask", not {self.approval!r}')

    def problems(self, arguments: dict[str, Any]) -> tuple[str, ...]:
        """Everything that is wrong with `arguments`, a sentence each; empty if nothing is."""
        if self.check is not None:
            return tuple(self.check(arguments))
        return problems_of(self.parameters, arguments)


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    approval: Approval = "allow",
    read_only: bool = False,
    in_order: bool = False,
) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    approval: Approval = "allow",
    read_only: bool = False,
    in_order: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
    approval: Approval = "allow",
    read_only: bool = False,
    in_order: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """A tool of a typed function; also as a decorator, with or without options.

    The schema is that of the signature: what msgspec decodes may stand there,
    with defaults, ``Annotated[int, "what it means"]``, ``Literal``, structs and
    lists.  A parameter of type :class:`ToolContext` is not shown to the mind and
    is given the context of the call.  An async function is awaited.  A plain one
    runs in a thread; when it is cut, by its timeout or by the end of the turn,
    nobody waits for it and the thread works on, because nothing can stop it.

    What it returns is told as text: a str as it is, other values as JSON.  What
    it raises is told by type and message.

    Args:
        function: its name, docstring and ``Args:`` speak to the mind.
        name: instead of the function's own.
        description: instead of the docstring's beginning, up to ``Args:``.
        timeout: seconds that one call may take.
        approval: "ask" to have every call approved first.
        read_only: it changes nothing, anywhere.
        in_order: its calls of one message run one after the other.

    Raises:
        TypeError: a parameter has no type, or one that msgspec cannot decode;
            or it takes ``*args`` or ``**kwargs``.
        ValueError: there is no name that could be a tool's.

    Examples:
        >>> @tool
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> add.name, add.description, add.parameters["required"]
        ('add', 'Add two numbers.', ['a'])
        >>> add.problems({"a": "x", "c": 1})
        ("`a` must be an integer, and is 'x'", '`c` is not a parameter; there are a, b')
    """
    if function is None:
        return partial(
            tool,
            name=name,
            description=description,
            timeout=timeout,
            approval=approval,
            read_only=read_only,
            in_order=in_order,
        )
    known_as = name if name is not None else str(getattr(function, "__name__", ""))
    if not _NAME.fullmatch(known_as):
        raise ValueError(f"{function!r} has no name that could be a tool's: say name=…")
    docs = docs_of(function)
    signature = Signature.of(function, known_as, docs.arguments, ToolContext)
    is_async = _is_async(function)

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        given = signature.read(arguments)
        if signature.context is not None:
            given[signature.context] = context
        call = signature.bound(function, given)
        if is_async:
            return as_output(await call())
        answer = await trio.to_thread.run_sync(
            call, abandon_on_cancel=True, limiter=thread_limiter()
        )
        # A partial or a lambda may hide that it is async.
        return as_output(await answer if inspect.isawaitable(answer) else answer)

    return Tool(
        known_as,
        docs.summary if description is None else description,
        signature.parameters,
        run,
        timeout=timeout,
        approval=approval,
        read_only=read_only,
        in_order=in_order,
        check=signature.problems,
        leaves_thread=not is_async,
    )


def names_tool(said: str, name: str) -> bool:
    """Whether `said`, as an agent lists it, is the tool `name` or takes it in.

    Only whole servers can be named with a pattern.

    Examples:
        >>> names_tool("read", "read"), names_tool("mcp__git", "mcp__git__log")
        (True, True)
        >>> names_tool("mcp__git__*", "mcp__git__log"), names_tool("mcp__git", "mcp__github__log")
        (True, False)
    """
    if said == name:
        return True
    server = said.removesuffix("*").removesuffix("__")
    return server.startswith("mcp__") and name.startswith(f"{server}__") and said != server + "*"


def tool_of(what: Tool | Callable[..., Any]) -> Tool:
    """`what` as a tool; a function becomes one by its signature.

    Raises:
        TypeError, ValueError: see :func:`tool`.
    """
    return what if isinstance(what, Tool) else tool(what)


def as_output(value: Any) -> ToolOutput:
    """Whatever a tool returned, as what the mind is told.

    Examples:
        >>> as_output(["a", 1]).text
        '["a",1]'
    """
    if isinstance(value, ToolOutput):
        return value
    if isinstance(value, Attachment):
        return ToolOutput(f"{value.name or 'attached'} ({value.media_type})", attachments=(value,))
    return ToolOutput(as_text(value))


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    kind: Any = type(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(kind.__call__)


_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("standby tool threads")


def thread_limiter() -> trio.CapacityLimiter:
    """What bounds the threads of tools, in this run of trio."""
    # Not trio's own: threads that were left behind hold their place, and would in
    # the end let nothing else in the program use a thread.
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
