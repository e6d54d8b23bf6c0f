from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from standby_actors.usage import NOTHING, Usage, total

counts = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    turns=counts,
    input_tokens=counts,
    output_tokens=counts,
    requests=counts,
    tool_calls=counts,
    context_tokens=st.none() | counts,
)


@given(before=usages, turn=usages)
def test_what_a_turn_adds_is_what_the_difference_shows(before: Usage, turn: Usage) -> None:
    after = before.accumulate(turn)
    spent = after.delta(before)
    assert total([spent]) == total([turn])


@given(before=usages, turn=usages)
def test_the_level_is_replaced_and_an_unknown_one_forgets_nothing(
    before: Usage, turn: Usage
) -> None:
    level = before.accumulate(turn).context_tokens
    assert level == (before if turn.context_tokens is None else turn).context_tokens


@given(one=usages, other=usages)
def test_a_counter_that_went_backwards_cost_nothing(one: Usage, other: Usage) -> None:
    spent = one.delta(other)
    assert spent.turns >= 0
    assert spent.input_tokens >= 0


def test_a_total_is_given_its_time_and_has_no_level() -> None:
    parts = [Usage(wall_seconds=4.0, turns=1, context_tokens=10)] * 3
    assert total(parts, wall_seconds=5.0) == Usage(wall_seconds=5.0, turns=3)
    assert total([]) == NOTHING
