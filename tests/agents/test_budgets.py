"""What may be spent is put aside before a turn, counted after it, for all below."""

from __future__ import annotations

import pytest
import trio
from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from standby_actors import open_nursery
from standby_actors.agent import Agent, Limits
from standby_actors.budget import Budget, Refusal, Reservation
from standby_actors.definitions.vocabulary import MODEL_WORDS, model_of
from standby_actors.prices import Price, cost_of, price_of
from standby_actors.result import Attachment, Result
from standby_actors.session import Capabilities, ModelCalled, OnEvent, Turn
from standby_actors.sessions.scripted import Reply, Script, ScriptedSession
from standby_actors.subagent import OutOfBudget, spawn
from standby_actors.usage import Usage

SCOUT = Agent("scout", "Find it.")


def costing(tokens: int, times: int = 100) -> ScriptedSession:
    """Each of its turns costs so many tokens."""
    return ScriptedSession([Reply("yes", usage=Usage(requests=1, output_tokens=tokens))] * times)


async def test_turns_beyond_the_limit_are_refused_and_cost_nothing() -> None:
    budget = Budget(Limits(turns=2), name="the run")
    mind = costing(10)
    async with spawn(SCOUT, session=mind, budget=budget) as scout:
        results = [await scout.ask(str(each)) for each in range(4)]
    assert [each.status for each in results] == ["ok", "ok", "budget", "budget"]
    assert str(results[2].error) == (
        "budget: the run has a limit of 2 turns, and 2 are spent or under way"
    )
    assert mind.asked == ["0", "1"]
    assert results[2].usage.turns == 0
    assert budget.spent.turns == 2


async def test_a_run_stops_before_the_turn_that_would_exceed_its_tokens() -> None:
    budget = Budget(Limits(tokens=100))
    async with spawn(SCOUT, session=costing(30), budget=budget) as scout:
        results = [await scout.ask("a") for _ in range(5)]
    assert [each.status for each in results] == ["ok", "ok", "ok", "budget", "budget"]
    assert budget.spent.output_tokens == 90


async def test_a_limit_that_is_just_reached_is_kept() -> None:
    budget = Budget(Limits(tokens=90))
    async with spawn(SCOUT, session=costing(30), budget=budget) as scout:
        results = [await scout.ask("a") for _ in range(4)]
    assert [each.status for each in results] == ["ok", "ok", "ok", "budget"]


async def test_siblings_share_what_is_above_them(autojump_clock: MockClock) -> None:
    budget = Budget(Limits(turns=3), name="the run")
    statuses: list[str] = []

    async def one() -> None:
        mind = ScriptedSession([Reply("yes", seconds=1.0)])
        async with spawn(SCOUT, session=mind, budget=budget) as scout:
            statuses.append((await scout.ask("a")).status)

    async with trio.open_nursery() as tasks:
        for _ in range(5):
            tasks.start_soon(one)
    assert sorted(statuses) == ["budget", "budget", "ok", "ok", "ok"]
    assert (budget.spent.turns, budget.reserved_turns) == (3, 0)


async def test_an_agents_own_limits_count_besides() -> None:
    run = Budget(Limits(turns=3), name="the run")
    agent = Agent("scout", "Find it.", limits=Limits(turns=1))
    async with spawn(agent, session=costing(1), budget=run) as one:
        assert [(await one.ask("a")).status for _ in range(2)] == ["ok", "budget"]
    async with spawn(SCOUT, session=costing(1), budget=run) as two:
        assert [(await two.ask("a")).status for _ in range(3)] == ["ok", "ok", "budget"]


async def test_a_turn_that_spends_too_much_is_cut_while_it_is_played(
    autojump_clock: MockClock,
) -> None:
    budget = Budget(Limits(tokens=50), name="the run")
    mind = ScriptedSession([Reply("abcdef", pieces=6, seconds=6.0, usage=Usage(output_tokens=60))])
    async with spawn(SCOUT, session=mind, budget=budget) as scout:
        began = trio.current_time()
        result = await scout.ask("a")
    assert (result.status, result.partial) == ("budget", "")
    assert trio.current_time() - began < 2.0
    assert budget.spent.output_tokens == 60


@define(eq=False)
class Rounds(ScriptedSession):
    """Each of its turns is three requests, a second and 100 tokens each."""

    script: Script = ()
    model: str = "acme/large"

    async def ask(
        self, text: str, on_event: OnEvent, attachments: tuple[Attachment, ...] = ()
    ) -> Turn:
        """Answer after three requests."""
        cost = Usage(requests=1, output_tokens=100)
        for _ in range(3):
            await trio.sleep(1.0)
            self.usage = self.usage.accumulate(cost)
            on_event(ModelCalled(self.model, 1.0, cost, "stop"))
        return Turn("done")


# A request of a hundred tokens costs a dollar.
@pytest.mark.parametrize("limits", [Limits(tokens=250), Limits(usd=2.5)], ids=["tokens", "dollars"])
@pytest.mark.parametrize("depth", [0, 1], ids=["one budget", "a budget each below"])
async def test_what_siblings_side_by_side_have_spent_so_far_counts(
    autojump_clock: MockClock, limits: Limits, depth: int
) -> None:
    run = Budget(limits, name="the run")
    results: list[Result] = []

    async def one() -> None:
        budget = run.below(name="a team") if depth else run
        prices = {"acme/*": Price(1.0, 10_000.0)}
        async with spawn(SCOUT, session=Rounds(), budget=budget, prices=prices) as scout:
            results.append(await scout.ask("a"))

    async with trio.open_nursery() as tasks:
        for _ in range(10):
            tasks.start_soon(one)
    assert [each.status for each in results] == ["budget"] * 10
    # Two requests were on their way when the others had spent what there was.
    cost = [each.usage.output_tokens for each in results]
    assert sorted(cost) == [100] * 8 + [200] * 2
    assert run.spent.output_tokens == sum(cost)
    assert run.spent.cost_usd == pytest.approx(sum(cost) / 100)
    assert (run.spent.turns, run.reserved_turns, run.reserved_tokens) == (10, 0, 0)
    assert run.reserved_usd == pytest.approx(0.0)
    assert trio.current_time() == pytest.approx(2.0)


async def test_who_comes_while_others_spend_is_refused_what_they_have_spent(
    autojump_clock: MockClock,
) -> None:
    run = Budget(Limits(tokens=300), name="the run")
    async with (
        spawn(SCOUT, session=Rounds(), budget=run) as early,
        spawn(SCOUT, session=Rounds(), budget=run) as late,
        trio.open_nursery() as tasks,
    ):
        began: list[Result] = []

        async def begin() -> None:
            began.append(await early.ask("a"))

        tasks.start_soon(begin)
        await trio.sleep(2.5)
        assert (run.reserved_tokens, run.spent.output_tokens) == (200, 0)
        # Its first request would be the third of the three that there may be.
        second = await late.ask("a")
    assert [began[0].status, second.status] == ["ok", "budget"]
    assert run.spent.output_tokens == 300 + second.usage.output_tokens == 400


async def test_a_summary_on_the_way_is_charged_as_soon_as_it_is_told(
    autojump_clock: MockClock,
) -> None:
    run = Budget(Limits(tokens=100), name="the run")
    limited = Capabilities(context_tokens=100)
    full = Usage(output_tokens=50, context_tokens=90)
    scripts = iter([[Reply("yes", usage=full)], [Reply("sum", usage=Usage(output_tokens=60))], []])
    opened: list[ScriptedSession] = []

    def open_session(agent: Agent) -> ScriptedSession:
        opened.append(ScriptedSession(next(scripts), capabilities=limited))
        return opened[-1]

    agent = Agent("scout", "Find it.", context="handover")
    async with spawn(agent, session=open_session, budget=run) as scout:
        first, second = await scout.ask("a"), await scout.ask("b")
    assert (first.status, second.status) == ("ok", "budget")
    # The summary was the last that it could pay: its task was shown to nobody.
    assert [len(each.asked) for each in opened[:2]] == [1, 1]
    assert all("b" not in each.asked for each in opened)
    assert (run.spent.output_tokens, run.reserved_tokens) == (110, 0)


async def test_the_time_of_a_budget_is_the_deadline_of_its_turns(
    autojump_clock: MockClock,
) -> None:
    budget = Budget(Limits(seconds=5.0))
    mind = ScriptedSession([Reply("a", seconds=3.0), Reply("b", seconds=3.0), "c"])
    async with spawn(SCOUT, session=mind, budget=budget) as scout:
        began = trio.current_time()
        results = [await scout.ask("a") for _ in range(3)]
        assert trio.current_time() - began == 5.0
    assert [each.status for each in results] == ["ok", "budget", "budget"]


async def test_a_cut_turn_gives_back_what_was_put_aside(autojump_clock: MockClock) -> None:
    budget = Budget(Limits(turns=2))
    mind = ScriptedSession([Reply("a", seconds=60.0), "b", "c"])
    async with spawn(SCOUT, session=mind, budget=budget) as scout:
        with trio.move_on_after(1):
            await scout.ask("a")
        assert (budget.reserved_turns, budget.spent.turns) == (0, 1)
        assert [(await scout.ask("b")).status for _ in range(2)] == ["ok", "budget"]


async def test_no_more_subagents_than_a_budget_allows(autojump_clock: MockClock) -> None:
    budget = Budget(Limits(descendants=2, depth=1), name="the run")
    async with open_nursery() as nursery:
        for _ in range(2):
            nursery.spawn(SCOUT, session=costing(1), budget=budget)
        with pytest.raises(OutOfBudget, match="allows 2 subagents below, and 2 were spawned"):
            nursery.spawn(SCOUT, session=costing(1), budget=budget)
        below = Budget(Limits(depth=1), name="the run").below(name="scout#1")
        with pytest.raises(OutOfBudget, match="this would be 2 deep"):
            nursery.spawn(SCOUT, session=costing(1), budget=below)


async def test_a_limit_in_dollars_needs_a_price(autojump_clock: MockClock) -> None:
    budget = Budget(Limits(usd=0.001), name="the run")
    mind = ScriptedSession([Reply("yes", usage=Usage(output_tokens=100))] * 20, model="acme/large")
    with pytest.raises(ValueError, match="nobody says what acme/large costs"):
        async with spawn(SCOUT, session=mind, budget=budget):
            pass
    prices = {"acme/*": Price(1.0, 5.0)}
    async with spawn(SCOUT, session=mind, budget=budget, prices=prices) as scout:
        results = [await scout.ask("a") for _ in range(3)]
    assert [each.status for each in results] == ["ok", "ok", "budget"]
    assert results[0].usage.cost_usd == pytest.approx(0.0005)
    assert scout.usage.cost_usd == pytest.approx(0.001)


async def test_what_the_provider_says_it_costs_is_what_it_costs() -> None:
    mind = ScriptedSession(
        [Reply("yes", usage=Usage(output_tokens=100, cost_usd=0.25))], model="acme/large"
    )
    async with spawn(SCOUT, session=mind, prices={"acme/large": Price(1.0, 5.0)}) as scout:
        assert (await scout.ask("a")).usage.cost_usd == 0.25


def test_a_cache_makes_input_cheaper() -> None:
    usage = Usage(input_tokens=1_000_000, cache_read=500_000, cache_write=100_000)
    assert cost_of(usage, Price(2.0, 8.0, 0.2, 1.0)) == pytest.approx(1.0 + 0.1 + 0.1)
    assert cost_of(usage, Price(2.0, 8.0)) == pytest.approx(2.0)


def test_a_name_is_found_by_its_longest_beginning() -> None:
    prices = {"a/*": Price(1, 1), "a/b*": Price(2, 2), "a/bc": Price(3, 3)}
    assert [price_of(name, prices) for name in ("a/x", "a/bx", "a/bc", "b/x")] == [
        Price(1, 1),
        Price(2, 2),
        Price(3, 3),
        None,
    ]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30), st.data())
def test_what_was_put_aside_is_always_given_back(
    turns: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Whatever is reserved and settled in whatever order, the sums come out."""

    async def main() -> None:
        top = Budget(Limits(tokens=300, turns=20))
        middle = top.below(Limits(tokens=200))
        open_ones: list[tuple[Reservation, int]] = []
        spent = 0
        for estimate, cost in turns:
            budget = data.draw(st.sampled_from([top, middle]))
            answer = budget.reserve(tokens=estimate)
            if isinstance(answer, Refusal):
                continue
            open_ones.append((answer, cost))
            for told in data.draw(st.lists(st.integers(0, cost), max_size=3)):
                answer.spend(Usage(output_tokens=told))
            if data.draw(st.booleans()):
                reservation, real = open_ones.pop(0)
                reservation.settle(Usage(turns=1, output_tokens=real))
                reservation.settle(Usage(turns=1, output_tokens=real))
                spent += real
        for reservation, real in open_ones:
            reservation.settle(Usage(turns=1, output_tokens=real))
            spent += real
        assert top.spent.output_tokens == spent
        for each in (top, middle):
            assert (each.reserved_turns, each.reserved_tokens) == (0, 0)
        assert top.spent.turns <= 20

    trio.run(main)


@pytest.mark.parametrize("word", [word for word in MODEL_WORDS if word != "inherit"])
def test_every_word_for_a_model_has_a_price(word: str) -> None:
    name = model_of(word, {})
    assert name is not None
    assert price_of(name) is not None


def test_what_costs_more_under_nearly_the_same_name_has_no_price_by_mistake() -> None:
    assert price_of("anthropic/claude-opus-4-8-20260401") == price_of("anthropic/claude-opus-4-8")
    assert price_of("anthropic/claude-opus-4-8-fast") is None


async def test_dollars_run_out_in_whichever_budget_above_has_the_fewest(
    autojump_clock: MockClock,
) -> None:
    prices = {"acme/*": Price(1.0, 5.0)}
    run = Budget(Limits(usd=0.0015), name="the run")
    statuses: dict[str, list[str]] = {}
    for name, limits in (("wide", Limits(usd=1.0)), ("narrow", Limits(usd=0.0005))):
        mind = ScriptedSession(
            [Reply("yes", usage=Usage(output_tokens=100))] * 9, model="acme/large"
        )
        team = run.below(limits, name=name)
        async with spawn(SCOUT, session=mind, budget=team, prices=prices) as scout:
            results = [await scout.ask("a") for _ in range(3)]
        statuses[name] = [each.status for each in results]
    # Each turn costs 0.0005: the run has three, and the narrow one would have one.
    assert statuses == {"wide": ["ok", "ok", "ok"], "narrow": ["budget"] * 3}
    assert run.spent.cost_usd == pytest.approx(0.0015)
