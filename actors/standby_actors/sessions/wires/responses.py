"""OpenAI's responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ...result import ChatMessage
from ...session import SessionEvent, TextDelta, ThoughtDelta
from ...usage import Usage
from .wire import (
    Asked,
    Entry,
    Heard,
    a_count,
    a_dict,
    a_list,
    a_text,
    data_url,
    result_text,
    sendable_arguments,
    sendable_name,
)


class Responses:
    """Responses.  ``response.completed`` or ``response.incomplete`` is the terminal signal."""

    sdk: Literal["openai", "anthropic"] = "openai"
    has_schema = True
    takes_images = True
    takes_files = True

    def create(self, client: Any) -> Any:
        """The method of the SDK."""
        return client.responses.with_streaming_response.create

    def parameters(self, asked: Asked) -> dict[str, Any]:
        """The body of a request."""
        import openai

        parameters: dict[str, Any] = {
            "model": asked.settings.model,
            "stream": True,
            # The conversation is ours: nothing of it is kept there for the next request.
            "store": False,
            "input": [item for entry in asked.entries for item in _items(entry)],
            "timeout": openai.Timeout(asked.patience, connect=asked.connect, pool=None),
        }
        if asked.prompt:
            parameters["instructions"] = asked.prompt
        if asked.schema is not None:
            parameters["text"] = {
                "format": {
                    "type": "json_schema",
                    "name": asked.schema.name,
                    "strict": True,
                    "schema": asked.schema.schema,
                }
            }
        if asked.max_tokens is not None:
            parameters["max_output_tokens"] = asked.max_tokens
        if asked.temperature is not None:
            parameters["temperature"] = asked.temperature
        if asked.effort is not None:
            parameters["reasoning"] = {"effort": asked.effort}
            # Without it what was thought is lost between the calls of one turn.
            parameters["include"] = ["reasoning.encrypted_content"]
        if asked.settings.extra:
            parameters["extra_body"] = dict(asked.settings.extra)
        if asked.tools:
            parameters["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in asked.tools
            ]
        if asked.must_call:
            parameters["tool_choice"] = {"type": "function", "name": asked.must_call}
        return parameters

    def hear(self, heard: Heard, event: dict[str, Any]) -> Sequence[SessionEvent]:
        """One event."""
        match a_text(event.get("type")):
            case "response.output_text.delta":
                if text := a_text(event.get("delta")):
                    heard.say(text)
                    return (TextDelta(text),)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                if text := a_text(event.get("delta")):
                    heard.pieces += 1
                    return (ThoughtDelta(text),)
            case "response.refusal.delta":
                heard.refusal += a_text(event.get("delta"))
            case "response.output_item.added":
                _item(heard, event)
            case "response.function_call_arguments.delta":
                heard.call(event.get("output_index")).arguments += a_text(event.get("delta"))
            case "response.output_item.done":
                _item(heard, event)
                item = a_dict(event.get("item"))
                if item.get("type") == "reasoning" and item.get("encrypted_content"):
                    heard.opaque.append(item)
            case "response.completed":
                _usage(heard, event)
                _whole(heard, event)
                heard.finish = "completed"
                heard.ending = "tools" if heard.calls else "stop"
                if heard.refusal:
                    heard.ending = "refusal"
                heard.done = True
            case "response.incomplete":
                _usage(heard, event)
                response = a_dict(event.get("response"))
                why = a_text(a_dict(response.get("incomplete_details")).get("reason"))
                heard.finish = why or "incomplete"
                endings = {"max_output_tokens": "length", "content_filter": "filter"}
                heard.ending = endings.get(why, "odd")  # type: ignore[assignment]  # both are endings
                heard.done = True
            case "response.failed":
                _usage(heard, event)
                heard.failure = a_dict(event.get("response"))
            case "error":
                heard.failure = event
            case _:
                pass
        return ()


def _item(heard: Heard, event: dict[str, Any]) -> None:
    item = a_dict(event.get("item"))
    if item.get("type") != "function_call":
        return
    call = heard.call(event.get("output_index"))
    call.id = a_text(item.get("call_id")) or call.id
    call.name = a_text(item.get("name")) or call.name
    # Whole at the end; at the beginning there is mostly nothing.
    call.arguments = a_text(item.get("arguments")) or call.arguments


def _whole(heard: Heard, event: dict[str, Any]) -> None:
    """Take the answer as the last event has it, whole: pieces may have been lost or doubled."""
    output = [a_dict(item) for item in a_list(a_dict(event.get("response")).get("output"))]
    parts = [a_dict(part) for item in output for part in a_list(item.get("content"))]
    text = "".join(a_text(part.get("text")) for part in parts if part.get("type") == "output_text")
    # Some servers leave it empty there: then the pieces are all there is.
    heard.text = text or heard.text
    arguments = {
        a_text(item.get("call_id")): a_text(item.get("arguments"))
        for item in output
        if item.get("type") == "function_call"
    }
    for call in heard.calls.values():
        call.arguments = arguments.get(call.id) or call.arguments


def _usage(heard: Heard, event: dict[str, Any]) -> None:
    usage = a_dict(a_dict(event.get("response")).get("usage"))
    if not usage:
        return
    tokens_in, tokens_out = a_count(usage, "input_tokens"), a_count(usage, "output_tokens")
    heard.usage = Usage(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        reasoning_tokens=a_count(a_dict(usage.get("output_tokens_details")), "reasoning_tokens"),
        cache_read=a_count(a_dict(usage.get("input_tokens_details")), "cached_tokens"),
        context_tokens=tokens_in + tokens_out,
    )


def _items(entry: Entry) -> list[dict[str, Any]]:
    message = entry.message
    if message.role == "tool":
        items: list[dict[str, Any]] = [
            {
                "type": "function_call_output",
                "call_id": message.call,
                "output": result_text(message),
            }
        ]
        if message.attachments:
            shown = ChatMessage("user", "What the tool showed:", attachments=message.attachments)
            items.append({"role": "user", "content": _content(shown)})
        return items
    if message.role == "assistant":
        items = [*entry.opaque]
        if message.text:
            text = {"type": "output_text", "text": message.text}
            items.append({"role": "assistant", "content": [text]})
        items += [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": sendable_name(call.name),
                "arguments": sendable_arguments(call.arguments),
            }
            for call in message.calls
        ]
        return items
    return [{"role": message.role, "content": _content(message)}]


def _content(message: ChatMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if message.text or not message.attachments:
        parts.append({"type": "input_text", "text": message.text})
    for attachment in message.attachments:
        if attachment.is_image:
            parts.append({"type": "input_image", "image_url": data_url(attachment)})
        else:
            name = attachment.name or "file"
            parts.append(
                {"type": "input_file", "filename": name, "file_data": data_url(attachment)}
            )
    return parts
