"""The command line: `standby`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

ANSWERED = 0
FAILED = 1
MISUSE = 2
INTERRUPTED = 130
"""As a shell reports a program that Ctrl-C ended."""


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code.

    0: done.  1: it failed, and stderr says what and why.  2: it was not called
    as it should be, and nothing was done.  130: Ctrl-C.  143: SIGTERM.  129: its
    terminal went away.
    """
    # Imported here, so that a wheel's entry point costs what it uses.
    from cyclopts import CycloptsError

    from standby_actors.interrupts import Terminated

    from .app import app

    try:
        code = app(
            list(arguments), exit_on_error=False, print_error=False, result_action="return_value"
        )
        # What cannot be written is to be known before the process ends.
        sys.stdout.flush()
    except CycloptsError as error:
        print(f"standby: {error}\ntry: standby --help", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("standby: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Terminated as ended:
        # To a terminal that went away, nothing can be said.
        with suppress(OSError):
            print(f"standby: {ended}", file=sys.stderr)
        return ended.status
    except BrokenPipeError:
        # Whoever read our output has seen enough, as in `standby … | head`.
        # Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else ANSWERED
