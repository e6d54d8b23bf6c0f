"""The names of OpenTelemetry's GenAI conventions, in one place.

Their status is "development": they change between releases of
``opentelemetry-semantic-conventions``.  These are those of 0.66b2 (2026).
"""

from __future__ import annotations

from typing import Final

# Operations, which are the first word of a span's name.
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
SUBAGENT: Final = "subagent"
"""Ours: the life of one subagent, of which its turns are parts."""

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
ERROR_TYPE: Final = "error.type"
TOKEN_TYPE: Final = "gen_ai.token.type"

# Metrics.
DURATION: Final = "gen_ai.client.operation.duration"
TOKENS: Final = "gen_ai.client.token.usage"

# Ours.
STATUS: Final = "standby.turn.status"
LIFETIME: Final = "standby.subagent.lifetime"
COST: Final = "standby.usage.cost_usd"
CONTEXT_TOKENS: Final = "standby.context_tokens"


def provider_of(model: str) -> str:
    """The provider in the name of a model, as the conventions call it.

    Examples:
        >>> provider_of("openai/gpt-5-mini"), provider_of("gemini/x"), provider_of("")
        ('openai', 'gcp.gemini', '_OTHER')
    """
    provider = model.partition("/")[0]
    return {"openai": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}.get(
        provider, "_OTHER"
    )
