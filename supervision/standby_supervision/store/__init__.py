"""Where events of runs are kept: append-only, acknowledged after the sync, in one file or server.

:mod:`records` says what is kept, :mod:`runs` decides what a command does, :mod:`sqlite` and
:mod:`postgres` write it, and :mod:`store` lets many tasks share one transaction.
"""

from .errors import (
    Fenced,
    NoSuchRun,
    RunTaken,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreErrorKind,
    StoreFull,
    StoreLost,
    StoreReadOnly,
    StoreTooNew,
    StoreUnsure,
)
from .export import TornExport, export
from .records import Append, Claim, Create, NewEvent, Offer, Release, Renew, RunRow, StoredEvent
from .store import Receipt, Store, StoreUrl, open_store

__all__ = [
    "Append",
    "Claim",
    "Create",
    "Fenced",
    "NewEvent",
    "NoSuchRun",
    "Offer",
    "Receipt",
    "Release",
    "Renew",
    "RunRow",
    "RunTaken",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreErrorKind",
    "StoreFull",
    "StoreLost",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnsure",
    "StoreUrl",
    "StoredEvent",
    "TornExport",
    "export",
    "open_store",
]
