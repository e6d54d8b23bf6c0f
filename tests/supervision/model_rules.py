"""What a supervisor does, as tables: event and state on the left, consequence on the right.

Written from OTP's documentation and suite, not from our code.  :mod:`model` runs
them; nothing of the library is called here.

Words: an end is *quiet* (normal, or asked for) or *loud* (a crash, or a kill).  A
child is *running*, *restarting* (between two lives, another is on its way), or
*undefined* (known, and not running); *unknown* is one that there is not.
"""

from __future__ import annotations

from typing import NamedTuple


class AtEnd(NamedTuple):
    """What the end of a child by itself means."""

    report: bool
    then: str


ON_END = {
    # restart type, kind of end: is it reported as an error, and what follows
    ("permanent", "quiet"): AtEnd(True, "restart"),
    ("permanent", "loud"): AtEnd(True, "restart"),
    ("transient", "quiet"): AtEnd(False, "forget"),
    ("transient", "loud"): AtEnd(True, "restart"),
    ("temporary", "quiet"): AtEnd(False, "forget"),
    ("temporary", "loud"): AtEnd(True, "forget"),
}

LOUD = {"crash", "killed"}

CONCERNED = {
    # strategy: who is stopped, in reverse order, and started again, in order
    "one_for_one": "itself",
    "dynamic": "itself",
    "one_for_all": "all",
    "rest_for_one": "itself and later",
}

STOPPED_FOR_RESTART = {
    # restart type of one that is stopped because another restarts: does it come back
    "permanent": True,
    "transient": True,
    "temporary": False,
}

COMES_BACK = {
    # restart type: does a child of the specification, that its supervisor's next life
    # starts again, keep its ref and what waits for it
    "permanent": True,
    "transient": True,
    "temporary": False,
}

KEEPS_SPEC = {
    # restart type, is the supervisor dynamic: is one that is forgotten known still
    ("permanent", False): True,
    ("transient", False): True,
    ("temporary", False): False,
    ("permanent", True): False,
    ("transient", True): False,
    ("temporary", True): False,
}

EXPECTED = {
    # restart type, is it a brutal kill: ends that a stop may have without a report
    ("permanent", True): {"killed"},
    ("permanent", False): {"shutdown"},
    ("transient", True): {"killed", "shutdown", "normal"},
    ("transient", False): {"shutdown", "normal"},
    ("temporary", True): {"killed", "shutdown", "normal"},
    ("temporary", False): {"shutdown", "normal"},
}

CLOSES = {
    # auto_shutdown, is another significant child active: does the end of one close all
    ("never", True): False,
    ("never", False): False,
    ("any_significant", True): True,
    ("any_significant", False): True,
    ("all_significant", True): False,
    ("all_significant", False): True,
}

CALLS = {
    # call, state of the child: steps, and the answer; "" where the start gives it
    ("start", "unknown"): (("add", "start"), ""),
    ("start", "running"): ((), "AlreadyStarted"),
    ("start", "restarting"): ((), "AlreadyPresent"),
    ("start", "undefined"): ((), "AlreadyPresent"),
    ("terminate", "unknown"): ((), "NotFound"),
    ("terminate", "running"): (("stop", "forget"), "Done"),
    ("terminate", "restarting"): (("stop", "forget", "call off"), "Done"),
    ("terminate", "undefined"): (("stop", "forget"), "Done"),
    ("restart", "unknown"): ((), "NotFound"),
    ("restart", "running"): ((), "Running"),
    ("restart", "restarting"): ((), "Restarting"),
    ("restart", "undefined"): (("start",), ""),
    ("delete", "unknown"): ((), "NotFound"),
    ("delete", "running"): ((), "Running"),
    ("delete", "restarting"): ((), "Restarting"),
    ("delete", "undefined"): (("drop",), "Done"),
}

CALLS_OF_DYNAMIC = {
    **CALLS,
    ("terminate", "restarting"): (("stop", "forget"), "Done"),
    **{
        (call, state): ((), "WrongStrategy")
        for call in ("restart", "delete")
        for state in ("unknown", "running", "restarting", "undefined")
    },
}

AFTER_START = {
    # who started it, how that went: steps, and the answer to a call
    ("first", "up"): (("up info",), ""),
    ("first", "ignored"): (("forget",), ""),
    ("first", "failed"): (("report", "fail"), ""),
    ("again", "up"): (("up info",), ""),
    ("again", "ignored"): (("forget",), ""),
    ("again", "failed"): (("report", "try later"), ""),
    ("start", "up"): (("up debug",), "Started"),
    ("start", "ignored"): (("forget",), "Ignored"),
    ("start", "failed"): (("report", "drop"), "StartError"),
    ("restart", "up"): (("up debug",), "Started"),
    ("restart", "ignored"): (("give up mail",), "Ignored"),
    ("restart", "failed"): (("report", "give up mail"), "StartError"),
}

START_HOOK = {
    # what a start hook is told to do: how that goes, and after how many seconds
    "ok": ("up", 0.0),
    "fail": ("failed", 0.0),
    "ignore": ("ignored", 0.0),
    "slow": ("up", 0.25),
    "slow fail": ("failed", 0.25),
}

MESSAGE = {
    # what a child is told: how its life ends (None: it goes on; "": it hangs), the answer
    "ask": (None, "value"),
    "die": ("crash", "crashed"),
    "normal": ("normal", "value"),
    "shutdown": ("shutdown", "value"),
    "hang": ("", "stopped"),
}

SLOW_STOP = 0.375
"""Seconds that a slow stop hook takes."""
PERIOD = 4.0
"""Seconds of every supervisor's window, which is inclusive at both ends."""


def backoff(streak: int) -> float:
    """Seconds before the restart with that number in a row."""
    return min(0.5 * 2.0 ** (streak - 1), 2.0)


RESET_AFTER = 3.0
"""A streak ends with a life of more than that many seconds."""


def counting(times: list[float], now: float) -> list[float]:
    """The restarts that count, with one more at `now`."""
    return [*(each for each in times if each >= now - PERIOD), now]


def concerned(strategy: str, order: list[str], failed: str) -> list[str]:
    """Whom a restart of `failed` concerns, in start order."""
    match CONCERNED[strategy]:
        case "all":
            return order
        case "itself and later":
            return order[order.index(failed) :]
        case _:
            return [failed]
