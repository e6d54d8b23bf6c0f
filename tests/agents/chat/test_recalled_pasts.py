"""A model that goes on from a conversation is shown what it called and what was answered.

The servers here are as strict as the real ones: a history with a call that has
no answer, an answer that has no call, or an id that comes twice is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import trio
from hypothesis import example, given
from hypothesis import strategies as st
from trio.testing import MockClock

from standby_actors.agent import Agent
from standby_actors.result import ChatMessage, Role, ToolCall
from standby_actors.session import Memory, ignore
from standby_actors.sessions.chat import ChatModel, ChatSession
from standby_actors.sessions.past import ENDED_HERE
from standby_actors.subagent import Subagent, subagent
from standby_actors.tools.tool import Tool, tool
from standby_supervision import child, open_supervisor
from tests.agents.chat.asking import APIS, on_every_api, settings
from tests.support.strict_server import Called, StrictServer


@tool
async def read(path: str) -> str:
    """Read a file."""
    await trio.lowlevel.checkpoint()
    return f"the text of {path}"


class Verdict(msgspec.Struct):
    """What a judge says."""

    is_right: bool


def says(answers: list[str | Sequence[Called]]) -> Callable[[], str | Sequence[Called]]:
    return lambda: answers.pop(0)


def model_of(server: StrictServer) -> ChatModel:
    model = ChatModel(settings("http://127.0.0.1:9", server.api), retries=0)
    # There is no public way to bring a client of one's own.
    model._client = server.client  # pyright: ignore[reportPrivateUsage]
    return model


def session_of(server: StrictServer, tools: tuple[Tool, ...] = (read,), **more: Any) -> ChatSession:
    return model_of(server).session(Agent("scout", "You are a scout.", **more), tools)


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def said(text: str, *calls: ToolCall) -> ChatMessage:
    return ChatMessage("assistant", text, calls=calls)


def answer(call: str, text: str) -> ChatMessage:
    return ChatMessage("tool", text, call=call)


def call_of(identity: str, name: str = "read", arguments: str = '{"path": "a.py"}') -> ToolCall:
    return ToolCall(identity, name, arguments)


def sent(server: StrictServer) -> str:
    return json.dumps(server.last, default=str)


@on_every_api
async def test_what_was_called_and_answered_is_shown_again(api: str) -> None:
    server = StrictServer(api, says(["in b.py"]))
    session = session_of(server)
    past = (
        user("find it"),
        said("I look.", call_of("c1"), call_of("c2", arguments='{"path": "b.py"}')),
        answer("c1", "nothing here"),
        answer("c2", "def it(): ..."),
        said("it is in b.py"),
    )
    session.recall(Memory(past))
    assert (await session.ask("where was it?", ignore)).text == "in b.py"
    assert server.results == 2
    for text in ("find it", "I look.", "nothing here", "def it(): ...", "it is in b.py"):
        assert text in sent(server)


@on_every_api
async def test_a_call_that_was_cut_says_so_and_the_finished_ones_beside_it_stay(api: str) -> None:
    server = StrictServer(api, says(["yes"]))
    session = session_of(server)
    past = (user("three"), said("", call_of("c1"), call_of("c2")), answer("c2", "the second"))
    session.recall(Memory(past))
    assert (await session.ask("and now?", ignore)).error is None
    assert server.results == 2
    assert "the second" in sent(server)
    assert "read did not answer: the turn was cut." in sent(server)
    # Between the answers of tools and the next task the mind has a word.
    assert ENDED_HERE in sent(server)


@on_every_api
async def test_what_was_called_with_tools_that_are_gone_is_told_in_words(api: str) -> None:
    server = StrictServer(api, says(["yes"]))
    session = session_of(server, ())
    session.recall(Memory((user("go"), said("", call_of("c1")), answer("c1", "found it"))))
    assert (await session.ask("and now?", ignore)).error is None
    # A server that is given no tools may refuse every call.
    assert server.results == 0
    assert "found it" in sent(server)
    assert "a.py" in sent(server)


@on_every_api
async def test_data_that_was_handed_in_is_shown_as_the_call_that_it_was(api: str) -> None:
    server = StrictServer(api, says([[Called("s2", "submit", '{"is_right": true}')]]))
    session = session_of(server, schema=Verdict)
    past = (
        user("is it?"),
        said("", call_of("s1", "submit", '{"is_right": false}')),
        answer("s1", "taken"),
    )
    session.recall(Memory(past))
    turn = await session.ask("and now?", ignore)
    assert turn.value == Verdict(True)
    assert server.results == 1


@on_every_api
async def test_a_later_call_never_has_the_id_of_one_before(api: str) -> None:
    # A server may number the calls of each request from one.
    server = StrictServer(api, says([[Called("c1", "read", '{"path": "b.py"}')], "done"]))
    session = session_of(server)
    # So may two lives of a session, in one record.
    twice = (said("", call_of("c1")), answer("c1", "first"))
    again = (said("", call_of("c1")), answer("c1", "second"))
    session.recall(Memory((user("go"), *twice, user("again"), *again)))
    assert (await session.ask("once more", ignore)).text == "done"
    for text in ("first", "second", "the text of b.py"):
        assert sent(server).count(text) == 1


@on_every_api
async def test_an_answer_whose_call_is_not_there_is_left_out(api: str) -> None:
    server = StrictServer(api, says(["yes"]))
    session = session_of(server)
    session.recall(
        Memory((answer("c0", "lost"), user("go"), answer("c1", "lost"), said("half", call_of("c"))))
    )
    assert (await session.ask("and now?", ignore)).error is None
    assert "lost" not in sent(server)


ANY_CALL = st.builds(
    ToolCall,
    st.sampled_from(["a", "b", "c", "", "no word", "x" * 600]),
    st.sampled_from(["read", "gone", "?", "read file"]),
    st.sampled_from(["{}", '{"path": "a"}', '{"path": ', "[]", "NaN", ""]),
)
ANY_MESSAGE = st.builds(
    ChatMessage,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.sampled_from(["", " ", "text"]),
    partial=st.booleans(),
    calls=st.lists(ANY_CALL, max_size=3).map(tuple),
    call=st.sampled_from(["a", "b", "c", ""]),
    is_error=st.booleans(),
)


def as_sessions_have_it(message: ChatMessage) -> ChatMessage:
    """Only an assistant calls, and only it is cut while it speaks."""
    if message.role == "assistant":
        return msgspec.structs.replace(message, call="")
    role: Role = message.role
    text = message.text.strip() or "said"
    return ChatMessage(role, text, call=message.call if role == "tool" else "")


@given(st.lists(ANY_MESSAGE.map(as_sessions_have_it), max_size=12), st.booleans())
@example([said("", call_of("a"), call_of("a")), answer("a", "1"), answer("a", "2")], True)
def test_whatever_was_said_before_is_a_history_that_servers_take(
    messages: list[ChatMessage], has_tool: bool
) -> None:
    async def go_on(api: str) -> None:
        server = StrictServer(api, says(["on we go", "and on"]))
        session = session_of(server, (read,) if has_tool else ())
        session.recall(Memory(tuple(messages)))
        for text in ("now?", "and now?"):
            turn = await session.ask(text, ignore)
            assert turn.error is None
        # What a session knows, another one goes on from.
        other = session_of(server, (read,) if has_tool else ())
        server.answers = says(["the same"])
        other.recall(session.known())
        assert (await other.ask("who?", ignore)).text == "the same"

    for api in APIS:
        trio.run(go_on, api)


@on_every_api
async def test_a_second_life_that_replays_knows_what_the_first_one_read(
    api: str, autojump_clock: MockClock
) -> None:
    reads = [Called("c1", "read", '{"path": "secret.py"}')]
    server = StrictServer(api, says([reads, "I have read it", "it was secret.py"]))
    agent = Agent("scout", "You are a scout.", tools=(read,), remember="replay")
    start = subagent(agent, model=model_of(server))
    async with open_supervisor(child(start, id="scout")) as tree:
        scout = Subagent(tree["scout"])
        assert (await scout.ask("read secret.py")).output == "I have read it"
        await tree.terminate_child("scout")
        await tree.restart_child("scout")
        assert (await scout.ask("what was it?")).output == "it was secret.py"
    assert "the text of secret.py" in sent(server)
