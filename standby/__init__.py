"""Actors on trio that answer, fail and end in order, and teams of agents made of them.

    async with standby.open_nursery() as nursery:
        counter = nursery.spawn(Counter, 40)
        await counter.ask(Add(2))

Everything a user needs is a name of this module; ``standby.testing`` has what
tests need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from standby_actors import Agent as Agent
    from standby_actors import AsyncioHost as AsyncioHost
    from standby_actors import Capabilities as Capabilities
    from standby_actors import ChatMessage as ChatMessage
    from standby_actors import Closed as Closed
    from standby_actors import ErrorKind as ErrorKind
    from standby_actors import Guest as Guest
    from standby_actors import Host as Host
    from standby_actors import Lifetime as Lifetime
    from standby_actors import LocalModelError as LocalModelError
    from standby_actors import MessageEnded as MessageEnded
    from standby_actors import MissingKey as MissingKey
    from standby_actors import ModelError as ModelError
    from standby_actors import NoClient as NoClient
    from standby_actors import NoModel as NoModel
    from standby_actors import Result as Result
    from standby_actors import Retrying as Retrying
    from standby_actors import ScriptedSession as ScriptedSession
    from standby_actors import Session as Session
    from standby_actors import Status as Status
    from standby_actors import Subagent as Subagent
    from standby_actors import TextDelta as TextDelta
    from standby_actors import Turn as Turn
    from standby_actors import TurnError as TurnError
    from standby_actors import UnknownModel as UnknownModel
    from standby_actors import Usage as Usage
    from standby_actors import agent_of as agent_of
    from standby_actors import default_model as default_model
    from standby_actors import open_guest as open_guest
    from standby_actors import open_local_model as open_local_model
    from standby_actors import open_model as open_model
    from standby_actors import run as run
    from standby_actors import run_sync as run_sync
    from standby_actors import spawn as spawn
    from standby_actors import tune_gc as tune_gc
    from standby_actors import watch_loop as watch_loop
    from standby_combinators import Held as Held
    from standby_combinators import Report as Report
    from standby_combinators import SubagentPool as SubagentPool
    from standby_combinators import Trail as Trail
    from standby_combinators import fan_out as fan_out
    from standby_combinators import join_outputs as join_outputs
    from standby_combinators import reduce as reduce
    from standby_combinators import run as run_agent

# Imported when they are first used, so that `import standby` stays nearly as quick as
# `import trio`.
_LATE = {
    "Agent": ("standby_actors", "Agent"),
    "AsyncioHost": ("standby_actors", "AsyncioHost"),
    "Capabilities": ("standby_actors", "Capabilities"),
    "ChatMessage": ("standby_actors", "ChatMessage"),
    "Closed": ("standby_actors", "Closed"),
    "ErrorKind": ("standby_actors", "ErrorKind"),
    "Guest": ("standby_actors", "Guest"),
    "Held": ("standby_combinators", "Held"),
    "Host": ("standby_actors", "Host"),
    "Lifetime": ("standby_actors", "Lifetime"),
    "LocalModelError": ("standby_actors", "LocalModelError"),
    "MessageEnded": ("standby_actors", "MessageEnded"),
    "MissingKey": ("standby_actors", "MissingKey"),
    "ModelError": ("standby_actors", "ModelError"),
    "NoClient": ("standby_actors", "NoClient"),
    "NoModel": ("standby_actors", "NoModel"),
    "Report": ("standby_combinators", "Report"),
    "Result": ("standby_actors", "Result"),
    "Retrying": ("standby_actors", "Retrying"),
    "ScriptedSession": ("standby_actors", "ScriptedSession"),
    "Session": ("standby_actors", "Session"),
    "Status": ("standby_actors", "Status"),
    "Subagent": ("standby_actors", "Subagent"),
    "SubagentPool": ("standby_combinators", "SubagentPool"),
    "TextDelta": ("standby_actors", "TextDelta"),
    "Trail": ("standby_combinators", "Trail"),
    "Turn": ("standby_actors", "Turn"),
    "TurnError": ("standby_actors", "TurnError"),
    "UnknownModel": ("standby_actors", "UnknownModel"),
    "Usage": ("standby_actors", "Usage"),
    "agent_of": ("standby_actors", "agent_of"),
    "default_model": ("standby_actors", "default_model"),
    "fan_out": ("standby_combinators", "fan_out"),
    "join_outputs": ("standby_combinators", "join_outputs"),
    "open_guest": ("standby_actors", "open_guest"),
    "open_local_model": ("standby_actors", "open_local_model"),
    "open_model": ("standby_actors", "open_model"),
    "reduce": ("standby_combinators", "reduce"),
    "run": ("standby_actors", "run"),
    "run_agent": ("standby_combinators", "run"),
    "run_sync": ("standby_actors", "run_sync"),
    "spawn": ("standby_actors", "spawn"),
    "tune_gc": ("standby_actors", "tune_gc"),
    "watch_loop": ("standby_actors", "watch_loop"),
}

__all__ = [
    "Actor",
    "ActorCrashed",
    "ActorError",
    "ActorStopped",
    "Agent",
    "AskCycle",
    "AskTimeout",
    "AsyncioHost",
    "Capabilities",
    "ChatMessage",
    "Closed",
    "Crashed",
    "Down",
    "ErrorKind",
    "Event",
    "Exit",
    "ExitReason",
    "Guest",
    "Held",
    "Host",
    "Killed",
    "Later",
    "LeakedScope",
    "Lifetime",
    "Linked",
    "Listener",
    "LocalModelError",
    "MailboxFull",
    "MessageEnded",
    "MissingKey",
    "ModelError",
    "Monitor",
    "NameTaken",
    "Names",
    "NoClient",
    "NoModel",
    "NoProcess",
    "Normal",
    "Nursery",
    "Ref",
    "Reply",
    "Report",
    "Request",
    "Result",
    "Retrying",
    "ScheduledMessage",
    "ScriptedSession",
    "Session",
    "Shutdown",
    "Snapshot",
    "StartTimeout",
    "StateMachine",
    "Status",
    "Stuck",
    "Subagent",
    "SubagentPool",
    "TextDelta",
    "Trail",
    "Turn",
    "TurnError",
    "UnknownModel",
    "Usage",
    "WrongThread",
    "agent_of",
    "default_model",
    "emit",
    "fan_out",
    "join_outputs",
    "listen",
    "open_events",
    "open_guest",
    "open_local_model",
    "open_model",
    "open_nursery",
    "reduce",
    "run",
    "run_agent",
    "run_sync",
    "spawn",
    "tune_gc",
    "watch_loop",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, known_as = _LATE[name]
    value = getattr(importlib.import_module(module), known_as)
    globals()[name] = _published(value)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _published(thing: Any) -> Any:
    # A traceback should say `standby.MailboxFull`: which folder an error lives
    # in is our business, not its reader's.  Other classes keep their module,
    # or inspect.getsource() and doctest would look for them in this file.
    if isinstance(thing, type) and issubclass(thing, Exception):
        thing.__module__ = __name__
    return thing


for _name in __all__:
    if _name not in _LATE:
        _published(globals()[_name])
