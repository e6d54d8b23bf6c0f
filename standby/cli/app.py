"""The commands, and which module has each."""

from __future__ import annotations

from importlib.metadata import version

from cyclopts import App, Group

app = App(
    name="standby",
    help="Teams of agents on trio actors.",
    version=lambda: version("standby"),
    backend="trio",
)
app.command(run := App(name="run", help="Set a team to work."))
# By name: a command's module is imported when the command is called.
run.command("standby.cli.explore:explore", name="explore")
app.command("standby.cli.agents:agents", name="agents")
app.command("standby.cli.mcp:mcp", name="mcp")
app.command("standby.cli.tree:tree", name="tree")
app.command("standby.cli.export:export", name="export")
RUNS = Group("Durable runs", sort_key=1)
OF_RUNS = {
    "runs": "List the durable runs of a folder, or show one.",
    "resume": "Go on with a run: its program is started again, where it was.",
    "respond": "Answer a question that a run waits for.",
    "confirm": "Let steps be tried again whose end nobody recorded.",
    "cancel": "End a run, wherever its program is.",
}
for place, (command, text) in enumerate(OF_RUNS.items()):
    app.command(f"standby.cli.runs:{command}", name=command, help=text, group=RUNS, sort_key=place)
app.command(
    "standby.cli.local:app",
    name="local",
    help="The small model that runs on this machine, offline.",
)
