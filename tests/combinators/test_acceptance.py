"""Which test stands for which line of the acceptance list, card and goal of teams."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from standby_actors.agent import Agent
from standby_actors.record import read_record, usage_of
from standby_actors.sessions.scripted import Reply, ScriptedSession
from standby_actors.subagent import reset_ids
from standby_actors.usage import Usage, total
from standby_combinators import Board, SubagentPool, agreed, swarm

from .players import FakeTroupe, echo

TESTS = Path(__file__).parents[1]

LINES: dict[str, str] = {
    "1 the ladder of lifetimes": "combinators/test_pool.py the_lifetime_is_decided_agent_by_agent",
    "1 a run forces task": "combinators/test_lifetime.py run_is_for_one_task_whatever_its_agent_wa",
    "1 held whatever it says": "combinators/test_lifetime.py interviewer_is_held_whatever_its_life",
    "2 spawn counts": "combinators/test_lifetime.py loop_of_three_iterations_spawns_as_its_lifetim",
    "3 all is closed": "combinators/test_every_fault.py no_fault_leaves_anything_or_loses_a_turn",
    "3 misuse": "combinators/test_misuse.py misuse_is_refused_before_anything_is_spawned",
    "3 until raises": "combinators/test_misuse.py function_of_the_users_that_raises_fails_its_team",
    "4 cut in spawn, turn, close": "combinators/test_cut_at_every_step.py cut_at_every_step",
    "5 called off before": "combinators/test_cancellation.py called_off_before_it_begins_nothing_i",
    "6 stop one": "combinators/test_stop_switch.py one_is_stopped_and_its_siblings_do_not_notice",
    "6 its children": "combinators/test_stop_switch.py what_one_has_delegated_is_down_with_it",
    "7 precedence": "actors/test_subagent.py stop_beats_abort_beats_deadline_beats_the_mind",
    "8 deaf to a deadline": "combinators/test_with_subagents.py deaf_mind_has_the_result_at_the_gr",
    "9 usage is a delta": "actors/test_subagent.py usage_is_a_turns_own_and_adds_up",
    "9 of what is cut": "combinators/test_with_subagents.py left_because_it_is_deaf_has_cost",
    "9 of what is below": "agents/test_handoffs.py two_levels_below_have_spent_is_in_the_result",
    "10 trail, actors, records": "combinators/test_acceptance.py records_of_all_add_up_to_the_trai",
    "11 order and width": "combinators/test_fan_out.py results_are_in_the_order_of_the_tasks",
    "11 no shared memory": "combinators/test_fan_out.py no_two_branches_share_a_memory",
    "12 no task alive": "combinators/test_every_fault.py no_fault_of_a_thousand_seeds",
    "13 one spawn, in order": "combinators/test_pool.py who_asks_at_once_shares_one_spawn",
    "16 cap of a loop": "combinators/test_composition.py the_cap_of_a_loop_is_no_success",
    "16 cap of a review": "combinators/test_lifetime.py reviewer_that_remembers_is_one_and_fresh_e",
    "16 cap of a swarm": "combinators/test_acceptance.py rounds_of_a_swarm_are_no_agreement",
    "17 unknown agent": "actors/definitions/test_discovery.py unknown_agent_is_told_which_there_ar",
    "17 nothing loaded": "actors/definitions/test_discovery.py nothing_was_loaded_the_scope_and",
    "18 whole plan first": "combinators/test_failure.py plan_is_corrected_once_and_nobody_is_asked",
    "18 circles": "combinators/test_failure.py what_is_wrong_with_a_plan_is_named",
    "19 two names": "combinators/test_composition.py route_that_names_nobody_or_two_asks_nobody",
    "20 failures shown": "combinators/test_failure.py the_reducer_is_shown_what_failed",
    "21 a no needs remarks": "combinators/test_composition.py a_no_without_remarks_is_asked_for_ag",
    "21 the call ends the turn": "combinators/test_verdicts.py model_decides_by_a_call_that_ends_i",
    "21 only the raiser": "combinators/test_composition.py only_who_raised_it_closes_an_obligation",
    "22 claims": "combinators/test_swarm.py claim_has_one_holder_and_what_is_done_is_never_free",
    "22 freed at once": "combinators/test_swarm.py crashes_has_another_life_and_has_lost_its_claim",
    "23 board": "combinators/test_swarm.py board_is_stamped_capped_and_refuses_with_a_reason",
    "23 exactly once": "combinators/test_swarm.py held_over_all_rounds_and_told_what_is_new_once",
    "24 a swarm is a fan-out": "combinators/test_random_teams.py swarm_of_one_round_without_a_boar",
    "25 unplugged": "combinators/test_with_subagents.py unplugging_the_listener_changes_nothing",
    "25 blocked or dying": "actors/test_events.py slow_failing_stuck_and_absent_listeners_change_n",
    "32 a thousand seeds": "combinators/test_every_fault.py no_fault_of_a_thousand_seeds",
    "C24": "combinators/test_reported_cases.py c24_what_fails_in_the_middle_is_the_result_of_all",
    "C24 a, b, c": "reliability/test_errors_are_not_swallowed.py chain_of_tells_that_breaks_ends_t",
    "C30": "combinators/test_results_reach_who_asked.py asked_again_answers_who_asked_again",
    "C35 a, c": "combinators/test_reported_cases.py c35_of_ten_thousand_branches_one_fails",
    "C35 b": "combinators/test_limits.py c35_a_fan_out_over_sockets_has_no_more_descriptors",
    "C35 d": "combinators/test_reported_cases.py c35_no_branch_begins_once_the_whole_is_cancelled",
    "C36": "combinators/test_with_subagents.py one_failing_branch_discards_none_of_the_others",
    "C37": "combinators/test_reported_cases.py c37_a_loop_ends_on_the_word_and_not_on_a_text",
    "C39 depth": "combinators/test_limits.py c39_one_that_copies_itself_goes_no_deeper",
    "C39 number": "combinators/test_limits.py c39_the_number_of_copies_is_that_of_the_tree",
    "C39 in turn": "combinators/test_limits.py c39_of_a_thousand_in_turn",
    "C39 stopped": "combinators/test_limits.py c39_a_tree_that_is_stopped_is_gone_at_once",
    "L3": "combinators/test_limits.py l3_never_more_than_sixty_four_subagents_are_alive",
    "L5": "combinators/test_limits.py l5_a_million_turns_with_faults_leave_no_more",
    "F10": "agents/chat/test_backend_trouble.py TEAMS",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_its_test(line: str) -> None:
    place, _, words = LINES[line].partition(" ")
    source = (TESTS / place).read_text(encoding="utf-8")
    named = [each for each in source.splitlines() if words in each]
    assert any("def test_" in each or words.isupper() for each in named), line


async def test_the_records_of_all_add_up_to_the_trail(
    autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    reset_ids()

    class Model:
        def session(self, agent: Agent, /) -> ScriptedSession:
            return ScriptedSession(reply)

    def reply(task: str) -> Reply:
        cost = Usage(requests=1, input_tokens=7, output_tokens=2)
        torn = RuntimeError("torn") if task == "crash" else None
        return Reply("said", seconds=60 if task == "hang" else 1, crash=torn, usage=cost)

    keeper = Agent("keeper", "Keep.", lifetime="workflow")
    options = {"model": Model(), "export_dir": tmp_path, "timeout": 5}
    async with SubagentPool(**options) as pool:  # type: ignore[arg-type]
        for task in ("a", "crash", "b", "hang", "c"):
            await pool.turn(keeper, task)
            await pool.turn(Agent("scout", "Look."), task)
    records = [path for path in tmp_path.iterdir() if path.name.endswith(".events.jsonl")]  # noqa: ASYNC240 - a few files, in a test
    recorded = total(usage_of(read_record(path)[0]) for path in records)
    usage = pool.trail.usage()
    assert len(records) == 7
    assert (usage.turns, usage.input_tokens, usage.output_tokens) == (10, 70, 20)
    assert (recorded.turns, recorded.input_tokens, recorded.output_tokens) == (10, 70, 20)


async def test_the_rounds_of_a_swarm_are_no_agreement(
    autojump_clock: trio.testing.MockClock,
) -> None:
    scout = Agent("scout", "Look.")
    done = await swarm(
        [scout, scout], "x", board=Board(), until=agreed(2), rounds=2, spawn=FakeTroupe(echo).spawn
    )
    assert (done.ok, done.converged, done.stopped_by) == (True, False, "rounds")
