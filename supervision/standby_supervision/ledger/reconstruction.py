"""What is going on, put together anew: sessions from the ledger, the source from git."""

from __future__ import annotations

import msgspec

from .anchors import RepositoryState
from .escalation import SessionSummary


class Reconstruction(msgspec.Struct, frozen=True):
    """The state of a workflow as it can be known after a failure of its orchestration."""

    sessions: tuple[SessionSummary, ...]
    """Those that are not over."""
    open: tuple[str, ...] | None
    """Ids of those that are open here; None where no target lists them."""
    repository: RepositoryState | None
    """None where the workflow has no work tree."""
