"""More capability is given once, and only for what more capability can mend."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from standby_actors.agent import Agent
from standby_supervision.ledger import Row, SessionSpec
from standby_supervision.ledger.attempts import (
    FreshAttempt,
    HeadVerdict,
    Shown,
    Terminal,
    after_attempt,
    family_of,
)
from standby_supervision.ledger.roles import IMPLEMENTER, Implementation

from .sessions import echo, stage

SPEC = SessionSpec(Agent("coder", echo), IMPLEMENTER)
SHORT = Shown(
    context_sufficed=True,
    tools_sufficed=True,
    authority_sufficed=True,
    result_was_whole=True,
    quality_fell_short=True,
)


async def row() -> Row[Any]:
    on = stage()
    async with on.ledger.open(SPEC) as seat:
        await seat.capture(Implementation("DONE", "It does not parse."))
    return seat.row


def test_only_what_was_wholly_shown_is_a_failure_of_quality() -> None:
    for values in itertools.product([True, False, None], repeat=5):
        shown = Shown(**dict(zip(Shown.__struct_fields__, values, strict=True)))
        is_eligible = family_of(shown) == "eligible-quality-failure"
        assert is_eligible == all(value is True for value in values)


@pytest.mark.parametrize(
    ("field", "family"),
    [
        ("context_sufficed", "ineligible-context"),
        ("tools_sufficed", "ineligible-tool-or-permission"),
        ("authority_sufficed", "ineligible-authority"),
        ("result_was_whole", "ineligible-integrity-or-route"),
        ("quality_fell_short", "ineligible-integrity-or-route"),
    ],
)
async def test_what_more_capability_would_not_mend_is_the_end(field: str, family: Any) -> None:
    shown = msgspec.structs.replace(SHORT, **{field: False})
    after = after_attempt(await row(), shown, is_declared=True, budget=1)
    assert after == Terminal(family, "more capability would not help")


async def test_there_is_one_fresh_attempt_and_no_chain() -> None:
    there = await row()
    first = after_attempt(there, SHORT, is_declared=True, budget=1)
    assert first == FreshAttempt()
    assert isinstance(first, FreshAttempt)
    second = after_attempt(there, SHORT, is_declared=True, budget=first.left)
    assert second == Terminal("eligible-quality-failure", "no attempt is left")
    two: Any = 2
    assert isinstance(after_attempt(there, SHORT, is_declared=True, budget=two), Terminal)
    assert isinstance(after_attempt(there, SHORT, is_declared=False, budget=1), Terminal)


async def test_what_was_not_captured_or_cleaned_up_is_not_followed() -> None:
    there = await row()
    open_still = msgspec.structs.replace(there, cleanup=None)
    uncaptured = msgspec.structs.replace(there, captured=None)
    for each in (open_still, uncaptured):
        assert isinstance(after_attempt(each, SHORT, is_declared=True, budget=1), Terminal)


def test_a_fix_invalidates_every_verdict() -> None:
    verdict = HeadVerdict("a" * 40, accepted=True)
    assert verdict.accepts("a" * 40)
    assert not verdict.accepts("b" * 40)
    assert not HeadVerdict("", accepted=True).accepts("")
    assert not HeadVerdict("a" * 40, accepted=False).accepts("a" * 40)
