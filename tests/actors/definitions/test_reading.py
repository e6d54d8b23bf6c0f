"""A Markdown file becomes an agent, or everything that keeps it from being one."""

from __future__ import annotations

from typing import Any

import pytest

from standby_actors.agent import Agent, Limits, McpServer, resolve_lifetime
from standby_actors.definitions.definition import parse_definition
from standby_actors.definitions.fields import FIELDS
from standby_actors.definitions.problems import Problem
from standby_actors.definitions.vocabulary import MODEL_WORDS

from .folders import FILE, codes, read


def agent_of(*head: str) -> Agent:
    made = read(*head)
    assert made.agent is not None, made.problems
    return made.agent


def test_the_body_is_the_prompt_word_for_word() -> None:
    made = read(body="\n\n# Scout\n\n---\n\n  Find *it*.  \n\n")
    assert made.agent is not None
    assert made.agent.mind == "# Scout\n\n---\n\n  Find *it*."
    assert (made.name, made.agent.path, made.problems) == ("scout", FILE, ())


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        pytest.param("tools: Read, Grep,, Glob", {"tools": ("read", "grep", "find")}, id="commas"),
        pytest.param("tools: [read, Bash, read]", {"tools": ("read", "shell")}, id="list"),
        pytest.param("tools: []", {"tools": ()}, id="no tools"),
        pytest.param(
            "tools: Bash(git add, git log *), mcp__gh__search",
            {"tools": ("shell(git add, git log *)", "mcp__gh__search")},
            id="patterns keep their commas",
        ),
        pytest.param("disallowedTools: Write", {"disallowed_tools": ("write",)}, id="denied"),
        pytest.param("disallowed-tools: Edit", {"disallowed_tools": ("edit",)}, id="hyphens"),
        pytest.param("mustCallTool: true", {"must_call_tool": True}, id="must call"),
        pytest.param('must_call_tool: "no"', {"must_call_tool": False}, id="flag in quotes"),
        pytest.param("model: inherit", {"model": None}, id="inherit"),
        pytest.param("model: openai:gpt-5", {"model": "openai:gpt-5"}, id="provider:model"),
        pytest.param(
            "model: claude-haiku-4-5", {"model": "anthropic/claude-haiku-4-5"}, id="bare model"
        ),
        pytest.param("lifetime: Workflow", {"lifetime": "workflow"}, id="lifetime"),
        pytest.param("concurrency: 3", {"concurrency": 3}, id="concurrency"),
        pytest.param("permissionMode: acceptEdits", {"permission_mode": "accept_edits"}, id="mode"),
        pytest.param("effort: xhigh", {"effort": "xhigh"}, id="effort"),
        pytest.param("thinking: off", {"effort": "none"}, id="thinking of pi-subagents"),
        pytest.param("maxTurns: 7", {"max_requests": 7}, id="maxTurns"),
        pytest.param("timeoutMs: 1500", {"timeout": 1.5}, id="timeoutMs"),
        pytest.param('timeout: "20"', {"timeout": 20.0}, id="number in quotes"),
        pytest.param(
            "fallbackModels: [opus, openai/x]",
            {"fallback_models": ("anthropic/claude-opus-4-8", "openai/x")},
            id="fallbackModels",
        ),
        pytest.param("maxSubagentDepth: 0", {"limits": Limits(depth=0)}, id="maxSubagentDepth"),
        pytest.param(
            "limits: {turns: 3, usd: 0.5}", {"limits": Limits(turns=3, usd=0.5)}, id="limits"
        ),
        pytest.param("skills: python, git", {"skills": ("python", "git")}, id="skills"),
        pytest.param("color: red", {"color": "red"}, id="color"),
        pytest.param("command: pi --mode rpc", {"command": ("pi", "--mode", "rpc")}, id="command"),
        pytest.param("mcpServers: gh, slack", {"mcp_servers": ("gh", "slack")}, id="server names"),
        pytest.param("model:", {"model": None}, id="nothing is as if it were not there"),
        pytest.param('model: ""', {"model": None}, id="blank is too"),
    ],
)
def test_a_field_is_read(line: str, fields: dict[str, Any]) -> None:
    made = agent_of(line)
    assert {name: getattr(made, name) for name in fields} == fields


def test_several_lines_may_say_different_limits() -> None:
    made = agent_of("maxSubagentDepth: 2", "limits: {turns: 3}", "maxBudgetUsd: 1")
    assert made.limits == Limits(depth=2, turns=3, usd=1.0)


def test_a_limit_said_twice_is_a_problem() -> None:
    assert codes(read("maxSubagentDepth: 2", "limits: {depth: 3}")) == [("repeated-field", 5)]


def test_servers_are_names_and_servers() -> None:
    made = agent_of(
        "mcpServers:",
        "  - slack",
        "  - gh:",
        "      command: npx",
        "      args: [-y, 'a, b', 3]",
        "      env: {TOKEN: 5}",
        "      type: stdio",
        "  - web: {url: 'http://localhost:1', headers: {A: b}}",
    )
    assert made.mcp_servers == (
        "slack",
        McpServer("gh", command="npx", args=("-y", "a, b", "3"), env={"TOKEN": "5"}),
        McpServer("web", url="http://localhost:1", headers={"A": "b"}),
    )


def test_words_that_yaml_takes_for_something_else_are_the_text_that_was_written() -> None:
    made = parse_definition("---\nname: no\ndescription: 007\nmodel: on\n---\nx", FILE, env={})
    assert made.agent is not None
    assert (made.agent.name, made.agent.description, made.agent.model) == ("no", "007", "on")


def test_a_description_with_a_colon_is_read_as_other_tools_do_and_is_noted() -> None:
    head = "description: Use it so: <example>user: 'it's late'</example>"
    made = parse_definition(f"---\nname: scout\n{head}\n---\nx", FILE, env={})
    assert made.agent is not None
    assert made.agent.description == head.removeprefix("description: ")
    assert codes(made) == [("unquoted-text", 3)]
    assert made.problems[0].severity == "note"


def test_floating_names_of_models_can_be_pinned_by_the_environment() -> None:
    text = "---\nname: a\ndescription: b\nmodel: haiku\n---\nx"
    env = {"ANTHROPIC_DEFAULT_HAIKU_MODEL": "claude-haiku-9"}
    made = parse_definition(text, FILE, env=env)
    assert made.agent is not None
    assert made.agent.model == "anthropic/claude-haiku-9"


@pytest.mark.parametrize("word", MODEL_WORDS)
def test_no_word_for_a_model_stays_a_word(word: str) -> None:
    model = agent_of(f"model: {word}").model
    assert model is None or model.startswith("anthropic/claude-")


@pytest.mark.parametrize(
    ("line", "message", "nearest"),
    [
        pytest.param("lifetime: workfow", "cannot be 'workfow'", "workflow", id="lifetime"),
        pytest.param("effort: hihg", "cannot be 'hihg'", "high", id="effort"),
        pytest.param("permissionMode: yolo", "cannot be 'yolo'", None, id="permission mode"),
        pytest.param("concurrency: 0", "at least 1, not 0", None, id="concurrency"),
        pytest.param("maxTurns: -3", "at least 1, not -3", None, id="turns"),
        pytest.param("maxTurns: 2.5", "whole number", None, id="half a turn"),
        pytest.param("timeoutMs: soon", "wants a number, not 'soon'", None, id="no number"),
        pytest.param("timeout: .inf", "wants a number", None, id="no end"),
        pytest.param("timeout: 1e999", "with an end", None, id="too large for a number"),
        pytest.param("timeout: 0", "more than 0", None, id="no time"),
        pytest.param("contextThreshold: 80", "at most 1", None, id="percent"),
        pytest.param("mustCallTool: maybe", "true or false", None, id="flag"),
        pytest.param("tools:", "all tools or none", None, id="tools of nothing"),
        pytest.param('tools: ""', "all tools or none", None, id="tools of a blank"),
        pytest.param("tools: {read: true}", "not a table of keys", None, id="tools as a table"),
        pytest.param("skills: [[a]]", "holds names, not a list", None, id="list in a list"),
        pytest.param("model: [a]", "wants a text, not a list", None, id="model as a list"),
        pytest.param("limits: 3", "table of limits", None, id="limits"),
        pytest.param("limits: {turn: 3}", "no limit 'turn'", "turns", id="unknown limit"),
        pytest.param("mcpServers: [{gh: 3}]", "is a table", None, id="server"),
        pytest.param("mcpServers: {gh: {comand: x}}", "'comand'", "command", id="part of it"),
        pytest.param("mcpServers: {gh: {}}", "it has neither", None, id="server without a way"),
        pytest.param("command: 'a \"b'", "parted into words", None, id="open quotes"),
    ],
)
def test_a_value_that_cannot_be_is_a_problem_at_its_line(
    line: str, message: str, nearest: str | None
) -> None:
    made = read(line)
    assert made.agent is None
    (problem,) = made.problems
    assert (problem.code, problem.severity, problem.line) == ("bad-value", "error", 4)
    assert message in problem.message
    assert problem.nearest == nearest
    assert problem.advice
    assert problem.about == "scout"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = (
        "---\nname: a/b\nlifetime: ever\nlimits: {turns: 0, zeal: 3}\n"
        "skills: [[], {}]\nmcpServers: {a: 1, b: 2}\n---\n"
    )
    made = parse_definition(text, FILE, env={})
    assert made.agent is None
    assert [(problem.code, problem.line, problem.column) for problem in made.problems] == [
        ("no-prompt", 1, None),
        ("missing-description", 1, None),
        ("bad-value", 2, 1),
        ("bad-value", 3, 1),
        ("bad-value", 4, 10),
        ("bad-value", 4, 20),
        ("bad-value", 5, 10),
        ("bad-value", 5, 14),
        ("bad-value", 6, 14),
        ("bad-value", 6, 20),
    ]


@pytest.mark.parametrize(
    ("key", "severity", "nearest"),
    [
        pytest.param("tool", "error", "tools", id="a slip costs the agent, whose tools are unread"),
        pytest.param("dissallowedTools", "error", "disallowedTools", id="a slip in two words"),
        pytest.param("mcpServer", "error", "mcpServers", id="one of several"),
        pytest.param("favourite_food", "warning", None, id="a field of nobody"),
    ],
)
def test_an_unknown_field_is_said(key: str, severity: str, nearest: str | None) -> None:
    made = read(f"{key}: read")
    (problem,) = made.problems
    assert (problem.code, problem.severity, problem.line) == ("unknown-field", severity, 4)
    assert problem.nearest == nearest
    assert (made.agent is None) == (severity == "error")


@pytest.mark.parametrize("key", [key for key, field in FIELDS.items() if field.read is None])
def test_what_has_no_effect_is_said_and_costs_nothing(key: str) -> None:
    made = read(f"{key}: [anything]")
    assert made.agent is not None
    (problem,) = made.problems
    assert (problem.code, problem.line) == ("no-effect", 4)
    guards = ("hooks", "isolation")
    assert problem.severity == ("warning" if key in guards else "note")


def test_no_two_fields_of_the_table_are_as_one_key() -> None:
    names = {field.into or key for key, field in FIELDS.items() if field.read is not None}
    assert names - {"disabled"} <= set(Agent.__init__.__annotations__)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("maxTurns: 3", "max_turns: 4"), id="two spellings"),
        pytest.param(("maxTurns: 3", "max_requests: 4"), id="an alias"),
        pytest.param(("timeout: 3", "timeout: 4"), id="twice the same"),
    ],
)
def test_a_field_said_twice_is_a_problem_at_the_second(lines: tuple[str, str]) -> None:
    made = read(*lines)
    assert codes(made) == [("repeated-field", 5)]
    assert "line 4" in made.problems[0].message


def test_an_agent_that_must_call_a_tool_and_has_none_is_refused() -> None:
    assert codes(read("tools: []", "mustCallTool: true")) == [("contradiction", 5)]


def test_acp_without_a_program_is_refused() -> None:
    assert codes(read("backend: acp")) == [("contradiction", 4)]
    assert agent_of("backend: acp", "command: gemini --acp").command == ("gemini", "--acp")


def test_a_disabled_agent_is_none_and_is_noted() -> None:
    made = read("disabled: true")
    assert made.agent is None
    assert not made.is_broken
    assert codes(made) == [("disabled", 4)]
    assert agent_of("disabled: false").name == "scout"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        pytest.param("", "no-frontmatter", 1, id="empty"),
        pytest.param("# Scout\n", "no-frontmatter", 1, id="prose"),
        pytest.param("\n---\nname: a\n---\n", "no-frontmatter", 1, id="late"),
        pytest.param("---\nname: a\n", "open-frontmatter", 1, id="no end"),
        pytest.param("---\n- a\n---\n", "not-fields", 2, id="a list"),
        pytest.param("---\njust words\n---\n", "not-fields", 2, id="words"),
        pytest.param("---\nname: a\n b: [c\n---\n", "bad-yaml", 3, id="broken"),
        pytest.param("---\nname: &a [*a]\n---\n", "yaml-alias", 2, id="a thing within itself"),
        pytest.param("---\nname: *all\n---\n", "yaml-alias", 2, id="a star"),
        pytest.param('---\nname: "\\UFFFFFFFF"\n---\n', "bad-encoding", 2, id="no such letter"),
        pytest.param('---\nname: "\\ud800"\n---\n', "bad-encoding", 2, id="half a letter"),
        pytest.param("---\nname: \x07\n---\n", "bad-yaml", 2, id="a bell"),
        pytest.param("---\n? [a]\n: b\n---\n", "bad-key", 2, id="a list for a key"),
        pytest.param(f"---\nname: {'[' * 7000}{']' * 7000}\n---\n", "bad-yaml", 2, id="deep"),
        pytest.param(f"---\nname: {'x' * 20_000}\n---\n", "too-large", 1, id="a long head"),
        pytest.param("---\nname: a\n---\nx", "missing-description", 1, id="no description"),
        pytest.param("---\nname:\ndescription: b\n---\nx", "missing-name", 2, id="no name"),
        pytest.param("---\n---\nx", "missing-name", 1, id="an empty head"),
    ],
)
def test_a_head_that_cannot_be_read_is_a_problem(text: str, code: str, line: int) -> None:
    made = parse_definition(text, FILE, env={})
    assert made.agent is None
    assert (code, line) in codes(made)


def test_a_name_for_a_large_thing_used_often_fills_no_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert codes(read(*lines)) == [("yaml-alias", 5)]


def test_a_broken_file_is_called_by_its_name_or_else_by_that_of_the_file() -> None:
    assert parse_definition("---\nname: spy\n---\n", FILE).name == "spy"
    assert parse_definition("# nothing\n", FILE).name == "scout"


def test_line_ends_of_other_systems_are_line_ends(tmp_path: Any) -> None:
    from standby_actors.definitions.definition import read_definition

    file = tmp_path / "scout.md"
    file.write_bytes(b"\xef\xbb\xbf---\r\nname: scout\r\ndescription: d\r\n---\r\nOne.\r\nTwo.\r\n")
    made = read_definition(file, env={})
    assert made.agent is not None
    assert made.agent.mind == "One.\nTwo."


def test_a_problem_reads_as_compilers_write_it() -> None:
    made = read("lifetime: workfow")
    assert str(made.problems[0]) == (
        "agents/scout.md:4:1: error: lifetime cannot be 'workfow'; did you mean 'workflow'? "
        "write one of task, workflow, session [bad-value]"
    )
    assert str(Problem(path=FILE, code="x", message="m", advice="a")) == (
        "agents/scout.md: error: m; a [x]"
    )


@pytest.mark.parametrize(
    ("asked", "head", "expected"),
    [
        pytest.param("session", ("lifetime: workflow",), ("session", "argument"), id="argument"),
        pytest.param(None, ("lifetime: workflow",), ("workflow", "agent"), id="the agent's own"),
        pytest.param(None, (), ("task", "default"), id="task"),
        pytest.param("task", ("lifetime: workflow",), ("task", "argument"), id="task is asked for"),
    ],
)
def test_the_lifetime_is_that_of_the_argument_then_of_the_file_then_task(
    asked: Any, head: tuple[str, ...], expected: tuple[str, str]
) -> None:
    assert resolve_lifetime(asked, agent_of(*head)) == expected
