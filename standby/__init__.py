"""Actors on trio that answer, fail and end in order, and teams of agents made of them.

    async with standby.open_nursery() as nursery:
        counter = nursery.spawn(Counter, 40)
        await counter.ask(Add(2))

Everything a user needs is a name of this module; ``standby.testing`` has what
tests need.
"""

from __future__ import annotations

from standby_actors import Actor as Actor
from standby_actors import ActorCrashed as ActorCrashed
from standby_actors import ActorError as ActorError
from standby_actors import ActorStopped as ActorStopped
from standby_actors import AskCycle as AskCycle
from standby_actors import AskTimeout as AskTimeout
from standby_actors import Crashed as Crashed
from standby_actors import Down as Down
from standby_actors import Event as Event
from standby_actors import Exit as Exit
from standby_actors import ExitReason as ExitReason
from standby_actors import Killed as Killed
from standby_actors import Later as Later
from standby_actors import LeakedScope as LeakedScope
from standby_actors import Linked as Linked
from standby_actors import Listener as Listener
from standby_actors import MailboxFull as MailboxFull
from standby_actors import Monitor as Monitor
from standby_actors import Names as Names
from standby_actors import NameTaken as NameTaken
from standby_actors import NoProcess as NoProcess
from standby_actors import Normal as Normal
from standby_actors import Nursery as Nursery
from standby_actors import Ref as Ref
from standby_actors import Reply as Reply
from standby_actors import Request as Request
from standby_actors import ScheduledMessage as ScheduledMessage
from standby_actors import Shutdown as Shutdown
from standby_actors import Snapshot as Snapshot
from standby_actors import StartTimeout as StartTimeout
from standby_actors import StateMachine as StateMachine
from standby_actors import Stuck as Stuck
from standby_actors import WrongThread as WrongThread
from standby_actors import emit as emit
from standby_actors import listen as listen
from standby_actors import open_events as open_events
from standby_actors import open_nursery as open_nursery

__all__ = [
    "Actor",
    "ActorCrashed",
    "ActorError",
    "ActorStopped",
    "AskCycle",
    "AskTimeout",
    "Crashed",
    "Down",
    "Event",
    "Exit",
    "ExitReason",
    "Killed",
    "Later",
    "LeakedScope",
    "Linked",
    "Listener",
    "MailboxFull",
    "Monitor",
    "NameTaken",
    "Names",
    "NoProcess",
    "Normal",
    "Nursery",
    "Ref",
    "Reply",
    "Request",
    "ScheduledMessage",
    "Shutdown",
    "Snapshot",
    "StartTimeout",
    "StateMachine",
    "Stuck",
    "WrongThread",
    "emit",
    "listen",
    "open_events",
    "open_nursery",
]


def _publish_errors() -> None:
    # A traceback should say `standby.MailboxFull`: which folder an error lives
    # in is our business, not its reader's.  Other classes keep their module,
    # or inspect.getsource() and doctest would look for them in this file.
    for name in __all__:
        thing = globals()[name]
        if isinstance(thing, type) and issubclass(thing, Exception):
            thing.__module__ = __name__


_publish_errors()
