"""OpenAI's chat completions, which many other servers speak as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from ...result import ChatMessage
from ...session import SessionEvent, TextDelta, ThoughtDelta
from ...usage import Usage
from .wire import (
    Asked,
    Ending,
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

_ENDINGS: Mapping[str, Ending] = MappingProxyType(
    {
        "stop": "stop",
        "length": "length",
        "tool_calls": "tools",
        "function_call": "tools",
        "content_filter": "filter",
    }
)


class Completions:
    """Chat completions.  The finish reason is the terminal signal."""

    sdk: Literal["openai", "anthropic"] = "openai"
    has_schema = True
    takes_images = True
    takes_files = True

    def create(self, client: Any) -> Any:
        """The method of the SDK."""
        return client.chat.completions.with_streaming_response.create

    def parameters(self, asked: Asked) -> dict[str, Any]:
        """The body of a request."""
        import openai

        settings = asked.settings
        parameters: dict[str, Any] = {
            "model": settings.model,
            "stream": True,
            "timeout": openai.Timeout(asked.patience, connect=asked.connect, pool=None),
        }
        if asked.tells_usage:
            parameters["stream_options"] = {"include_usage": True}
        if asked.schema is not None:
            parameters["response_format"] = asked.schema.response_format()
        if asked.max_tokens is not None:
            parameters[settings.limit_parameter] = asked.max_tokens
        if asked.temperature is not None:
            parameters["temperature"] = asked.temperature
        if asked.effort is not None:
            parameters["reasoning_effort"] = asked.effort
        if settings.extra:
            parameters["extra_body"] = dict(settings.extra)
        if asked.tools:
            parameters["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in asked.tools
            ]
        if asked.must_call:
            parameters["tool_choice"] = {"type": "function", "function": {"name": asked.must_call}}
        messages: list[dict[str, Any]] = []
        if asked.prompt:
            messages.append({"role": "system", "content": asked.prompt})
        for entry in asked.entries:
            messages += _messages(entry)
        parameters["messages"] = messages
        return parameters

    def hear(self, heard: Heard, event: dict[str, Any]) -> Sequence[SessionEvent]:
        """One chunk."""
        if event.get("error"):
            heard.failure = event
            return ()
        _hear_usage(heard, event)
        choices = a_list(event.get("choices"))
        choice = a_dict(choices[0]) if choices else {}
        delta = a_dict(choice.get("delta"))
        finish = a_text(choice.get("finish_reason"))
        told: list[SessionEvent] = []
        for number, each in enumerate(a_list(delta.get("tool_calls"))):
            call = a_dict(each)
            index: Any = call.get("index")
            function = a_dict(call.get("function"))
            begun = heard.call(index if isinstance(index, int) else number)
            begun.id = begun.id or a_text(call.get("id"))
            # A name comes whole, and some servers send it with every piece.
            begun.name = begun.name or a_text(function.get("name"))
            begun.arguments += a_text(function.get("arguments"))
        heard.refusal += a_text(delta.get("refusal"))
        if thought := a_text(delta.get("reasoning_content") or delta.get("reasoning")):
            heard.pieces += 1
            told.append(ThoughtDelta(thought))
        if text := a_text(delta.get("content")):
            heard.say(text)
            told.append(TextDelta(text))
        if finish:
            heard.finish = finish
            heard.ending = _ENDINGS.get(finish, "odd")
            if heard.calls and heard.ending == "stop":
                heard.ending = "tools"  # as some servers end every answer
            if heard.refusal:
                heard.ending = "refusal"
        return told


def _messages(entry: Entry) -> list[dict[str, Any]]:
    message = entry.message
    if message.role == "tool":
        answer: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": message.call,
            "content": result_text(message),
        }
        if not message.attachments:
            return [answer]
        # A tool's answer is text there; a picture comes in a message of its own.
        shown = ChatMessage("user", "What the tool showed:", attachments=message.attachments)
        return [answer, {"role": "user", "content": _content(shown)}]
    said: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.calls:
        said["content"] = message.text or None
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": sendable_name(call.name),
                    "arguments": sendable_arguments(call.arguments),
                },
            }
            for call in message.calls
        ]
    return [said]


def _content(message: ChatMessage) -> Any:
    if not message.attachments:
        return message.text
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    for attachment in message.attachments:
        if attachment.is_image:
            parts.append({"type": "image_url", "image_url": {"url": data_url(attachment)}})
        else:
            file = {"filename": attachment.name or "file", "file_data": data_url(attachment)}
            parts.append({"type": "file", "file": file})
    return parts


def _hear_usage(heard: Heard, event: dict[str, Any]) -> None:
    usage, timings = a_dict(event.get("usage")), a_dict(event.get("timings"))
    if usage:
        tokens_in = a_count(usage, "prompt_tokens")
        tokens_out = a_count(usage, "completion_tokens")
        cost: Any = usage.get("cost")
        heard.usage = Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            reasoning_tokens=a_count(
                a_dict(usage.get("completion_tokens_details")), "reasoning_tokens"
            ),
            cache_read=a_count(a_dict(usage.get("prompt_tokens_details")), "cached_tokens"),
            cost_usd=float(cost) if isinstance(cost, (int, float)) and cost > 0 else 0.0,
            context_tokens=tokens_in + tokens_out,
        )
        heard.tells_usage = True
    elif timings and not heard.tells_usage:
        # llama.cpp tells with every piece what it has done so far.
        cached = a_count(timings, "cache_n")
        tokens_in = a_count(timings, "prompt_n") + cached
        tokens_out = a_count(timings, "predicted_n")
        heard.usage = Usage(
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            cache_read=cached,
            context_tokens=tokens_in + tokens_out,
        )
