"""The key of a model is in nothing that is written, told or raised, whatever goes wrong.

Every server here is one that says the key back: in errors, in streams, in headers.
"""

from __future__ import annotations

import logging
import ssl
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.models import open_model
from standby_actors.record import ENDING, read_record
from standby_actors.record_page import page
from standby_actors.result import Result
from standby_actors.sessions.chat import open_chat_model
from standby_actors.subagent import spawn
from standby_actors.tools.tool import tool
from standby_combinators.fan_out import fan_out
from standby_supervision.telemetry.export import export_telemetry
from tests.agents.chat.asking import on_every_api, settings
from tests.support.heard import heard
from tests.support.model_server import Answer, Asked, fails, open_model_server, sse, streams
from tests.support.model_server_agents import stream_of

CANARY = "sk-canary-77aa88bb99cc"
"""In the environment, as the key, in a header, and in the address of the server."""


def events(api: str, said: str = "SLOW:3") -> list[bytes]:
    """The events of a right answer."""
    return [each + b"\n\n" for each in stream_of(api, said).split(b"\n\n")[:-1]]


def said_back(asked: Asked) -> str:
    """What a server can know of the key."""
    key = asked.headers.get("authorization") or asked.headers.get("x-api-key") or ""
    assert CANARY in key  # it did reach the server: there is something to tell
    return f"the key {key} at {asked.path} is wrong"


PLAYS: dict[str, Callable[[str, Asked], Answer]] = {
    "answers": lambda api, asked: streams(*events(api)),
    "401": lambda api, asked: fails(401, said_back(asked)),
    "400": lambda api, asked: fails(400, said_back(asked), code=CANARY),
    "500": lambda api, asked: fails(500, said_back(asked), headers={"X-Key": CANARY}),
    "429": lambda api, asked: fails(429, said_back(asked)),
    "an error in the stream": lambda api, asked: streams(
        *events(api)[:2],
        sse({"type": "error", "message": said_back(asked), "error": {"message": said_back(asked)}}),
    ),
    "no HTTP": lambda api, asked: Answer(f"{said_back(asked)}\r\n\r\n".encode()),
    "no JSON": lambda api, asked: streams(f"data: {said_back(asked)}\n\n".encode()),
    "a reset": lambda api, asked: streams(*events(api)).cut(300, "reset"),
    "a redirect": lambda api, asked: Answer(
        b"HTTP/1.1 302 Said\r\nContent-Length: 0\r\n"
        + f"Location: ftp://{CANARY}@nowhere\r\n\r\n".encode()
    ),
}


def chain(error: BaseException | None) -> str:
    """An exception with everything that is behind it, and the values of its frames' arguments."""
    if error is None:
        return ""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    return "".join(told.format(chain=True)) + repr(error.args) + repr(vars(error))


def written_in(folder: Path) -> list[str]:
    """Every file in `folder`, and the page of its one record."""
    files = list(folder.iterdir())
    (record,) = [path for path in files if path.name.endswith(ENDING)]
    texts = [text for path in files for text in (path.name, path.read_text())]
    return [*texts, page(read_record(record)[0])]


@on_every_api
@pytest.mark.parametrize("plays", PLAYS.values(), ids=PLAYS.keys())
async def test_the_key_is_in_nothing_that_is_told(
    api: Any,
    plays: Callable[[str, Asked], Answer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: MockClock,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # reading certificates takes long
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)
    for name in ("openai", "anthropic", "httpx2", "httpcore2", "httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, logger=name)
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    results: list[Result] = []
    agent = Agent("scout", "You are a scout.")
    spans = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    telemetry = export_telemetry(tracer_provider=tracers, content=True)
    async with heard() as told_events, telemetry:  # noqa: SIM117 - its list is whole after it
        async with open_model_server(lambda asked: plays(api, asked)) as server:
            provider = "anthropic" if api == "anthropic" else "openai"
            url = server.base_url.removesuffix("/v1" if api == "anthropic" else "")
            variable = "ANTHROPIC" if api == "anthropic" else "OPENAI"
            monkeypatch.setenv(f"{variable}_API_KEY", CANARY)
            monkeypatch.setenv(f"{variable}_BASE_URL", url)
            async with open_model(f"{provider}/m", api=api) as model:
                vars(model.client)["_platform"] = "Linux"
                async with spawn(agent, model=model, export_dir=tmp_path) as subagent:
                    results.append(await subagent.ask("go"))
                    told += [repr(each) for each in (subagent, model, model.settings)]
                    # Users do not see it, but debuggers and crash reports do.
                    mind = subagent._mind  # pyright: ignore[reportPrivateUsage]
                    told += [repr(mind), repr(mind.session)]
                    told += [repr(subagent.messages), str(subagent.usage)]
                report = await fan_out(agent, ["one", "two"], model=model)
                results += [report, *report.steps]
            assert server.asked
    for result in results:
        told.append(repr(result))
        told.append(msgspec.json.encode(msgspec.structs.replace(result, value=None)).decode())
        if result.error is not None:
            told += [str(result.error), chain(result.error.cause)]
    told += [repr(event) for event in told_events]
    told += [span.to_json() for span in spans.get_finished_spans()]
    assert spans.get_finished_spans()
    told += [f"{record.getMessage()} {record.args!r}" for record in caplog.records]
    told.append(caplog.text)
    told += written_in(tmp_path)
    assert told_events
    assert caplog.records
    found = [text[max(0, text.find(CANARY) - 200) :][:400] for text in told if CANARY in text]
    assert not found


@on_every_api
async def test_a_tool_that_raises_with_the_key_tells_the_model_nothing_of_it(
    api: Any, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setenv("SOME_API_KEY", CANARY)

    @tool
    async def leak() -> str:
        """Fail with it."""
        raise RuntimeError(f"cannot log in with {CANARY}")

    answers = iter([streams(*events(api, "CALL:leak:{}")), streams(*events(api))])
    async with open_model_server(lambda asked: next(answers)) as server:
        url = server.base_url.removesuffix("/v1")
        async with open_chat_model(settings(url, api)) as model:
            vars(model.client)["_platform"] = "Linux"
            session = model.session(Agent("scout", ""), [leak])
            turn = await session.ask("go", lambda event: None)
        assert turn.error is None
        assert "cannot log in with" in str(server.asked[1].body)
        assert CANARY not in str(server.asked[1].body)
        assert CANARY not in repr(turn)
