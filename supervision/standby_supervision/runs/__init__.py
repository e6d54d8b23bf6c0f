"""Durable runs: a program that is killed goes on where it was.

:mod:`workspace` opens runs and finds those that nobody works on any more, :mod:`run` records
their steps, :mod:`facts` says what is recorded, and :mod:`state` what it comes to.
"""

from .errors import (
    DamagedRun,
    InDoubt,
    NotDormant,
    Quarantined,
    RunError,
    RunOver,
    RunOwned,
    StepFailed,
    WorkspaceDenied,
)
from .run import Run, RunStep, current_step
from .state import RunState
from .workspace import Swept, Workspace, open_workspace

__all__ = [
    "DamagedRun",
    "InDoubt",
    "NotDormant",
    "Quarantined",
    "Run",
    "RunError",
    "RunOver",
    "RunOwned",
    "RunState",
    "RunStep",
    "StepFailed",
    "Swept",
    "Workspace",
    "WorkspaceDenied",
    "current_step",
    "open_workspace",
]
