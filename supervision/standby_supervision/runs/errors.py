"""What a run and a workspace refuse, and why."""

from __future__ import annotations


class RunError(Exception):
    """A run could not do what it was asked."""


class StepFailed(RunError):
    """Raised where a step of a run has raised: now, or when it was recorded.

    The same on both occasions, so that a program that goes on takes the same way.
    ``__cause__`` is the error itself where it happened in this process.
    """

    def __init__(self, name: str, error: str) -> None:
        super().__init__(name, error)
        self.name = name
        self.error = error

    def __str__(self) -> str:
        return f"step {self.name!r} failed: {self.error}"


class InDoubt(RunError):
    """Raised for a step that began as often as it may, and whose end nobody recorded.

    It may have had its effect.  ``standby confirm RUN`` lets it be tried once more.
    """

    def __init__(self, run: str, name: str, attempts: int, key: str) -> None:
        super().__init__(run, name, attempts, key)
        self.run = run
        self.name = name
        self.attempts = attempts
        self.key = key

    def __str__(self) -> str:
        times = "once" if self.attempts == 1 else f"{self.attempts} times"
        return (
            f"{self.name!r} was begun {times} and nobody recorded its end, so that its effect may"
            f" be there: look whether it is (key {self.key}), then `standby confirm {self.run}`"
        )


class RunOwned(RunError):
    """Raised where somebody else works on the run, or may."""

    def __init__(self, run: str, who: str) -> None:
        super().__init__(run, who)
        self.run = run
        self.who = who

    def __str__(self) -> str:
        return f"the run {self.run!r} is at work already: {self.who}"


class RunOver(RunError):
    """Raised where a run is completed, and so cannot be gone on with."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run

    def __str__(self) -> str:
        return f"the run {self.run!r} is completed; its output is recorded, and it does not go on"


class Quarantined(RunError):
    """Raised where the owners of a run have crashed too often, one after another.

    It is left alone, so that it harms nothing else.  ``standby confirm RUN`` lets it be
    tried again.
    """

    def __init__(self, run: str, crashes: int) -> None:
        super().__init__(run, crashes)
        self.run = run
        self.crashes = crashes

    def __str__(self) -> str:
        return (
            f"the run {self.run!r} is in quarantine: its last {self.crashes} owners crashed before"
            f" they got anywhere; find out why, then `standby confirm {self.run}`"
        )


class NotDormant(RunError):
    """Raised where an agent cannot be resumed: it lives again, or is of another run."""

    def __init__(self, run: str, agent: str) -> None:
        super().__init__(run, agent)
        self.run = run
        self.agent = agent

    def __str__(self) -> str:
        return f"{self.agent!r} is not dormant in the run {self.run!r}: it was resumed already"


class DamagedRun(RunError):
    """Raised where an event of a run cannot be read.  It is left as it is."""

    def __init__(self, run: str, seq: int, why: str) -> None:
        super().__init__(run, seq, why)
        self.run = run
        self.seq = seq
        self.why = why

    def __str__(self) -> str:
        return f"event {self.seq} of the run {self.run!r} cannot be read: {self.why}"


class WorkspaceDenied(RunError):
    """Raised for an id that is not of this workspace, whether or not it exists elsewhere."""

    kind = "workspace_denied"

    def __init__(self, workspace: str, what: str) -> None:
        super().__init__(workspace, what)
        self.workspace = workspace
        self.what = what

    def __str__(self) -> str:
        return f"{self.what!r} is not of the workspace {self.workspace}"
