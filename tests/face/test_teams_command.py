"""`standby run chain` and its kin as their user meets them: what is printed where, exit codes."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from standby.cli import call
from standby_actors.record import ENDING
from standby_actors.subagent import reset_ids
from tests.support.model_server import SILENT, Answer, fails

from .agents_at_hand import Playing, make_home, plan, write_agent
from .explorers import KEY, served

KEYS = ("OPENAI", "ANTHROPIC", "GEMINI", "OPENROUTER")


@frozen
class Ran:
    """What one run of the command came to."""

    code: int
    out: str
    err: str
    asked: list[tuple[str, str]]


@pytest.fixture(autouse=True)
def a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = make_home(tmp_path)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("STANDBY_MODEL", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for provider in KEYS:
        monkeypatch.delenv(f"{provider}_API_KEY", raising=False)
        monkeypatch.delenv(f"{provider}_BASE_URL", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    reset_ids()
    return home


@pytest.fixture
def running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Runs the command in this process, in front of a script."""

    def run(
        *arguments: str,
        rule: Callable[[str, str], Answer | str | None] | None = None,
        stdin: str | None = None,
    ) -> Ran:
        playing = Playing(rule or (lambda who, task: None))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with served(playing) as server:
            address = ["--base-url", server.base_url, "--model", "m"]
            code = call(["run", arguments[0], *address, *arguments[1:]])
        said = capsys.readouterr()
        assert KEY not in said.out + said.err
        assert "Traceback" not in said.err
        return Ran(code, said.out, said.err, playing.asked)

    return run


def test_a_chain_goes_from_one_to_the_next(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "two", "Where is it?")
    assert ran.code == 0
    assert ran.asked[0] == ("one", "Where is it?")
    # The request travels along.
    assert "## Request\n\nWhere is it?" in ran.asked[1][1]
    assert "one has seen: Where is it?" in ran.asked[1][1]
    assert ran.out.startswith("two has seen: ## Request")
    assert "one#1: works on Where is it?" in ran.err
    assert "two#1: two has seen" in ran.err


def test_a_chain_may_hand_on_nothing_but_what_was_said(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "two", "Where?", "--no-carry")
    assert ran.out == "two has seen: one has seen: Where?\n"


def test_the_task_may_come_from_the_standard_input(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", stdin="Where\nis it?\n")
    assert (ran.code, ran.asked) == (0, [("one", "Where\nis it?\n")])


def test_the_task_may_look_like_an_agent(running: Callable[..., Ran]) -> None:
    assert running("chain", "one", "--task", "two").asked == [("one", "two")]
    assert running("chain", "one", "--", "-v is what?").asked == [("one", "-v is what?")]


def test_a_fan_out_asks_all_the_same(running: Callable[..., Ran]) -> None:
    ran = running("fan-out", "one", "two", "Why?")
    assert ran.code == 0
    assert sorted(ran.asked) == [("one", "Why?"), ("two", "Why?")]
    assert ran.out == "## one\n\none has seen: Why?\n\n## two\n\ntwo has seen: Why?\n"


def test_a_fan_out_has_a_branch_for_each_file(running: Callable[..., Ran]) -> None:
    Path("a.txt").write_text("alpha\n")
    Path("b.txt").write_text("beta\n")
    ran = running("fan-out", "one", "What is it?", "--each", "a.txt", "b.txt", "--concurrency", "1")
    assert ran.asked == [
        ("one", "What is it?\n\n## a.txt\n\nalpha\n"),
        ("one", "What is it?\n\n## b.txt\n\nbeta\n"),
    ]


def test_a_fan_out_has_a_branch_for_each_line_and_agent(running: Callable[..., Ran]) -> None:
    ran = running(
        "fan-out", "one", "two", "Say:", "--each-line", "--concurrency", "1", stdin="a\n\n b \n"
    )
    assert [(who, task.split()[-1]) for who, task in ran.asked] == [
        ("one", "a"),
        ("two", "a"),
        ("one", "b"),
        ("two", "b"),
    ]


def test_lines_are_tasks_by_themselves(running: Callable[..., Ran]) -> None:
    ran = running("fan-out", "one", "--each-line", "--concurrency", "1", stdin="a\nb\n")
    assert ran.asked == [("one", "a"), ("one", "b")]


def test_a_reducer_makes_one_answer_of_all(running: Callable[..., Ran]) -> None:
    ran = running("fan-out", "one", "two", "Why?", "--reducer", "boss")
    assert ran.asked[-1][0] == "boss"
    assert "one has seen: Why?" in ran.asked[-1][1]
    assert ran.out.startswith("boss has seen: ")


def test_the_first_answer_may_be_enough(running: Callable[..., Ran]) -> None:
    ran = running(
        "fan-out",
        "one",
        "two",
        "Why?",
        "--first",
        rule=lambda who, task: SILENT if who == "one" else None,
    )
    assert (ran.code, ran.out) == (0, "two has seen: Why?\n")


def test_a_branch_that_fails_fails_the_whole_and_the_others_are_printed(
    running: Callable[..., Ran],
) -> None:
    ran = running(
        "fan-out",
        "one",
        "two",
        "Why?",
        rule=lambda who, task: fails(401, "no") if who == "one" else None,
    )
    assert ran.code == 1
    assert "two has seen: Why?" in ran.out
    assert "standby: one#1: " in ran.err
    assert "standby: not done: " in ran.err
    assert "401" in ran.err


def test_of_a_whole_that_failed_nothing_is_printed_as_an_answer(
    running: Callable[..., Ran],
) -> None:
    ran = running("fan-out", "one", "two", "Why?", rule=lambda who, task: fails(401, "no"))
    assert (ran.code, ran.out) == (1, "")


def test_a_loop_ends_when_the_word_is_said(running: Callable[..., Ran]) -> None:
    words = iter(["not yet", "**LGTM**", "never asked"])
    ran = running(
        "loop",
        "one",
        "two",
        "Do it.",
        "--until",
        "LGTM",
        rule=lambda who, task: next(words) if who == "two" else None,
    )
    assert (ran.code, ran.out) == (0, "**LGTM**\n")
    assert [who for who, _ in ran.asked] == ["one", "two"] * 2
    # The next round begins with what was said last.
    assert "not yet" in ran.asked[2][1]


def test_a_loop_that_does_not_become_good_is_no_success(running: Callable[..., Ran]) -> None:
    ran = running("loop", "one", "Do it.", "--until", "DONE", "--max", "2")
    assert ran.code == 1
    assert len(ran.asked) == 2
    assert ran.out.startswith("one has seen")
    assert "standby: not done: nobody said DONE in 2 rounds" in ran.err


def test_a_loop_that_says_the_same_again_gives_up(running: Callable[..., Ran]) -> None:
    ran = running(
        "loop",
        "one",
        "Do it.",
        "--until",
        "DONE",
        "--max",
        "9",
        "--stalled",
        "2",
        rule=lambda who, task: "the same",
    )
    assert (ran.code, len(ran.asked)) == (1, 2)
    assert "in 2 rounds and the answers repeat" in ran.err


@pytest.mark.real
def test_a_loop_runs_a_command_until_it_passes(running: Callable[..., Ran]) -> None:
    rounds: list[str] = []

    def rule(who: str, task: str) -> str:
        rounds.append(task)
        if len(rounds) == 2:
            Path("done").touch()
        return f"round {len(rounds)}"

    check = "echo looking for it; test -e done"
    ran = running("loop", "one", "Make it.", "--check", check, "--max", "5", rule=rule)
    # What is printed is what the agent said, and not what the command did.
    assert (ran.code, ran.out) == (0, "round 2\n")
    assert "looking for it" in rounds[1]
    assert "failed with exit code 1" in rounds[1]
    assert "check: failed: exit code 1" in ran.err
    assert "check: passed" in ran.err


@pytest.mark.real
def test_a_command_that_never_passes_is_no_success(running: Callable[..., Ran]) -> None:
    ran = running("loop", "one", "Make it.", "--check", "false", "--max", "2")
    assert ran.code == 1
    assert "standby: not done: 'false' did not pass in 2 rounds" in ran.err


def test_a_loop_without_a_condition_plays_all_its_rounds(running: Callable[..., Ran]) -> None:
    ran = running("loop", "one", "Do it.", "--max", "3", "--no-carry")
    assert (ran.code, len(ran.asked)) == (0, 3)


def test_a_plan_is_made_and_done_in_the_order_of_its_needs(running: Callable[..., Ran]) -> None:
    steps = plan(("a", "one", "look", []), ("b", "two", "join", ["a"]))
    ran = running(
        "orchestrate",
        "one",
        "two",
        "Do it.",
        "--planner",
        "boss",
        "--reducer",
        "one",
        rule=lambda who, task: steps if who == "boss" else None,
    )
    assert ran.code == 0
    assert [who for who, _ in ran.asked] == ["boss", "one", "two", "one"]
    assert "one has seen: look" in ran.asked[2][1]
    assert ran.out.startswith("one has seen: ")


def test_a_plan_that_cannot_be_used_is_a_failure(running: Callable[..., Ran]) -> None:
    ran = running(
        "orchestrate",
        "one",
        "two",
        "Do it.",
        "--planner",
        "boss",
        rule=lambda who, task: "I have no plan.",
    )
    assert (ran.code, ran.out) == (1, "")
    assert "standby: not done: " in ran.err


def test_a_swarm_has_rounds(running: Callable[..., Ran]) -> None:
    ran = running("swarm", "one", "two", "one", "Think.", "--rounds", "2")
    assert ran.code == 0
    assert sorted(who for who, _ in ran.asked) == ["one"] * 4 + ["two"] * 2
    assert any("You are one@2." in task for _, task in ran.asked)
    assert "turn 2 of at most 2" in ran.asked[-1][1]


def test_a_swarm_that_does_not_agree_is_no_success(running: Callable[..., Ran]) -> None:
    ran = running("swarm", "one", "two", "Think.", "--rounds", "1", "--agree", "2")
    assert ran.code == 1
    assert "VOTE: yes" in ran.asked[0][1]
    assert "standby: not done: 2 did not agree in 1 round" in ran.err


def test_a_claim_is_offered_to_every_member(running: Callable[..., Ran]) -> None:
    ran = running("swarm", "one", "Think.", "--rounds", "1", "--claim", "a", "--claim", "b")
    assert "## Free to take\n\na, b" in ran.asked[0][1]


def asks(*questions: str) -> Callable[[str, str], str]:
    """An interviewer who asks these, one after the other, and is ready then."""
    left = [*(json.dumps({"question": each, "options": ["yes", "no"]}) for each in questions)]

    def rule(who: str, task: str) -> str:
        if task.startswith("Ask no more."):
            return "The brief: " + " ".join(task.partition("## Answers")[2].split())
        return left.pop(0) if left else "READY"

    return rule


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets the standard input be a pipe with these lines in it."""

    def answer(lines: str) -> None:
        reading, writing = os.pipe()
        os.write(writing, lines.encode())
        os.close(writing)
        stdin = files.enter_context(os.fdopen(reading, encoding="utf-8"))
        monkeypatch.setattr(sys, "stdin", stdin)

    with ExitStack() as files:
        yield answer


def test_an_interview_takes_its_answers_from_a_pipe(
    running: Callable[..., Ran], answering: Callable[[str], None]
) -> None:
    answering("1\nperhaps\n")
    ran = running("interview", "A thing", "--agent", "one", rule=asks("Big?", "Red?"))
    assert (ran.code, ran.out) == (0, "The brief: - Big? yes - Red? perhaps\n")
    assert "Big?\n> yes\nRed?\n> perhaps\n" in "".join(
        line for line in ran.err.splitlines(keepends=True) if not line.startswith("one#1")
    )


@pytest.mark.parametrize("lines", ["yes\n", "yes\n\nno\n"], ids=["the end", "an empty line"])
def test_without_more_answers_the_brief_is_written(
    running: Callable[..., Ran], answering: Callable[[str], None], lines: str
) -> None:
    answering(lines)
    ran = running("interview", "A thing", "--agent", "one", rule=asks("Big?", "Red?", "Old?"))
    assert (ran.code, ran.out) == (0, "The brief: - Big? yes\n")
    assert "> (no more questions)" in ran.err


def test_answers_are_kept_and_not_asked_again(
    running: Callable[..., Ran], answering: Callable[[str], None]
) -> None:
    arguments = ("interview", "A thing", "--agent", "one", "--answers", "answers.json")
    answering("yes\n")
    running(*arguments, rule=asks("Big?"))
    assert json.loads(Path("answers.json").read_text())[0]["text"] == "yes"
    answering("no\n")
    ran = running(*arguments, rule=asks("Big?", "Red?"))
    assert ran.out == "The brief: - Big? yes - Red? no\n"
    assert "That was answered before: yes" in ran.asked[1][1]
    assert [each["text"] for each in json.loads(Path("answers.json").read_text())] == ["yes", "no"]


def test_an_interview_in_json_has_its_questions_among_the_events(
    running: Callable[..., Ran], answering: Callable[[str], None]
) -> None:
    answering("1\n")
    ran = running("interview", "A thing", "--agent", "one", "--json", rule=asks("Big?"))
    assert (ran.code, ran.err) == (0, "Big?\n> yes\n")
    events = [json.loads(line) for line in ran.out.splitlines()]
    [asked] = [each["data"] for each in events if each["type"] == "question.asked"]
    assert asked == {"text": "Big?", "options": ["yes", "no"]}
    assert events[-1]["answers"] == [{"question": "Big?", "text": "yes"}]


def test_json_is_one_object_a_line_and_the_result_is_the_last(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "two", "Why?", "--json")
    assert (ran.code, ran.err) == (0, "")
    *events, result = [json.loads(line) for line in ran.out.splitlines()]
    assert (result["type"], result["team"], result["exit_code"]) == ("run.result", "chain", 0)
    assert [step["agent"] for step in result["steps"]] == ["one", "two"]
    assert result["usage"]["input_tokens"] == 200
    assert {"subagent.spawn", "subagent.text", "subagent.turn"} <= {each["type"] for each in events}


def test_json_of_a_failure_has_its_exit_code(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "Why?", "--json", rule=lambda who, task: fails(401, "no"))
    result = json.loads(ran.out.splitlines()[-1])
    assert (ran.code, result["exit_code"], result["status"]) == (1, 1, "failed")


def test_each_subagent_leaves_its_record(running: Callable[..., Ran], tmp_path: Path) -> None:
    folder = tmp_path / "made" / "records"
    assert running("fan-out", "one", "two", "Why?", "--export", str(folder)).code == 0
    assert sorted(path.name.partition(".")[0] for path in folder.glob(f"*{ENDING}")) == [
        "one-1",
        "two-1",
    ]


def test_a_budget_ends_it(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "two", "one", "Why?", "--budget", "2turns")
    assert ran.code == 1
    assert len(ran.asked) == 2
    assert "--budget has a limit of 2 turns" in ran.err


def test_a_deadline_ends_it_and_keeps_what_there_is(running: Callable[..., Ran]) -> None:
    ran = running(
        "fan-out",
        "one",
        "two",
        "Why?",
        "--deadline",
        "1.5s",
        rule=lambda who, task: SILENT if who == "one" else None,
    )
    assert ran.code == 1
    assert "two has seen: Why?" in ran.out
    assert "standby: not done: the deadline of 1.5s is up" in ran.err


def test_a_turn_has_its_time(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "Why?", "--timeout", "0.2", rule=lambda who, task: SILENT)
    assert ran.code == 1
    assert "timed out after 0.2 s" in ran.err


def test_an_agent_of_a_file_is_one_too(running: Callable[..., Ran], tmp_path: Path) -> None:
    path = write_agent(tmp_path / "elsewhere", "third")
    assert running("chain", str(path), "Why?").asked == [("third", "Why?")]


def test_an_agent_of_the_project_is_asked_for(running: Callable[..., Ran]) -> None:
    write_agent(Path("agents"), "mine")
    ran = running("chain", "mine", "one", "Why?")
    assert ran.code == 2
    assert "say --scope both to use 'mine' all the same" in ran.err
    assert running("chain", "mine", "Why?", "--scope", "both").asked == [("mine", "Why?")]


MISUSE: list[Any] = [
    pytest.param(["chain"], "chain wants an agent before the task", id="nothing"),
    pytest.param(["chain", "Why is it?"], "wants an agent before the task", id="no agent"),
    pytest.param(["chain", "one"], "there is no task", id="no task"),
    pytest.param(["chain", "one", " "], "the task is empty", id="an empty task"),
    pytest.param(["chain", "oen", "Why?"], "did you mean 'one'?", id="a misspelt agent"),
    pytest.param(["chain", "one", "coderr"], "say: --task coderr", id="a task like an agent"),
    pytest.param(["chain", "one", "Why", "is", "it?"], "into quotes", id="a task without quotes"),
    pytest.param(["chain", "one", "x", "--task", "Why?"], "no agent 'x'", id="two tasks"),
    pytest.param(["chain", "./no.md", "Why?"], "no.md is no agent", id="no such file"),
    pytest.param(["chain", "one", "Why?", "--in", "no"], "it does not exist", id="no folder"),
    pytest.param(["chain", "one", "Why?", "--budget", "lots"], "a budget is", id="no budget"),
    pytest.param(
        ["chain", "one", "Why?", "--budget", "1usd", "--model", "openai/unheard-of"],
        "say it in tokens",
        id="dollars for a model without a price",
    ),
    pytest.param(["chain", "one", "Why?", "--deadline", "soon"], "a time is", id="no time"),
    pytest.param(["chain", "one", "Why?", "--json", "--plain"], "say one", id="json and plain"),
    pytest.param(["chain", "one", "Why?", "--local", "--model", "openai/x"], "--local", id="local"),
    pytest.param(["chain", "one", "Why?", "--base-url", "http://x"], "--model", id="no model"),
    pytest.param(["chain", "one", "Why?", "--model", "opanai/x"], "openai/x", id="a model"),
    pytest.param(["chain", "one", "Why?", "--nonsense"], "--nonsense", id="an unknown option"),
    pytest.param(["fan-out", "one", "Why?", "--each", "no"], "--each no: ", id="no file"),
    pytest.param(["fan-out", "one", "Why?", "--quorum", "2"], "a quorum of 2", id="a quorum"),
    pytest.param(["fan-out", "one", "x?", "--each", "a", "--each-line"], "say one", id="both"),
    pytest.param(["fan-out", "one", "Why?", "--concurrency", "0"], "--concurrency", id="nobody"),
    pytest.param(["fan-out", "one", "Why?", "--reducer", "bos"], "'boss'", id="no reducer"),
    pytest.param(["loop", "one", "x?", "--until", "a", "--check", "b"], "say one", id="two ends"),
    pytest.param(["loop", "one", "x?", "--check", " "], "command is empty", id="no command"),
    pytest.param(["loop", "one", "x?", "--max", "0"], "--max", id="no rounds"),
    pytest.param(["orchestrate", "one", "one", "x?"], "stands there twice", id="twice"),
    pytest.param(["orchestrate", "one", "x?", "--planner", "plannr"], "'planner'", id="planner"),
    pytest.param(["swarm", "one", "x?", "--agree", "2"], "2 cannot agree", id="too few"),
    pytest.param(["swarm", "one", "x?", "--no-board", "--free"], "--no-board", id="no board"),
    pytest.param(["interview", "A", "thing"], "into quotes", id="a topic without quotes"),
    pytest.param(["interview", "A thing", "--agent", "oen"], "'one'", id="no interviewer"),
    pytest.param(["interview", "A thing", "--patience", "x"], "a time is", id="no patience"),
]


@pytest.mark.parametrize(("arguments", "words"), MISUSE)
def test_misuse_is_2_and_says_what_is_wrong(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    master, slave = os.openpty()  # a terminal, where nothing is read by mistake
    try:
        monkeypatch.setattr(sys, "stdin", os.fdopen(slave, encoding="utf-8"))
        assert call(["run", *arguments]) == 2
    finally:
        sys.stdin.close()
        os.close(master)
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.startswith("standby: ")
    assert said.out == ""


def test_an_interview_in_json_wants_somebody_to_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"A thing")))
    assert call(["run", "interview", "--agent", "one", "--json"]) == 2
    assert "leaves nobody to ask" in capsys.readouterr().err


def test_a_page_wants_its_packages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert call(["run", "interview", "A thing", "--agent", "one", "--web"]) == 2
    assert "pip install 'standby[web]'" in capsys.readouterr().err


def test_without_a_model_the_ways_to_get_one_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standby_actors.models.local_weights", lambda: None)
    assert call(["run", "chain", "one", "Why?"]) == 1
    said = capsys.readouterr()
    assert "OPENAI_API_KEY" in said.err
    assert said.out == ""


def test_what_a_model_says_cannot_command_the_terminal(running: Callable[..., Ran]) -> None:
    ran = running("chain", "one", "Why?", rule=lambda who, task: "\x1b[2Ja\tb\nc")
    assert ran.out == "\ufffd[2Ja\tb\nc\n"
    assert "\x1b" not in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--help"], ("chain", "fan-out", "loop", "orchestrate", "swarm", "interview")),
        (["run", "chain", "--help"], ("--budget", "--local", "--base-url", "Exit codes: 0")),
        (["run", "fan-out", "--help"], ("--each-line", "--quorum", "Exit codes: 0")),
        (["run", "loop", "--help"], ("--until", "--check", "--max")),
        (["run", "orchestrate", "--help"], ("--planner", "--reducer")),
        (["run", "swarm", "--help"], ("--rounds", "--agree")),
        (["run", "interview", "--help"], ("--web", "--answers")),
    ],
    ids=lambda it: it[1] if isinstance(it, list) else "",
)
def test_help_says_what_there_is(
    arguments: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(arguments) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)
