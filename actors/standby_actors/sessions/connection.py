"""One model that sessions ask: its connections, its limits, and what its server said of waiting."""

from __future__ import annotations

import hashlib
import importlib.util
import random as randomness
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from attrs import define, field

from ..agent import Agent
from ..models import ModelSettings, NoClient
from ..session import Capabilities
from .limits import Breaker, Gate, Rate
from .quiet import keep_quiet
from .wires import wire_of
from .wires.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..tools.tool import Tool
    from .chat import ChatSession


_gates: trio.lowlevel.RunVar[dict[tuple[str, str, bytes], Gate]] = trio.lowlevel.RunVar(
    "standby gates"
)


def gate_of(settings: ModelSettings) -> Gate:
    """The gate of whoever asks this model with this key, in this run of trio.

    A model may be opened many times, once for each subagent that names it; the
    provider's limits belong to the key all the same.
    """
    try:
        gates = _gates.get()
    except LookupError:
        gates = {}
        _gates.set(gates)
    except RuntimeError:
        return Gate()  # there is no run yet, and so nobody to share it with
    key = hashlib.sha256(settings.api_key.reveal().encode()).digest()
    return gates.setdefault((settings.base_url, settings.model, key), Gate())


@define(eq=False)
class ChatModel:
    """One model that sessions ask: its connections, and what its server said about waiting.

    Args:
        settings: whom to ask.
        retries: how often a failed request is made again; 0 for never.
        retry_after_cap: seconds; a server that asks for more than this is not
            waited for, and the turn fails with `rate_limited`.
        random: a number from 0 up to 1; spreads those who wait.
        wall: seconds since 1970, to read the dates of servers by.
        requests_per_minute: most requests of all its sessions together; None for no limit.
        tokens_per_minute: most tokens, in and out, of all its sessions together.
    """

    settings: ModelSettings
    retries: int = 2
    retry_after_cap: float = 900.0
    random: Callable[[], float] = field(default=randomness.random, repr=False)
    wall: Callable[[], float] = field(default=time.time, repr=False)
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    wire: Wire = field(init=False, repr=False)
    _requests: Rate | None = field(init=False, default=None, repr=False)
    _tokens: Rate | None = field(init=False, default=None, repr=False)
    capabilities: Capabilities = field(init=False)
    """As declared, and corrected when the server refuses what it was said to take."""
    tells_usage: bool = field(init=False, default=True)
    _client: Any = field(init=False, default=None, repr=False)
    _gate: Gate = field(init=False, repr=False)
    """What its server said of waiting, also to others who ask it with the same key."""

    turnstile: AbstractAsyncContextManager[Any] = field(init=False, repr=False)
    """Holds back the requests that the server would only keep waiting."""

    def __attrs_post_init__(self) -> None:
        self.wire = wire_of(self.settings.api)
        self._gate = gate_of(self.settings)
        self.capabilities = msgspec.structs.replace(
            self.settings.capabilities,
            schema=self.settings.capabilities.schema and self.wire.has_schema,
            tools=True,
            images=self.wire.takes_images,
            files=self.wire.takes_files,
            steer=True,
            follow_up=True,
        )
        if self.requests_per_minute is not None:
            self._requests = Rate(self.requests_per_minute)
        if self.tokens_per_minute is not None:
            self._tokens = Rate(self.tokens_per_minute)
        at_once = self.settings.at_once
        self.turnstile = nullcontext() if at_once is None else trio.CapacityLimiter(at_once)

    @property
    def name(self) -> str:
        """As in "openai/gpt-5-mini"."""
        return self.settings.name

    @property
    def breaker(self) -> Breaker:
        """Shared by all who ask this model with the same key."""
        return self._gate.breaker

    def session(
        self,
        agent: Agent,
        /,
        tools: Sequence[Tool] = (),
        fallbacks: Sequence[ChatModel] = (),
    ) -> ChatSession:
        """A new conversation, which remembers nothing of any other.

        Args:
            agent: whose.
            tools: what it may use besides what its agent names.
            fallbacks: asked in turn, in its place, where it cannot be asked.
        """
        from .chat import ChatSession

        return ChatSession(self, agent, tuple(tools), tuple(fallbacks))

    @property
    def client(self) -> Any:
        """The SDK's client, made when it is first needed."""
        if self._client is None:
            settings = self.settings
            keep_quiet(settings)
            # A proxy of the environment is for the world outside.
            loopback = settings.on_loopback
            # Importing an SDK takes longer than starting most programs.
            if self.wire.sdk == "anthropic":
                from anthropic import AsyncAnthropic
                from anthropic import DefaultAsyncHttpxClient as AnthropicClient

                self._client = AsyncAnthropic(
                    api_key=settings.api_key.reveal(),
                    base_url=settings.base_url.removesuffix("/v1"),  # it adds that itself
                    max_retries=0,  # ours are counted, bounded, and seen by listeners
                    http_client=AnthropicClient(trust_env=False) if loopback else None,
                )
            else:
                from openai import AsyncOpenAI, DefaultAsyncHttpxClient

                self._client = AsyncOpenAI(
                    api_key=settings.api_key.reveal(),
                    base_url=settings.base_url,
                    max_retries=0,  # as above
                    http_client=DefaultAsyncHttpxClient(trust_env=False) if loopback else None,
                )
        return self._client

    async def close(self) -> None:
        """Close the connections; also when cancelled, and never for longer than a second."""
        if self._client is not None:
            client, self._client = self._client, None
            with trio.move_on_after(1.0, shield=True):
                await client.close()

    def hold_off(self, seconds: float) -> None:
        """Let nobody ask for so long: the server's limit belongs to the key, not to a session."""
        self._gate.close(trio.current_time() + seconds, max(0.2 * seconds, 0.5))

    def used(self, tokens: int) -> None:
        """Count what a request has cost against the rates."""
        if self._tokens is not None:
            self._tokens.take(trio.current_time(), tokens)

    def begin(self) -> None:
        """Count a request that is made now."""
        if self._requests is not None:
            self._requests.take(trio.current_time())

    def open_at(self) -> float | None:
        """When this asker may make its next request, on trio's clock; None for at once.

        Whoever asks gets a moment of their own, so that those who wait
        together do not strike together.
        """
        now = trio.current_time()
        rates = (self._requests, self._tokens)
        room = max(0.0 if rate is None else rate.wait(now) for rate in rates)
        gate = self._gate
        if gate.closed_until > now:
            return max(now + room, gate.closed_until + gate.spread * self.random())
        return now + room if room > 0 else None


@asynccontextmanager
async def open_chat_model(
    settings: ModelSettings,
    *,
    retries: int = 2,
    retry_after_cap: float = 900.0,
    random: Callable[[], float] = randomness.random,
    wall: Callable[[], float] = time.time,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
) -> AsyncGenerator[ChatModel]:
    """A chat model for the length of the block; see :class:`ChatModel` for the arguments.

    Raises:
        NoClient: the SDK's package is not installed.
    """
    sdk = wire_of(settings.api).sdk
    if importlib.util.find_spec(sdk) is None:
        raise NoClient(sdk)
    model = ChatModel(
        settings,
        retries,
        retry_after_cap,
        random,
        wall,
        requests_per_minute,
        tokens_per_minute,
    )
    try:
        yield model
    finally:
        await model.close()
