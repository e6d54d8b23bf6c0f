"""A stream that is cut on its way, after any byte of an HTTP response, is no answer.

Where :mod:`tests.agents.chat.test_streams` reads cut events, here they come over a
socket, through the SDKs, in both framings of HTTP, and the connection ends in order or
by a reset.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import trio

from standby_actors.agent import Agent
from standby_actors.session import ignore
from standby_actors.sessions.chat import open_chat_model
from standby_actors.tools.tool import tool
from tests.agents.chat.asking import has_ended, on_every_api, settings
from tests.support.model_server import Answer, Asked, open_model_server, streams
from tests.support.model_server_agents import stream_of

WORDS = "SLOW:3"
CALL = 'CALL:double:{"number": 21}'
every_way = [
    on_every_api,
    pytest.mark.parametrize("said", [WORDS, CALL], ids=["words", "a call"]),
    pytest.mark.parametrize("framing", ["to the end", "chunked"]),
    pytest.mark.parametrize("ending", ["end", "reset"]),
]


def answer_of(api: str, said: str, framing: str = "to the end") -> Answer:
    """What the API answers, an event a part."""
    events = stream_of(api, said).split(b"\n\n")[:-1]
    whole = streams(*(event + b"\n\n" for event in events))
    return whole.chunked() if framing == "chunked" else whole


def body_of(whole: Answer, cut: int, framing: str) -> bytes:
    """What the first `cut` bytes of `whole` hold of its body, by another reading."""
    data = whole.raw[len(whole.head) : cut] if cut > len(whole.head) else b""
    if framing != "chunked":
        return data
    body = b""
    while True:
        size, end, rest = data.partition(b"\r\n")
        if not end or size == b"0":
            return body
        length = int(size, 16)
        body += rest[:length]
        data = rest[length + 2 :]


async def cut_after(api: Any, said: str, framing: str, ending: Any, cuts: Iterable[int]) -> int:
    """Cut the answer after each of `cuts` bytes; how many were an answer all the same."""
    whole = answer_of(api, said, framing)
    called: list[int] = []

    @tool
    def double(number: int) -> int:
        """Double a number."""
        called.append(number)
        return 2 * number

    requests = cut = answers = 0

    def script(asked: Asked) -> Answer:
        nonlocal requests
        requests += 1
        # What a call has given is answered whole.
        return whole.cut(cut, ending) if requests == 1 else answer_of(api, WORDS)

    async with (
        open_model_server(script) as server,
        # Without retries, because each would be cut at the same byte.
        open_chat_model(settings(server.base_url.removesuffix("/v1"), api), retries=0) as model,
    ):
        model.breaker.failures = 1_000_000  # what a failure is, is the question here
        for cut in cuts:
            requests = 0
            called.clear()
            session = model.session(Agent("scout", "You are a scout."), (double,))
            with trio.fail_after(10):
                turn = await session.ask("go", ignore)
            if has_ended(api, body_of(whole, cut, framing)):
                assert (turn.error, turn.text) == (None, "w0 w1 w2"), cut
                assert (requests, called) == ((2, [21]) if said == CALL else (1, [])), cut
                answers += 1
                continue
            assert turn.error is not None, (cut, turn)
            assert (turn.error.kind, turn.error.retryable) == ("truncated", True), (cut, turn)
            # Half a call is never made, and nothing is made up.
            assert (requests, called) == (1, []), cut
            assert turn.text == "" if said == CALL else "w0 w1 w2".startswith(turn.text), cut
            heard = [each for each in turn.messages if each.role == "assistant"]
            assert all(each.partial and not each.calls for each in heard), cut
            assert session.usage.requests == 1, cut
    return answers


def marked(test: Any) -> Any:
    """`test`, for every API, answer, framing and ending."""
    for mark in every_way:
        test = mark(test)
    return test


@marked
async def test_an_answer_that_is_cut_on_its_way_is_none(
    api: Any, said: str, framing: str, ending: str
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    whole = answer_of(api, said, framing)
    size = len(whole.raw)
    # The last events are where what is missing is least.
    drawn = random.Random(seed).sample(range(1, size - 20), 12)
    cuts = {0, len(whole.head), *drawn, *range(size - 20, size + 1, 5), size}
    assert await cut_after(api, said, framing, ending, sorted(cuts)) >= 1


@pytest.mark.deep
@marked
async def test_an_answer_that_is_cut_after_any_byte_is_none(
    api: Any, said: str, framing: str, ending: str
) -> None:
    cuts = range(len(answer_of(api, said, framing).raw) + 1)
    assert await cut_after(api, said, framing, ending, cuts) >= 1
