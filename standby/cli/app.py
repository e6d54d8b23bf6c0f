"""The commands, and which module has each."""

from __future__ import annotations

from importlib.metadata import version

from cyclopts import App, Group

# Said here and not in the docstrings, which would need the modules to be read.
TEAMS = {
    "chain": """One after the other: what each says is what the next goes on with.

`standby run chain scout planner "Where are dates parsed, and how would you change it?"`

Exit codes: 0 answered; 1 one of them failed; 2 misuse; 130 stopped.
""",
    "fan-out": """Side by side: one question to many agents, or many files or lines to one.

`standby run fan-out scout "What does it do?" --each src/*.py`

`git ls-files | standby run fan-out scout "What is it for?" --each-line --concurrency 8`

Exit codes: 0 all answered, or as many as --quorum wants; 1 not so; 2 misuse; 130 stopped.
""",
    "loop": """Again and again, until a word is said or a command passes.

`standby run loop coder "Make the tests pass." --check "pytest -q" --max 5`

`standby run loop coder reviewer "Rename Foo to Bar." --until LGTM`

Exit codes: 0 it became good; 1 it did not, or a turn failed; 2 misuse; 130 stopped.
""",
    "orchestrate": """On a plan: a planner splits the work, agents do it in the order of its needs.

`standby run orchestrate scout coder reviewer "Replace requests by httpx." --reducer synthesiser`

Exit codes: 0 every step was done; 1 not so, or no plan could be used; 2 misuse; 130 stopped.
""",
    "swarm": """Together over several rounds: members hear each other on a board, share the work.

`standby run swarm scout scout reviewer "What breaks at a leap second?" --rounds 3`

Exit codes: 0 the last turn of each was answered, and --agree was reached; 1 not so; 2 misuse;
130 stopped.
""",
    "interview": """A person is asked, question by question, and a brief is written.

`standby run interview "A command that renames a whole project." > brief.md`

`standby run interview "A new logo." --web --answers logo.json`

On a terminal you type answers; piped in, each line is one. An empty line, the end of the input,
or esc: no more questions, and the brief is written.

Exit codes: 0 the brief is written; 1 it is not; 2 misuse; 130 stopped.
""",
}
EXPLORE = """Read the text files of a directory, and answer a question about them.

One scout reads each file, and a synthesiser answers from what they found. Names that they quote
are checked to occur in the files, and files that they cite to have been read. What git ignores is
not read.

Exit codes: 0 answered; 1 failed, stderr says what and why; 2 misuse; 130 interrupted, and what was
answered until then is printed.
"""
KEYS = """
The answer is on stdout, all else on stderr. While it runs: esc cuts the turn in progress,
ctrl+del (or ctrl+x) stops all, and you can type /stop scout#2, /steer scout#2 be brief, /help.
Ctrl-C stops in order, twice at once.
"""
RUN_EPILOGUE = f"""
`standby run chain scout planner "Where are dates parsed?"`

`standby run loop coder "Make the tests pass." --check "pytest -q" --max 5`

`git ls-files | standby run fan-out scout "What is it for?" --each-line --local`

{KEYS}

Exit codes: 0 answered, 1 failed, 2 misuse, 130 stopped.
"""

app = App(
    name="standby",
    help="Teams of agents on trio actors.",
    version=lambda: version("standby"),
    backend="trio",
)
app.command(
    run := App(
        name="run",
        help="Set a team to work: agents by their names (see `standby agents`), on any model.",
        help_epilogue=RUN_EPILOGUE,
        group_commands=Group("Teams", sort_key=0),
    )
)
app.command(
    "standby.cli.doctor:doctor",
    name="doctor",
    help="Look at what is here for agents, and how a workspace is.",
)
RUNS = Group("Durable runs", sort_key=1)
OF_RUNS = {
    "runs": "List the durable runs of a folder, or show one.",
    "resume": "Go on with a run: its program is started again, where it was.",
    "respond": "Answer a question that a run waits for.",
    "confirm": "Let steps be tried again whose end nobody recorded.",
    "cancel": "End a run, wherever its program is.",
}
# By name: a command's module is imported when the command is called.
for place, (team, text) in enumerate(TEAMS.items()):
    path = f"standby.cli.teams:{team.replace('-', '_')}"
    run.command(path, name=team, help=text, help_epilogue=KEYS, sort_key=place)
run.command(
    "standby.cli.explore:explore",
    name="explore",
    help=EXPLORE,
    help_epilogue="",
    sort_key=len(TEAMS),
)
app.command("standby.cli.agents:agents", name="agents")
app.command("standby.cli.mcp:mcp", name="mcp")
app.command("standby.cli.tree:tree", name="tree")
app.command("standby.cli.export:export", name="export")
LIVE = Group("Live agents", sort_key=2)
for place, command in enumerate(("ps", "stop", "steer", "evict")):
    app.command(f"standby.cli.live:{command}", name=command, group=LIVE, sort_key=place)
for place, (command, text) in enumerate(OF_RUNS.items()):
    app.command(f"standby.cli.runs:{command}", name=command, help=text, group=RUNS, sort_key=place)
app.command(
    "standby.cli.local:app",
    name="local",
    help="The small model that runs on this machine, offline.",
)
