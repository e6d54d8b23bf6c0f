"""The commands, and which module has each."""

from __future__ import annotations

from importlib.metadata import version

from cyclopts import App

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
app.command(
    "standby.cli.local:app",
    name="local",
    help="The small model that runs on this machine, offline.",
)
