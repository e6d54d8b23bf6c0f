"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import msgspec

from ...result import Attachment, ChatMessage
from ...session import SessionEvent, TextDelta, ThoughtDelta
from ...usage import Usage
from .wire import (
    Asked,
    Ending,
    Entry,
    Heard,
    a_count,
    a_dict,
    a_text,
    in_base64,
    sendable_arguments,
    sendable_id,
    sendable_name,
)

DEFAULT_TOKENS = 8_192
"""Most tokens of an answer where nobody says it: the API wants a number."""
_THOUGHT_TOKENS: Mapping[str, int] = MappingProxyType(
    {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384}
)
_ENDINGS: Mapping[str, Ending] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "tool_use": "tools",
        "refusal": "refusal",
    }
)


class Messages:
    """Messages.  ``message_stop`` after a stop reason is the terminal signal."""

    sdk: Literal["openai", "anthropic"] = "anthropic"
    has_schema = False
    takes_images = True
    takes_files = True

    def create(self, client: Any) -> Any:
        """The method of the SDK."""
        return client.messages.with_streaming_response.create

    def parameters(self, asked: Asked) -> dict[str, Any]:
        """The body of a request."""
        import anthropic

        most = asked.max_tokens or DEFAULT_TOKENS
        parameters: dict[str, Any] = {
            "model": asked.settings.model,
            "stream": True,
            "max_tokens": most,
            "messages": _messages(asked.entries),
            "timeout": anthropic.Timeout(asked.patience, connect=asked.connect, pool=None),
        }
        if asked.prompt:
            parameters["system"] = asked.prompt
        if asked.temperature is not None:
            parameters["temperature"] = asked.temperature
        if asked.effort is not None and not asked.must_call:
            thought = _THOUGHT_TOKENS.get(asked.effort, _THOUGHT_TOKENS["high"])
            parameters["thinking"] = {"type": "enabled", "budget_tokens": thought}
            parameters["max_tokens"] = most + thought  # what is thought counts there as well
        if asked.settings.extra:
            parameters["extra_body"] = dict(asked.settings.extra)
        if asked.tools:
            parameters["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in asked.tools
            ]
        if asked.must_call:
            parameters["tool_choice"] = {"type": "tool", "name": asked.must_call}
        return parameters

    def hear(self, heard: Heard, event: dict[str, Any]) -> Sequence[SessionEvent]:
        """One event."""
        numbered: Any = event.get("index")
        index = numbered if isinstance(numbered, int) else 0
        kind = a_text(event.get("type"))
        heard.contradiction = _contradiction(heard, kind, index)
        if heard.contradiction:
            return ()
        match kind:
            case "message_start":
                heard.begun = True
                _usage(heard, a_dict(a_dict(event.get("message")).get("usage")))
            case "content_block_start":
                block = a_dict(event.get("content_block"))
                if block.get("type") == "tool_use":
                    call = heard.call(index)
                    call.id, call.name = a_text(block.get("id")), a_text(block.get("name"))
                elif block.get("type") in ("thinking", "redacted_thinking"):
                    heard.opaque.append({**block, "_index": index})
                elif text := a_text(block.get("text")):
                    heard.say(text)
                    return (TextDelta(text),)
            case "content_block_delta":
                return _delta(heard, index, a_dict(event.get("delta")))
            case "message_delta":
                _usage(heard, a_dict(event.get("usage")))
                if stop := a_text(a_dict(event.get("delta")).get("stop_reason")):
                    heard.finish = stop
            case "message_stop":
                heard.done = True
                if heard.finish:
                    heard.ending = _ENDINGS.get(heard.finish, "odd")
                    heard.refusal = "it says no more" if heard.ending == "refusal" else ""
                for block in heard.opaque:
                    block.pop("_index", None)
            case "error":
                heard.failure = event
            case _:
                pass
        return ()


def _contradiction(heard: Heard, kind: str, index: int) -> str:
    """Why this event cannot come now; empty if it can.

    The API numbers its blocks, and so tells of some events that were doubled,
    lost or reordered by what stands between it and us.
    """
    if kind == "message_start" and heard.begun:
        return "it began twice"
    if kind == "content_block_start":
        if index in heard.blocks:
            return "a block began twice"
        heard.blocks[index] = True
    elif kind in ("content_block_delta", "content_block_stop"):
        if not heard.blocks.get(index):
            return "a block went on that had not begun, or had ended"
        if kind == "content_block_stop":
            heard.blocks[index] = False
    elif kind == "message_stop" and any(heard.blocks.values()):
        return "it ended in the middle of a block"
    return ""


def _delta(heard: Heard, index: int, delta: dict[str, Any]) -> Sequence[SessionEvent]:
    match a_text(delta.get("type")):
        case "text_delta":
            if text := a_text(delta.get("text")):
                heard.say(text)
                return (TextDelta(text),)
        case "input_json_delta":
            heard.call(index).arguments += a_text(delta.get("partial_json"))
        case "thinking_delta":
            text = a_text(delta.get("thinking"))
            for block in heard.opaque:
                if block.get("_index") == index:
                    block["thinking"] = a_text(block.get("thinking")) + text
            if text:
                heard.pieces += 1
                return (ThoughtDelta(text),)
        case "signature_delta":
            for block in heard.opaque:
                if block.get("_index") == index:
                    block["signature"] = a_text(delta.get("signature"))
        case _:
            pass
    return ()


def _usage(heard: Heard, usage: dict[str, Any]) -> None:
    """Add what is told: the input at the beginning, the output at the end."""
    before = heard.usage or Usage()
    read = a_count(usage, "cache_read_input_tokens") or before.cache_read
    written = a_count(usage, "cache_creation_input_tokens") or before.cache_write
    fresh = a_count(usage, "input_tokens")
    # What came from the cache is not in `input_tokens` there; with us it is.
    tokens_in = fresh + read + written if fresh else before.input_tokens
    tokens_out = a_count(usage, "output_tokens") or before.output_tokens
    heard.usage = Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cache_read=read,
        cache_write=written,
        context_tokens=tokens_in + tokens_out,
    )


def _messages(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The conversation, in which the roles take turns: neighbours of one role are one message."""
    messages: list[dict[str, Any]] = []
    for entry in entries:
        role = "assistant" if entry.message.role == "assistant" else "user"
        blocks = _blocks(entry)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _blocks(entry: Entry) -> list[dict[str, Any]]:
    message = entry.message
    if message.role == "tool":
        content: list[dict[str, Any]] = [{"type": "text", "text": message.text}]
        content += [_attached(each) for each in message.attachments if each.is_image]
        return [
            {
                "type": "tool_result",
                "tool_use_id": sendable_id(message.call),
                "content": content if message.text or message.attachments else "",
                "is_error": message.is_error,
            }
        ]
    blocks: list[dict[str, Any]] = [*entry.opaque]
    blocks += [_attached(each) for each in message.attachments]
    # An empty text is refused there.
    if message.text.strip():
        blocks.append({"type": "text", "text": message.text})
    blocks += _calls(message)
    return blocks


def _calls(message: ChatMessage) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_use",
            "id": sendable_id(call.id),
            "name": sendable_name(call.name),
            "input": msgspec.json.decode(sendable_arguments(call.arguments)),
        }
        for call in message.calls
    ]


def _attached(attachment: Attachment) -> dict[str, Any]:
    if attachment.media_type.startswith("text/"):
        text = attachment.data.decode(errors="replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": "document", "source": source, "title": attachment.name or "file"}
    source = {
        "type": "base64",
        "media_type": attachment.media_type,
        "data": in_base64(attachment),
    }
    return {"type": "image" if attachment.is_image else "document", "source": source}
