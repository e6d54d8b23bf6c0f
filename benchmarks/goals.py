"""What each figure ought to be: the table of goals, and the judge of a figure.

A goal belongs to a numbered line.  Numbers that are missing belong to parts
that are not there yet; they join this table together with their benchmark.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["aim met", "must met", "missed"]
"""How far a figure got: the ambitious number, the one we promise, or neither."""


class Goal(msgspec.Struct, frozen=True):
    """One promised figure: what we must reach, and what we aim at."""

    line: str
    """Number of the line in the table of goals, or a word where it has none."""
    what: str
    must: float
    aim: float
    sense: Literal["at most", "at least"] = "at most"
    unit: str = ""
    """Unit of the figure; empty for a plain ratio, ``%`` for what a ratio is above 1."""


def judge(goal: Goal, figure: float) -> Verdict:
    """Say how far `figure` got.

    Examples:
        >>> goal = Goal("1", "tell", must=0.12, aim=0.07)
        >>> judge(goal, 0.07), judge(goal, 0.1), judge(goal, 0.2)
        ('aim met', 'must met', 'missed')
        >>> judge(Goal("3", "tell", must=1.5, aim=2.3, sense="at least"), 2.0)
        'must met'
    """
    if goal.sense == "at most":
        reached = figure <= goal.aim, figure <= goal.must
    else:
        reached = figure >= goal.aim, figure >= goal.must
    return "aim met" if reached[0] else "must met" if reached[1] else "missed"


def share_of_must(goal: Goal, figure: float) -> float:
    """Return how much of what is allowed `figure` uses up; above 1 it missed.

    Brings goals of both senses onto one axis.

    Examples:
        >>> share_of_must(Goal("1", "tell", must=0.12, aim=0.07), 0.06)
        0.5
        >>> share_of_must(Goal("3", "tell", must=1.5, aim=2.3, sense="at least"), 3.0)
        0.5
    """
    return figure / goal.must if goal.sense == "at most" else goal.must / figure


def _better(line: str, what: str, must: float, aim: float) -> Goal:
    return Goal(line, what, must, aim, "at least", "times better")


GOALS: dict[str, Goal] = {
    "1": Goal("1", "tell and handle, def / trio memory channel", 0.12, 0.07),
    "2": Goal("2", "tell and handle, async def / trio memory channel", 0.35, 0.20),
    "3": _better("3", "tell and handle, def, against an asyncio.Queue", 1.5, 2.3),
    "4": Goal("4", "ask an idle def actor / raw hand-off", 0.30, 0.15),
    "5": Goal("5", "ask, actor to async def actor / raw hand-off", 0.8, 0.5),
    "6": Goal("6", "ask, trio task to async def actor / raw hand-off", 2.6, 2.0),
    "7": Goal("7", "spawn and stop / start_soon of a no-op", 0.40, 0.22),
    "8": Goal("8", "fan-out child / start_soon of a no-op", 0.70, 0.35),
    "9": Goal("9", "turn that waits once / start_soon, checkpoint, result", 1.5, 0.8),
    "10": Goal("10", "fan-out child at 10^6 / at 10^5", 1.8, 1.3),
    "11": Goal("11", "an idle actor", 512, 300, unit="B"),
    "12": Goal("12", "longest GC pause, 10^6 actors alive", 50, 15, unit="ms"),
    "13": Goal("13", "crash and restart / nursery crash and reopening", 0.20, 0.08),
    "13 erlang": Goal("13", "crash and restart / Erlang supervisor", 1.0, 0.5),
    "14 start": Goal("14", "start a tree of 100,000 / Erlang supervisors", 1.2, 0.7),
    "14 stop": Goal("14", "stop a tree of 100,000 / Erlang supervisors", 0.5, 0.2),
    "15": Goal("15", "stop one of 100,000, median / Erlang terminate_child", 1.0, 0.5),
    "16 erlang": Goal("16", "ring hop / Erlang", 3, 1.8),
    "16 go": Goal("16", "ring hop / Go", 7, 4.5),
    "17": Goal("17", "tell / Erlang send", 8, 4.5),
    "18 def": Goal("18", "ask, actor to def actor / gen_server:call", 1.0, 0.5),
    "18 async": Goal("18", "ask, actor to async def actor / gen_server:call", 2.5, 1.6),
    "19": Goal("19", "fan-out child / Erlang spawn", 6, 3),
    "20 erlang": Goal("20", "skynet / Erlang", 2, 1.2),
    "20 go": Goal("20", "skynet / Go", 12, 7),
    "21 tell": _better("21", "tell, against pykka", 6, 10),
    "21 ask": _better("21", "ask, against pykka", 15, 25),
    "21 fan-out": _better("21", "fan-out, against pykka", 15, 25),
    "21 memory": _better("21", "memory of an idle actor, against pykka", 40, 70),
    "22 tell": _better("22", "tell, against xoscar", 100, 180),
    "22 ask": _better("22", "ask, against xoscar", 30, 60),
    "22 fan-out": _better("22", "fan-out, against xoscar", 30, 50),
    "23 tell": _better("23", "publish, against autogen-core", 200, 350),
    "23 ask": _better("23", "send, against autogen-core", 80, 150),
    "23 fan-out": _better("23", "fan-out, against autogen-core", 60, 110),
    "24 tell": _better("24", "tell, against", 5, 9),
    "24 ask": _better("24", "ask, against", 8, 15),
    "24 fan-out": _better("24", "fan-out, against", 4, 7),
    "26": Goal("26", "hooks of the event stream, nobody listening", 15, 8, unit="%"),
    "supervised tell": Goal("15", "what supervision adds to a tell", 5, 2, unit="%"),
    "supervised ask": Goal("15", "what supervision adds to an ask", 5, 2, unit="%"),
    "flat time": Goal("flat", "last / first 10,000 of 100,000 restarts", 1.25, 1.1),
    "flat memory": Goal("flat", "grown by 90,000 restarts", 2, 0.5, unit="MB"),
    "otp 77": Goal("OTP 77", "terminate 10,000 temporary / 1,000", 50, 15),
    "otp 88 start": Goal("OTP 88", "start 100,000 children / 1,000", 1000, 150),
    "otp 88 stop": Goal("OTP 88", "terminate 100,000 children / 1,000", 1000, 150),
    "subagents": Goal("sessions", "fan-out function subagent / start_soon and channel", 4.0, 3.0),
    "subagents autogen": _better("sessions", "fan-out of subagents, against autogen-core", 8, 15),
    "chat turns": Goal("sessions", "200 chat turns at once / bare openai calls", 1.15, 1.05),
    "session memory": Goal("sessions", "a live chat session", 0.2, 0.05, unit="MB"),
    "branch": Goal("teams", "branch of a fan_out / start_soon and channel", 3.0, 1.5),
    "branch asyncio": Goal("teams", "branch of a fan_out / asyncio.gather, semaphore", 5, 3),
    "branch autogen": _better("teams", "branch of a fan_out, against autogen-core", 10, 20),
    "branch flat": Goal("teams", "branch of a fan_out / the same at 10^4", 1.8, 1.3),
    "branch memory": Goal("teams", "what is left of a branch", 1000, 600, unit="B"),
    "store": Goal("store", "an event, 256 askers / sqlite3, 50 rows to a commit", 4.0, 2.5),
    "store rate": Goal("store", "events acknowledged", 5_000, 10_000, "at least", "/s"),
    "store p99": Goal("store", "p99 of an acknowledgement at 1,000/s", 50, 20, unit="ms"),
    "import": Goal("import", "import standby / import trio", 1.4, 1.2),
}
"""Every goal that has a benchmark, by its key; one line may have several."""
