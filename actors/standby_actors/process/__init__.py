"""Child processes that end with us, and what they say."""

from .command import CommandResult, run_command
from .environment import child_environment
from .frames import BadLine, Frame, LineReader, TooLong
from .process import CannotRun, Ended, Grace, Process, ProcessError, open_process

__all__ = [
    "BadLine",
    "CannotRun",
    "CommandResult",
    "Ended",
    "Frame",
    "Grace",
    "LineReader",
    "Process",
    "ProcessError",
    "TooLong",
    "child_environment",
    "open_process",
    "run_command",
]
