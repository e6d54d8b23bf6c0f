"""Actors: state behind a mailbox, a mind behind a session.  Knows nothing of supervision.

What most programs need is imported with the package; the rest, when it is first
used, so that ``import standby`` stays nearly as quick as ``import trio``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .actor import Actor as Actor
from .actor import ScheduledMessage as ScheduledMessage
from .cell import Monitor as Monitor
from .errors import ActorCrashed as ActorCrashed
from .errors import ActorError as ActorError
from .errors import ActorStopped as ActorStopped
from .errors import AskCycle as AskCycle
from .errors import AskTimeout as AskTimeout
from .errors import LeakedScope as LeakedScope
from .errors import MailboxFull as MailboxFull
from .errors import NameTaken as NameTaken
from .errors import StartTimeout as StartTimeout
from .errors import WrongThread as WrongThread
from .events import Event as Event
from .events import Listener as Listener
from .events import emit as emit
from .events import listen as listen
from .events import open_events as open_events
from .exits import Crashed as Crashed
from .exits import Down as Down
from .exits import Exit as Exit
from .exits import ExitReason as ExitReason
from .exits import Killed as Killed
from .exits import Linked as Linked
from .exits import NoProcess as NoProcess
from .exits import Normal as Normal
from .exits import Shutdown as Shutdown
from .exits import Stuck as Stuck
from .later import Later as Later
from .machine import StateMachine as StateMachine
from .message import Request as Request
from .names import Names as Names
from .nursery import Nursery as Nursery
from .nursery import open_nursery as open_nursery
from .ref import Ref as Ref
from .reply import Reply as Reply
from .snapshot import ChildStatus as ChildStatus
from .snapshot import Snapshot as Snapshot
from .snapshot import SupervisorStatus as SupervisorStatus
from .snapshot import Tally as Tally

if TYPE_CHECKING:
    from .agent import Agent as Agent
    from .agent import Lifetime as Lifetime
    from .agent import Limits as Limits
    from .agent import McpServer as McpServer
    from .agent import agent_of as agent_of
    from .asyncio_hosting import AsyncioHost as AsyncioHost
    from .asyncio_hosting import Guest as Guest
    from .asyncio_hosting import open_guest as open_guest
    from .budget import Budget as Budget
    from .definitions.discovery import BrokenAgent as BrokenAgent
    from .definitions.discovery import Found as Found
    from .definitions.discovery import UnknownAgent as UnknownAgent
    from .definitions.discovery import find_agent as find_agent
    from .definitions.discovery import load_agents as load_agents
    from .hosting import Host as Host
    from .interrupts import Terminated as Terminated
    from .mind import Closed as Closed
    from .models import MissingKey as MissingKey
    from .models import ModelError as ModelError
    from .models import NoClient as NoClient
    from .models import NoModel as NoModel
    from .models import UnknownModel as UnknownModel
    from .models import default_model as default_model
    from .models import open_model as open_model
    from .modeltext import json_objects as json_objects
    from .modeltext import says_word as says_word
    from .others import NobodyBelow as NobodyBelow
    from .others import NoSuchAgent as NoSuchAgent
    from .prices import Price as Price
    from .result import STATUS_OF as STATUS_OF
    from .result import Attachment as Attachment
    from .result import ChatMessage as ChatMessage
    from .result import ErrorKind as ErrorKind
    from .result import Result as Result
    from .result import Status as Status
    from .result import ToolCall as ToolCall
    from .result import TurnError as TurnError
    from .result import failed as failed
    from .result import succeeded as succeeded
    from .running import run as run
    from .running import run_sync as run_sync
    from .running import tune_gc as tune_gc
    from .session import Backend as Backend
    from .session import Capabilities as Capabilities
    from .session import Compacted as Compacted
    from .session import Handoff as Handoff
    from .session import Memory as Memory
    from .session import MessageEnded as MessageEnded
    from .session import ModelCalled as ModelCalled
    from .session import Retrying as Retrying
    from .session import Session as Session
    from .session import Steered as Steered
    from .session import TextDelta as TextDelta
    from .session import ThoughtDelta as ThoughtDelta
    from .session import ToolEnded as ToolEnded
    from .session import ToolStarted as ToolStarted
    from .session import Turn as Turn
    from .sessions.asyncio_agents import AsyncioBackend as AsyncioBackend
    from .sessions.local import LocalModelError as LocalModelError
    from .sessions.local import open_local_model as open_local_model
    from .sessions.scripted import ScriptedSession as ScriptedSession
    from .subagent import OutOfBudget as OutOfBudget
    from .subagent import Subagent as Subagent
    from .subagent import spawn as spawn
    from .tools.approvals import ApprovalRequest as ApprovalRequest
    from .tools.approvals import ApprovalRule as ApprovalRule
    from .tools.approvals import Approvals as Approvals
    from .tools.approvals import ApprovalState as ApprovalState
    from .tools.approvals import Approved as Approved
    from .tools.files import file_tools as file_tools
    from .tools.guard import CallLimits as CallLimits
    from .tools.mcp_client import McpStartFailed as McpStartFailed
    from .tools.mcp_client import NoMcp as NoMcp
    from .tools.mcp_client import open_mcp_servers as open_mcp_servers
    from .tools.mcp_config import BadMcpConfig as BadMcpConfig
    from .tools.mcp_config import McpError as McpError
    from .tools.mcp_config import read_servers as read_servers
    from .tools.mcp_serving import agent_server as agent_server
    from .tools.tool import Tool as Tool
    from .tools.tool import ToolContext as ToolContext
    from .tools.tool import ToolOutput as ToolOutput
    from .tools.tool import tool as tool
    from .tools.toolbox import UnknownTool as UnknownTool
    from .usage import Usage as Usage
    from .usage import total as total
    from .watching import watch_loop as watch_loop

_LATE = {
    "Agent": "agent",
    "ApprovalRequest": "tools.approvals",
    "ApprovalRule": "tools.approvals",
    "ApprovalState": "tools.approvals",
    "Approvals": "tools.approvals",
    "Approved": "tools.approvals",
    "AsyncioBackend": "sessions.asyncio_agents",
    "AsyncioHost": "asyncio_hosting",
    "Attachment": "result",
    "Backend": "session",
    "BadMcpConfig": "tools.mcp_config",
    "BrokenAgent": "definitions.discovery",
    "Budget": "budget",
    "CallLimits": "tools.guard",
    "Capabilities": "session",
    "ChatMessage": "result",
    "Closed": "mind",
    "Compacted": "session",
    "ErrorKind": "result",
    "Found": "definitions.discovery",
    "Guest": "asyncio_hosting",
    "Handoff": "session",
    "Host": "hosting",
    "Lifetime": "agent",
    "Limits": "agent",
    "LocalModelError": "sessions.local",
    "McpError": "tools.mcp_config",
    "McpServer": "agent",
    "McpStartFailed": "tools.mcp_client",
    "Memory": "session",
    "MessageEnded": "session",
    "MissingKey": "models",
    "ModelCalled": "session",
    "ModelError": "models",
    "NoClient": "models",
    "NoMcp": "tools.mcp_client",
    "NoModel": "models",
    "NoSuchAgent": "others",
    "NobodyBelow": "others",
    "OutOfBudget": "subagent",
    "Price": "prices",
    "Result": "result",
    "Retrying": "session",
    "STATUS_OF": "result",
    "ScriptedSession": "sessions.scripted",
    "Session": "session",
    "Status": "result",
    "Steered": "session",
    "Subagent": "subagent",
    "Terminated": "interrupts",
    "TextDelta": "session",
    "ThoughtDelta": "session",
    "Tool": "tools.tool",
    "ToolCall": "result",
    "ToolContext": "tools.tool",
    "ToolEnded": "session",
    "ToolOutput": "tools.tool",
    "ToolStarted": "session",
    "Turn": "session",
    "TurnError": "result",
    "UnknownAgent": "definitions.discovery",
    "UnknownModel": "models",
    "UnknownTool": "tools.toolbox",
    "Usage": "usage",
    "agent_of": "agent",
    "agent_server": "tools.mcp_serving",
    "default_model": "models",
    "failed": "result",
    "file_tools": "tools.files",
    "find_agent": "definitions.discovery",
    "json_objects": "modeltext",
    "load_agents": "definitions.discovery",
    "open_guest": "asyncio_hosting",
    "open_local_model": "sessions.local",
    "open_mcp_servers": "tools.mcp_client",
    "open_model": "models",
    "read_servers": "tools.mcp_config",
    "run": "running",
    "run_sync": "running",
    "says_word": "modeltext",
    "spawn": "subagent",
    "succeeded": "result",
    "tool": "tools.tool",
    "total": "usage",
    "tune_gc": "running",
    "watch_loop": "watching",
}


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value
