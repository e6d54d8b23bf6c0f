"""A verdict is handed in by a call, which is the decision and ends the turn."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from standby_actors.agent import Agent
from standby_actors.sessions.chat import ChatModel
from standby_combinators import Ledger, review
from standby_combinators.ledger import Entry, Raised, Resolved
from standby_combinators.verdict import VerdictDesk
from tests.agents.chat.asking import on_every_api, settings
from tests.support.strict_server import Called, StrictServer

CODER = Agent("coder", "Write it.")
REVIEWER = Agent("reviewer", "Judge it.", lifetime="workflow")


_numbers = itertools.count(1)


def call(**arguments: Any) -> list[Called]:
    """One call of the tool."""
    return [Called(f"call_{next(_numbers)}", "verdict", json.dumps(arguments))]


@on_every_api
async def test_a_model_decides_by_a_call_that_ends_its_turn(api: str) -> None:
    answers: list[str | Sequence[Called]] = [
        "first work",
        # Refused, and told why: it calls again.
        call(approved=False),
        call(approved=False, raised=["Test it."]),
        "second work",
        # One id is its own, one is nobody's: the decision counts all the same.
        call(approved=True, resolved=[{"id": "o1", "how": "addressed"}, {"id": "o7"}]),
    ]
    left: Iterator[str | Sequence[Called]] = iter(answers)
    server = StrictServer(api, left.__next__)
    model = ChatModel(settings("http://127.0.0.1:9", api), retries=0)
    # There is no public way to bring a client of one's own.
    model._client = server.client  # pyright: ignore[reportPrivateUsage]
    done = await review(CODER, REVIEWER, "Build it.", model=model)
    assert (done.approved, done.rounds, done.output) == (True, 2, "second work")
    assert [(each.id, each.by) for each in done.obligations] == [("o1", "reviewer")]
    # Nothing was asked after a decision: two works, and three calls.
    assert server.requests == 5
    assert next(left, None) is None
    assert len(done.steps) == 4
    assert "o7" in done.remarks


def test_a_reviewer_from_a_file_keeps_the_tools_that_read() -> None:
    plain = Agent("a", "Judge.")
    from_file = Agent("a", "Judge.", source="project")
    own = Agent("a", "Judge.", tools=["ls"], source="project")

    def names(agent: Agent) -> list[str]:
        desk = VerdictDesk(agent, Ledger(), "a")
        assert isinstance(desk.reviewer, Agent)
        tools = desk.reviewer.tools or ()
        return [each if isinstance(each, str) else str(getattr(each, "name", "")) for each in tools]

    assert names(plain) == ["verdict"]
    assert names(from_file) == ["read", "grep", "find", "ls", "verdict"]
    assert names(own) == ["ls", "verdict"]


def test_a_ledger_goes_on_from_what_happened_before() -> None:
    before = Ledger()
    before.open_one("a", "Test it.", 1)
    before.open_one("b", "Name it.", 1)
    assert before.close("a", "o1", "withdrawn", 2, "no matter") == ""
    after = Ledger(before.entries)
    assert after.obligations == before.obligations
    assert after.open_one("a", "Ship it.", 3).id == "o3"
    assert [each.id for each in after.owed()] == ["o2", "o3"]
    assert [each.id for each in after.owed("b")] == ["o2"]
    assert before.entries == (
        Raised("o1", "a", "Test it.", 1),
        Raised("o2", "b", "Name it.", 1),
        Resolved("o1", "withdrawn", 2, "no matter"),
    )


@pytest.mark.parametrize(
    ("by", "which", "why"),
    [
        pytest.param("b", "o1", "o1 was raised by a, who alone can close it", id="not its raiser"),
        pytest.param("a", "o9", "there is no o9; open are: o1", id="not there"),
        pytest.param("a", "o0", "o0 is closed already", id="closed already"),
    ],
)
def test_why_an_obligation_is_not_closed_is_said(by: str, which: str, why: str) -> None:
    past: list[Entry] = [
        Raised("o0", "a", "Old.", 1),
        Resolved("o0", "addressed", 1),
        Raised("o1", "a", "x", 1),
    ]
    ledger = Ledger(past)
    assert ledger.close(by, which, "addressed", 2) == why
    assert [each.id for each in ledger.owed()] == ["o1"]
