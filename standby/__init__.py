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
    from standby_actors import ApprovalRequest as ApprovalRequest
    from standby_actors import ApprovalRule as ApprovalRule
    from standby_actors import Approvals as Approvals
    from standby_actors import ApprovalState as ApprovalState
    from standby_actors import Approved as Approved
    from standby_actors import AsyncioBackend as AsyncioBackend
    from standby_actors import AsyncioHost as AsyncioHost
    from standby_actors import Attachment as Attachment
    from standby_actors import Backend as Backend
    from standby_actors import BadMcpConfig as BadMcpConfig
    from standby_actors import BrokenAgent as BrokenAgent
    from standby_actors import Budget as Budget
    from standby_actors import CallLimits as CallLimits
    from standby_actors import Capabilities as Capabilities
    from standby_actors import ChatMessage as ChatMessage
    from standby_actors import ChildStatus as ChildStatus
    from standby_actors import Closed as Closed
    from standby_actors import Compacted as Compacted
    from standby_actors import ErrorKind as ErrorKind
    from standby_actors import Found as Found
    from standby_actors import Guest as Guest
    from standby_actors import Handoff as Handoff
    from standby_actors import Host as Host
    from standby_actors import Lifetime as Lifetime
    from standby_actors import Limits as Limits
    from standby_actors import LocalModelError as LocalModelError
    from standby_actors import McpError as McpError
    from standby_actors import McpServer as McpServer
    from standby_actors import McpStartFailed as McpStartFailed
    from standby_actors import Memory as Memory
    from standby_actors import MessageEnded as MessageEnded
    from standby_actors import MissingKey as MissingKey
    from standby_actors import ModelCalled as ModelCalled
    from standby_actors import ModelError as ModelError
    from standby_actors import NobodyBelow as NobodyBelow
    from standby_actors import NoClient as NoClient
    from standby_actors import NoMcp as NoMcp
    from standby_actors import NoModel as NoModel
    from standby_actors import NoSuchAgent as NoSuchAgent
    from standby_actors import OutOfBudget as OutOfBudget
    from standby_actors import Price as Price
    from standby_actors import Result as Result
    from standby_actors import Retrying as Retrying
    from standby_actors import ScriptedSession as ScriptedSession
    from standby_actors import Session as Session
    from standby_actors import Status as Status
    from standby_actors import Steered as Steered
    from standby_actors import Subagent as Subagent
    from standby_actors import SupervisorStatus as SupervisorStatus
    from standby_actors import Tally as Tally
    from standby_actors import Terminated as Terminated
    from standby_actors import TextDelta as TextDelta
    from standby_actors import ThoughtDelta as ThoughtDelta
    from standby_actors import Tool as Tool
    from standby_actors import ToolCall as ToolCall
    from standby_actors import ToolContext as ToolContext
    from standby_actors import ToolEnded as ToolEnded
    from standby_actors import ToolOutput as ToolOutput
    from standby_actors import ToolStarted as ToolStarted
    from standby_actors import Turn as Turn
    from standby_actors import TurnError as TurnError
    from standby_actors import UnknownAgent as UnknownAgent
    from standby_actors import UnknownModel as UnknownModel
    from standby_actors import UnknownTool as UnknownTool
    from standby_actors import Usage as Usage
    from standby_actors import agent_of as agent_of
    from standby_actors import agent_server as agent_server
    from standby_actors import default_model as default_model
    from standby_actors import file_tools as file_tools
    from standby_actors import find_agent as find_agent
    from standby_actors import json_objects as json_objects
    from standby_actors import load_agents as load_agents
    from standby_actors import open_guest as open_guest
    from standby_actors import open_local_model as open_local_model
    from standby_actors import open_mcp_servers as open_mcp_servers
    from standby_actors import open_model as open_model
    from standby_actors import read_servers as read_servers
    from standby_actors import run as run
    from standby_actors import run_sync as run_sync
    from standby_actors import says_word as says_word
    from standby_actors import spawn as spawn
    from standby_actors import tool as tool
    from standby_actors import tune_gc as tune_gc
    from standby_actors import watch_loop as watch_loop
    from standby_actors.agent import agent as agent
    from standby_actors.subagent import subagent as subagent
    from standby_combinators import Answer as Answer
    from standby_combinators import Askable as Askable
    from standby_combinators import Asker as Asker
    from standby_combinators import Board as Board
    from standby_combinators import BoardLimits as BoardLimits
    from standby_combinators import CannotCopy as CannotCopy
    from standby_combinators import Chain as Chain
    from standby_combinators import Check as Check
    from standby_combinators import Checked as Checked
    from standby_combinators import Claim as Claim
    from standby_combinators import ClaimRefused as ClaimRefused
    from standby_combinators import Claims as Claims
    from standby_combinators import Copied as Copied
    from standby_combinators import Copies as Copies
    from standby_combinators import Copy as Copy
    from standby_combinators import Experiment as Experiment
    from standby_combinators import ExperimentCell as ExperimentCell
    from standby_combinators import ExperimentRow as ExperimentRow
    from standby_combinators import Fallback as Fallback
    from standby_combinators import FannedOut as FannedOut
    from standby_combinators import FanOut as FanOut
    from standby_combinators import GitFailed as GitFailed
    from standby_combinators import Hedge as Hedge
    from standby_combinators import Held as Held
    from standby_combinators import InCopy as InCopy
    from standby_combinators import Interview as Interview
    from standby_combinators import Interviewed as Interviewed
    from standby_combinators import Landing as Landing
    from standby_combinators import Leased as Leased
    from standby_combinators import Ledger as Ledger
    from standby_combinators import Loop as Loop
    from standby_combinators import Looped as Looped
    from standby_combinators import Member as Member
    from standby_combinators import NotGranted as NotGranted
    from standby_combinators import Obligation as Obligation
    from standby_combinators import Option as Option
    from standby_combinators import Options as Options
    from standby_combinators import Orchestra as Orchestra
    from standby_combinators import Orchestrated as Orchestrated
    from standby_combinators import OutsideCopy as OutsideCopy
    from standby_combinators import Patch as Patch
    from standby_combinators import PathClaims as PathClaims
    from standby_combinators import Plan as Plan
    from standby_combinators import Planned as Planned
    from standby_combinators import Planning as Planning
    from standby_combinators import Post as Post
    from standby_combinators import PostedAsker as PostedAsker
    from standby_combinators import PostRefused as PostRefused
    from standby_combinators import Question as Question
    from standby_combinators import Race as Race
    from standby_combinators import Reduce as Reduce
    from standby_combinators import Report as Report
    from standby_combinators import Retry as Retry
    from standby_combinators import Review as Review
    from standby_combinators import Reviewed as Reviewed
    from standby_combinators import Route as Route
    from standby_combinators import Routed as Routed
    from standby_combinators import ScriptedAsker as ScriptedAsker
    from standby_combinators import SettingsChanged as SettingsChanged
    from standby_combinators import Signal as Signal
    from standby_combinators import Stage as Stage
    from standby_combinators import Step as Step
    from standby_combinators import StopSwitch as StopSwitch
    from standby_combinators import SubagentPool as SubagentPool
    from standby_combinators import Swarm as Swarm
    from standby_combinators import Swarmed as Swarmed
    from standby_combinators import Team as Team
    from standby_combinators import TerminalAsker as TerminalAsker
    from standby_combinators import Trail as Trail
    from standby_combinators import Verdict as Verdict
    from standby_combinators import Vote as Vote
    from standby_combinators import Voted as Voted
    from standby_combinators import WebAsker as WebAsker
    from standby_combinators import agreed as agreed
    from standby_combinators import chain as chain
    from standby_combinators import check as check
    from standby_combinators import estimate_tokens as estimate_tokens
    from standby_combinators import experiment as experiment
    from standby_combinators import fallback as fallback
    from standby_combinators import fan_out as fan_out
    from standby_combinators import hedge as hedge
    from standby_combinators import in_copy as in_copy
    from standby_combinators import interview as interview
    from standby_combinators import join_outputs as join_outputs
    from standby_combinators import loop as loop
    from standby_combinators import make_plan as make_plan
    from standby_combinators import map_reduce as map_reduce
    from standby_combinators import open_copies as open_copies
    from standby_combinators import open_fan_out as open_fan_out
    from standby_combinators import open_stage as open_stage
    from standby_combinators import open_web_asker as open_web_asker
    from standby_combinators import orchestrate as orchestrate
    from standby_combinators import parse_plan as parse_plan
    from standby_combinators import parse_question as parse_question
    from standby_combinators import pick_name as pick_name
    from standby_combinators import problems_of_plan as problems_of_plan
    from standby_combinators import race as race
    from standby_combinators import read_verdict as read_verdict
    from standby_combinators import read_vote as read_vote
    from standby_combinators import reduce as reduce
    from standby_combinators import retry as retry
    from standby_combinators import review as review
    from standby_combinators import route as route
    from standby_combinators import run as run_agent
    from standby_combinators import run_plan as run_plan
    from standby_combinators import signal_below as signal_below
    from standby_combinators import stop_switch as stop_switch
    from standby_combinators import swarm as swarm
    from standby_combinators import vote as vote
    from standby_supervision import AlreadyPresent as AlreadyPresent
    from standby_supervision import AlreadyStarted as AlreadyStarted
    from standby_supervision import Answers as Answers
    from standby_supervision import Backoff as Backoff
    from standby_supervision import BadSpec as BadSpec
    from standby_supervision import Branch as Branch
    from standby_supervision import Broadcast as Broadcast
    from standby_supervision import CalledOff as CalledOff
    from standby_supervision import ChildInfo as ChildInfo
    from standby_supervision import ChildSpec as ChildSpec
    from standby_supervision import Control as Control
    from standby_supervision import ControlError as ControlError
    from standby_supervision import ControlRefused as ControlRefused
    from standby_supervision import Counts as Counts
    from standby_supervision import Done as Done
    from standby_supervision import Failed as Failed
    from standby_supervision import GaveUp as GaveUp
    from standby_supervision import Ignore as Ignore
    from standby_supervision import Ignored as Ignored
    from standby_supervision import Job as Job
    from standby_supervision import Jobs as Jobs
    from standby_supervision import NotFound as NotFound
    from standby_supervision import Ok as Ok
    from standby_supervision import Outcome as Outcome
    from standby_supervision import Partitions as Partitions
    from standby_supervision import Periodic as Periodic
    from standby_supervision import Refused as Refused
    from standby_supervision import Restarting as Restarting
    from standby_supervision import Router as Router
    from standby_supervision import Running as Running
    from standby_supervision import Stalled as Stalled
    from standby_supervision import Started as Started
    from standby_supervision import StartError as StartError
    from standby_supervision import StartFailed as StartFailed
    from standby_supervision import SupervisorSpec as SupervisorSpec
    from standby_supervision import TimedOut as TimedOut
    from standby_supervision import TooMany as TooMany
    from standby_supervision import Tree as Tree
    from standby_supervision import UnsafeFolder as UnsafeFolder
    from standby_supervision import Verb as Verb
    from standby_supervision import WrongStrategy as WrongStrategy
    from standby_supervision import child as child
    from standby_supervision import decode_spec as decode_spec
    from standby_supervision import encode_spec as encode_spec
    from standby_supervision import open_jobs as open_jobs
    from standby_supervision import open_supervisor as open_supervisor
    from standby_supervision import partitions as partitions
    from standby_supervision import serve_control as serve_control
    from standby_supervision import supervisor as supervisor
    from standby_supervision import workers as workers
    from standby_supervision.graph import Attempt as Attempt
    from standby_supervision.graph import BadGraph as BadGraph
    from standby_supervision.graph import Carried as Carried
    from standby_supervision.graph import Graph as Graph
    from standby_supervision.graph import Need as Need
    from standby_supervision.graph import Task as Task
    from standby_supervision.graph import carry_out as carry_out
    from standby_supervision.graph import graph_of as graph_of
    from standby_supervision.ledger import Anchor as Anchor
    from standby_supervision.ledger import BadFact as BadFact
    from standby_supervision.ledger import Blocker as Blocker
    from standby_supervision.ledger import CannotCapture as CannotCapture
    from standby_supervision.ledger import CaptureReceipt as CaptureReceipt
    from standby_supervision.ledger import CloseUnavailable as CloseUnavailable
    from standby_supervision.ledger import Escalation as Escalation
    from standby_supervision.ledger import ForgedReceipt as ForgedReceipt
    from standby_supervision.ledger import LastTurn as LastTurn
    from standby_supervision.ledger import NotClosed as NotClosed
    from standby_supervision.ledger import NotReplaced as NotReplaced
    from standby_supervision.ledger import OperatorWait as OperatorWait
    from standby_supervision.ledger import PermitSpent as PermitSpent
    from standby_supervision.ledger import RecordLost as RecordLost
    from standby_supervision.ledger import RepositoryState as RepositoryState
    from standby_supervision.ledger import ReservationUsed as ReservationUsed
    from standby_supervision.ledger import Role as Role
    from standby_supervision.ledger import Scope as Scope
    from standby_supervision.ledger import Seat as Seat
    from standby_supervision.ledger import Secret as Secret
    from standby_supervision.ledger import SessionLedger as SessionLedger
    from standby_supervision.ledger import SessionLimit as SessionLimit
    from standby_supervision.ledger import SessionNotHere as SessionNotHere
    from standby_supervision.ledger import SessionRef as SessionRef
    from standby_supervision.ledger import SessionSpec as SessionSpec
    from standby_supervision.ledger import SharedEscalation as SharedEscalation
    from standby_supervision.ledger import SpawnBlocked as SpawnBlocked
    from standby_supervision.ledger import SupersededBy as SupersededBy
    from standby_supervision.ledger import Untrusted as Untrusted
    from standby_supervision.ledger import WindowOpen as WindowOpen
    from standby_supervision.live import AgentAmbiguous as AgentAmbiguous
    from standby_supervision.live import AgentAnswered as AgentAnswered
    from standby_supervision.live import AgentFound as AgentFound
    from standby_supervision.live import AgentKey as AgentKey
    from standby_supervision.live import AgentMissing as AgentMissing
    from standby_supervision.live import AgentRef as AgentRef
    from standby_supervision.live import AgentsStopped as AgentsStopped
    from standby_supervision.live import AgentView as AgentView
    from standby_supervision.live import Dormant as Dormant
    from standby_supervision.live import MailReceipt as MailReceipt
    from standby_supervision.live import Rejected as Rejected
    from standby_supervision.live import StoppedAgent as StoppedAgent
    from standby_supervision.live import TurnInterrupted as TurnInterrupted
    from standby_supervision.live import current_agent as current_agent
    from standby_supervision.live import serve_workspace as serve_workspace
    from standby_supervision.runs import DamagedRun as DamagedRun
    from standby_supervision.runs import InDoubt as InDoubt
    from standby_supervision.runs import NotDormant as NotDormant
    from standby_supervision.runs import Quarantined as Quarantined
    from standby_supervision.runs import Run as Run
    from standby_supervision.runs import RunError as RunError
    from standby_supervision.runs import RunOver as RunOver
    from standby_supervision.runs import RunOwned as RunOwned
    from standby_supervision.runs import RunState as RunState
    from standby_supervision.runs import RunStep as RunStep
    from standby_supervision.runs import StepFailed as StepFailed
    from standby_supervision.runs import Swept as Swept
    from standby_supervision.runs import Workspace as Workspace
    from standby_supervision.runs import WorkspaceDenied as WorkspaceDenied
    from standby_supervision.runs import current_step as current_step
    from standby_supervision.runs import open_workspace as open_workspace
    from standby_supervision.store import Fenced as Fenced
    from standby_supervision.store import Store as Store
    from standby_supervision.store import StoreBusy as StoreBusy
    from standby_supervision.store import StoreClosed as StoreClosed
    from standby_supervision.store import StoreDamaged as StoreDamaged
    from standby_supervision.store import StoreError as StoreError
    from standby_supervision.store import StoreFull as StoreFull
    from standby_supervision.store import StoreLost as StoreLost
    from standby_supervision.store import StoreReadOnly as StoreReadOnly
    from standby_supervision.store import StoreTooNew as StoreTooNew
    from standby_supervision.store import StoreUnsure as StoreUnsure
    from standby_supervision.store import open_store as open_store
    from standby_supervision.telemetry.export import export_telemetry as export_telemetry
    from standby_supervision.telemetry.logs import ActorFilter as ActorFilter
    from standby_supervision.telemetry.logs import add_actor as add_actor

# Imported when they are first used, so that `import standby` stays nearly as quick as
# `import trio`.
_LATE = {
    "ActorFilter": ("standby_supervision.telemetry.logs", "ActorFilter"),
    "Agent": ("standby_actors", "Agent"),
    "AgentAmbiguous": ("standby_supervision.live", "AgentAmbiguous"),
    "AgentAnswered": ("standby_supervision.live", "AgentAnswered"),
    "AgentFound": ("standby_supervision.live", "AgentFound"),
    "AgentKey": ("standby_supervision.live", "AgentKey"),
    "AgentMissing": ("standby_supervision.live", "AgentMissing"),
    "AgentRef": ("standby_supervision.live", "AgentRef"),
    "AgentView": ("standby_supervision.live", "AgentView"),
    "AgentsStopped": ("standby_supervision.live", "AgentsStopped"),
    "AlreadyPresent": ("standby_supervision", "AlreadyPresent"),
    "AlreadyStarted": ("standby_supervision", "AlreadyStarted"),
    "Anchor": ("standby_supervision.ledger", "Anchor"),
    "Answer": ("standby_combinators", "Answer"),
    "Answers": ("standby_supervision", "Answers"),
    "ApprovalRequest": ("standby_actors", "ApprovalRequest"),
    "ApprovalRule": ("standby_actors", "ApprovalRule"),
    "ApprovalState": ("standby_actors", "ApprovalState"),
    "Approvals": ("standby_actors", "Approvals"),
    "Approved": ("standby_actors", "Approved"),
    "Askable": ("standby_combinators", "Askable"),
    "Asker": ("standby_combinators", "Asker"),
    "AsyncioBackend": ("standby_actors", "AsyncioBackend"),
    "AsyncioHost": ("standby_actors", "AsyncioHost"),
    "Attachment": ("standby_actors", "Attachment"),
    "Attempt": ("standby_supervision.graph", "Attempt"),
    "Backend": ("standby_actors", "Backend"),
    "Backoff": ("standby_supervision", "Backoff"),
    "BadFact": ("standby_supervision.ledger", "BadFact"),
    "BadGraph": ("standby_supervision.graph", "BadGraph"),
    "BadMcpConfig": ("standby_actors", "BadMcpConfig"),
    "BadSpec": ("standby_supervision", "BadSpec"),
    "Blocker": ("standby_supervision.ledger", "Blocker"),
    "Board": ("standby_combinators", "Board"),
    "BoardLimits": ("standby_combinators", "BoardLimits"),
    "Branch": ("standby_supervision", "Branch"),
    "Broadcast": ("standby_supervision", "Broadcast"),
    "BrokenAgent": ("standby_actors", "BrokenAgent"),
    "Budget": ("standby_actors", "Budget"),
    "CallLimits": ("standby_actors", "CallLimits"),
    "CalledOff": ("standby_supervision", "CalledOff"),
    "CannotCapture": ("standby_supervision.ledger", "CannotCapture"),
    "CannotCopy": ("standby_combinators", "CannotCopy"),
    "Capabilities": ("standby_actors", "Capabilities"),
    "CaptureReceipt": ("standby_supervision.ledger", "CaptureReceipt"),
    "Carried": ("standby_supervision.graph", "Carried"),
    "Chain": ("standby_combinators", "Chain"),
    "ChatMessage": ("standby_actors", "ChatMessage"),
    "Check": ("standby_combinators", "Check"),
    "Checked": ("standby_combinators", "Checked"),
    "ChildInfo": ("standby_supervision", "ChildInfo"),
    "ChildSpec": ("standby_supervision", "ChildSpec"),
    "ChildStatus": ("standby_actors", "ChildStatus"),
    "Claim": ("standby_combinators", "Claim"),
    "ClaimRefused": ("standby_combinators", "ClaimRefused"),
    "Claims": ("standby_combinators", "Claims"),
    "CloseUnavailable": ("standby_supervision.ledger", "CloseUnavailable"),
    "Closed": ("standby_actors", "Closed"),
    "Compacted": ("standby_actors", "Compacted"),
    "Control": ("standby_supervision", "Control"),
    "ControlError": ("standby_supervision", "ControlError"),
    "ControlRefused": ("standby_supervision", "ControlRefused"),
    "Copied": ("standby_combinators", "Copied"),
    "Copies": ("standby_combinators", "Copies"),
    "Copy": ("standby_combinators", "Copy"),
    "Counts": ("standby_supervision", "Counts"),
    "DamagedRun": ("standby_supervision.runs", "DamagedRun"),
    "Done": ("standby_supervision", "Done"),
    "Dormant": ("standby_supervision.live", "Dormant"),
    "ErrorKind": ("standby_actors", "ErrorKind"),
    "Escalation": ("standby_supervision.ledger", "Escalation"),
    "Experiment": ("standby_combinators", "Experiment"),
    "ExperimentCell": ("standby_combinators", "ExperimentCell"),
    "ExperimentRow": ("standby_combinators", "ExperimentRow"),
    "Failed": ("standby_supervision", "Failed"),
    "Fallback": ("standby_combinators", "Fallback"),
    "FanOut": ("standby_combinators", "FanOut"),
    "FannedOut": ("standby_combinators", "FannedOut"),
    "Fenced": ("standby_supervision.store", "Fenced"),
    "ForgedReceipt": ("standby_supervision.ledger", "ForgedReceipt"),
    "Found": ("standby_actors", "Found"),
    "GaveUp": ("standby_supervision", "GaveUp"),
    "GitFailed": ("standby_combinators", "GitFailed"),
    "Graph": ("standby_supervision.graph", "Graph"),
    "Guest": ("standby_actors", "Guest"),
    "Handoff": ("standby_actors", "Handoff"),
    "Hedge": ("standby_combinators", "Hedge"),
    "Held": ("standby_combinators", "Held"),
    "Host": ("standby_actors", "Host"),
    "Ignore": ("standby_supervision", "Ignore"),
    "Ignored": ("standby_supervision", "Ignored"),
    "InCopy": ("standby_combinators", "InCopy"),
    "InDoubt": ("standby_supervision.runs", "InDoubt"),
    "Interview": ("standby_combinators", "Interview"),
    "Interviewed": ("standby_combinators", "Interviewed"),
    "Job": ("standby_supervision", "Job"),
    "Jobs": ("standby_supervision", "Jobs"),
    "Landing": ("standby_combinators", "Landing"),
    "LastTurn": ("standby_supervision.ledger", "LastTurn"),
    "Leased": ("standby_combinators", "Leased"),
    "Ledger": ("standby_combinators", "Ledger"),
    "Lifetime": ("standby_actors", "Lifetime"),
    "Limits": ("standby_actors", "Limits"),
    "LocalModelError": ("standby_actors", "LocalModelError"),
    "Loop": ("standby_combinators", "Loop"),
    "Looped": ("standby_combinators", "Looped"),
    "MailReceipt": ("standby_supervision.live", "MailReceipt"),
    "McpError": ("standby_actors", "McpError"),
    "McpServer": ("standby_actors", "McpServer"),
    "McpStartFailed": ("standby_actors", "McpStartFailed"),
    "Member": ("standby_combinators", "Member"),
    "Memory": ("standby_actors", "Memory"),
    "MessageEnded": ("standby_actors", "MessageEnded"),
    "MissingKey": ("standby_actors", "MissingKey"),
    "ModelCalled": ("standby_actors", "ModelCalled"),
    "ModelError": ("standby_actors", "ModelError"),
    "Need": ("standby_supervision.graph", "Need"),
    "NoClient": ("standby_actors", "NoClient"),
    "NoMcp": ("standby_actors", "NoMcp"),
    "NoModel": ("standby_actors", "NoModel"),
    "NoSuchAgent": ("standby_actors", "NoSuchAgent"),
    "NobodyBelow": ("standby_actors", "NobodyBelow"),
    "NotClosed": ("standby_supervision.ledger", "NotClosed"),
    "NotDormant": ("standby_supervision.runs", "NotDormant"),
    "NotFound": ("standby_supervision", "NotFound"),
    "NotGranted": ("standby_combinators", "NotGranted"),
    "NotReplaced": ("standby_supervision.ledger", "NotReplaced"),
    "Obligation": ("standby_combinators", "Obligation"),
    "Ok": ("standby_supervision", "Ok"),
    "OperatorWait": ("standby_supervision.ledger", "OperatorWait"),
    "Option": ("standby_combinators", "Option"),
    "Options": ("standby_combinators", "Options"),
    "Orchestra": ("standby_combinators", "Orchestra"),
    "Orchestrated": ("standby_combinators", "Orchestrated"),
    "OutOfBudget": ("standby_actors", "OutOfBudget"),
    "Outcome": ("standby_supervision", "Outcome"),
    "OutsideCopy": ("standby_combinators", "OutsideCopy"),
    "Partitions": ("standby_supervision", "Partitions"),
    "Patch": ("standby_combinators", "Patch"),
    "PathClaims": ("standby_combinators", "PathClaims"),
    "Periodic": ("standby_supervision", "Periodic"),
    "PermitSpent": ("standby_supervision.ledger", "PermitSpent"),
    "Plan": ("standby_combinators", "Plan"),
    "Planned": ("standby_combinators", "Planned"),
    "Planning": ("standby_combinators", "Planning"),
    "Post": ("standby_combinators", "Post"),
    "PostRefused": ("standby_combinators", "PostRefused"),
    "PostedAsker": ("standby_combinators", "PostedAsker"),
    "Price": ("standby_actors", "Price"),
    "Quarantined": ("standby_supervision.runs", "Quarantined"),
    "Question": ("standby_combinators", "Question"),
    "Race": ("standby_combinators", "Race"),
    "RecordLost": ("standby_supervision.ledger", "RecordLost"),
    "Reduce": ("standby_combinators", "Reduce"),
    "Refused": ("standby_supervision", "Refused"),
    "Rejected": ("standby_supervision.live", "Rejected"),
    "Report": ("standby_combinators", "Report"),
    "RepositoryState": ("standby_supervision.ledger", "RepositoryState"),
    "ReservationUsed": ("standby_supervision.ledger", "ReservationUsed"),
    "Restarting": ("standby_supervision", "Restarting"),
    "Result": ("standby_actors", "Result"),
    "Retry": ("standby_combinators", "Retry"),
    "Retrying": ("standby_actors", "Retrying"),
    "Review": ("standby_combinators", "Review"),
    "Reviewed": ("standby_combinators", "Reviewed"),
    "Role": ("standby_supervision.ledger", "Role"),
    "Route": ("standby_combinators", "Route"),
    "Routed": ("standby_combinators", "Routed"),
    "Router": ("standby_supervision", "Router"),
    "Run": ("standby_supervision.runs", "Run"),
    "RunError": ("standby_supervision.runs", "RunError"),
    "RunOver": ("standby_supervision.runs", "RunOver"),
    "RunOwned": ("standby_supervision.runs", "RunOwned"),
    "RunState": ("standby_supervision.runs", "RunState"),
    "RunStep": ("standby_supervision.runs", "RunStep"),
    "Running": ("standby_supervision", "Running"),
    "Scope": ("standby_supervision.ledger", "Scope"),
    "ScriptedAsker": ("standby_combinators", "ScriptedAsker"),
    "ScriptedSession": ("standby_actors", "ScriptedSession"),
    "Seat": ("standby_supervision.ledger", "Seat"),
    "Secret": ("standby_supervision.ledger", "Secret"),
    "Session": ("standby_actors", "Session"),
    "SessionLedger": ("standby_supervision.ledger", "SessionLedger"),
    "SessionLimit": ("standby_supervision.ledger", "SessionLimit"),
    "SessionNotHere": ("standby_supervision.ledger", "SessionNotHere"),
    "SessionRef": ("standby_supervision.ledger", "SessionRef"),
    "SessionSpec": ("standby_supervision.ledger", "SessionSpec"),
    "SettingsChanged": ("standby_combinators", "SettingsChanged"),
    "SharedEscalation": ("standby_supervision.ledger", "SharedEscalation"),
    "Signal": ("standby_combinators", "Signal"),
    "SpawnBlocked": ("standby_supervision.ledger", "SpawnBlocked"),
    "Stage": ("standby_combinators", "Stage"),
    "Stalled": ("standby_supervision", "Stalled"),
    "StartError": ("standby_supervision", "StartError"),
    "StartFailed": ("standby_supervision", "StartFailed"),
    "Started": ("standby_supervision", "Started"),
    "Status": ("standby_actors", "Status"),
    "Steered": ("standby_actors", "Steered"),
    "Step": ("standby_combinators", "Step"),
    "StepFailed": ("standby_supervision.runs", "StepFailed"),
    "StopSwitch": ("standby_combinators", "StopSwitch"),
    "StoppedAgent": ("standby_supervision.live", "StoppedAgent"),
    "Store": ("standby_supervision.store", "Store"),
    "StoreBusy": ("standby_supervision.store", "StoreBusy"),
    "StoreClosed": ("standby_supervision.store", "StoreClosed"),
    "StoreDamaged": ("standby_supervision.store", "StoreDamaged"),
    "StoreError": ("standby_supervision.store", "StoreError"),
    "StoreFull": ("standby_supervision.store", "StoreFull"),
    "StoreLost": ("standby_supervision.store", "StoreLost"),
    "StoreReadOnly": ("standby_supervision.store", "StoreReadOnly"),
    "StoreTooNew": ("standby_supervision.store", "StoreTooNew"),
    "StoreUnsure": ("standby_supervision.store", "StoreUnsure"),
    "Subagent": ("standby_actors", "Subagent"),
    "SubagentPool": ("standby_combinators", "SubagentPool"),
    "SupersededBy": ("standby_supervision.ledger", "SupersededBy"),
    "SupervisorSpec": ("standby_supervision", "SupervisorSpec"),
    "SupervisorStatus": ("standby_actors", "SupervisorStatus"),
    "Swarm": ("standby_combinators", "Swarm"),
    "Swarmed": ("standby_combinators", "Swarmed"),
    "Swept": ("standby_supervision.runs", "Swept"),
    "Tally": ("standby_actors", "Tally"),
    "Task": ("standby_supervision.graph", "Task"),
    "Team": ("standby_combinators", "Team"),
    "TerminalAsker": ("standby_combinators", "TerminalAsker"),
    "Terminated": ("standby_actors", "Terminated"),
    "TextDelta": ("standby_actors", "TextDelta"),
    "ThoughtDelta": ("standby_actors", "ThoughtDelta"),
    "TimedOut": ("standby_supervision", "TimedOut"),
    "TooMany": ("standby_supervision", "TooMany"),
    "Tool": ("standby_actors", "Tool"),
    "ToolCall": ("standby_actors", "ToolCall"),
    "ToolContext": ("standby_actors", "ToolContext"),
    "ToolEnded": ("standby_actors", "ToolEnded"),
    "ToolOutput": ("standby_actors", "ToolOutput"),
    "ToolStarted": ("standby_actors", "ToolStarted"),
    "Trail": ("standby_combinators", "Trail"),
    "Tree": ("standby_supervision", "Tree"),
    "Turn": ("standby_actors", "Turn"),
    "TurnError": ("standby_actors", "TurnError"),
    "TurnInterrupted": ("standby_supervision.live", "TurnInterrupted"),
    "UnknownAgent": ("standby_actors", "UnknownAgent"),
    "UnknownModel": ("standby_actors", "UnknownModel"),
    "UnknownTool": ("standby_actors", "UnknownTool"),
    "UnsafeFolder": ("standby_supervision", "UnsafeFolder"),
    "Untrusted": ("standby_supervision.ledger", "Untrusted"),
    "Usage": ("standby_actors", "Usage"),
    "Verb": ("standby_supervision", "Verb"),
    "Verdict": ("standby_combinators", "Verdict"),
    "Vote": ("standby_combinators", "Vote"),
    "Voted": ("standby_combinators", "Voted"),
    "WebAsker": ("standby_combinators", "WebAsker"),
    "WindowOpen": ("standby_supervision.ledger", "WindowOpen"),
    "Workspace": ("standby_supervision.runs", "Workspace"),
    "WorkspaceDenied": ("standby_supervision.runs", "WorkspaceDenied"),
    "WrongStrategy": ("standby_supervision", "WrongStrategy"),
    "add_actor": ("standby_supervision.telemetry.logs", "add_actor"),
    "agent": ("standby_actors.agent", "agent"),
    "agent_of": ("standby_actors", "agent_of"),
    "agent_server": ("standby_actors", "agent_server"),
    "agreed": ("standby_combinators", "agreed"),
    "carry_out": ("standby_supervision.graph", "carry_out"),
    "chain": ("standby_combinators", "chain"),
    "check": ("standby_combinators", "check"),
    "child": ("standby_supervision", "child"),
    "current_agent": ("standby_supervision.live", "current_agent"),
    "current_step": ("standby_supervision.runs", "current_step"),
    "decode_spec": ("standby_supervision", "decode_spec"),
    "default_model": ("standby_actors", "default_model"),
    "encode_spec": ("standby_supervision", "encode_spec"),
    "estimate_tokens": ("standby_combinators", "estimate_tokens"),
    "experiment": ("standby_combinators", "experiment"),
    "export_telemetry": ("standby_supervision.telemetry.export", "export_telemetry"),
    "fallback": ("standby_combinators", "fallback"),
    "fan_out": ("standby_combinators", "fan_out"),
    "file_tools": ("standby_actors", "file_tools"),
    "find_agent": ("standby_actors", "find_agent"),
    "graph_of": ("standby_supervision.graph", "graph_of"),
    "hedge": ("standby_combinators", "hedge"),
    "in_copy": ("standby_combinators", "in_copy"),
    "interview": ("standby_combinators", "interview"),
    "join_outputs": ("standby_combinators", "join_outputs"),
    "json_objects": ("standby_actors", "json_objects"),
    "load_agents": ("standby_actors", "load_agents"),
    "loop": ("standby_combinators", "loop"),
    "make_plan": ("standby_combinators", "make_plan"),
    "map_reduce": ("standby_combinators", "map_reduce"),
    "open_copies": ("standby_combinators", "open_copies"),
    "open_fan_out": ("standby_combinators", "open_fan_out"),
    "open_guest": ("standby_actors", "open_guest"),
    "open_jobs": ("standby_supervision", "open_jobs"),
    "open_local_model": ("standby_actors", "open_local_model"),
    "open_mcp_servers": ("standby_actors", "open_mcp_servers"),
    "open_model": ("standby_actors", "open_model"),
    "open_stage": ("standby_combinators", "open_stage"),
    "open_store": ("standby_supervision.store", "open_store"),
    "open_supervisor": ("standby_supervision", "open_supervisor"),
    "open_web_asker": ("standby_combinators", "open_web_asker"),
    "open_workspace": ("standby_supervision.runs", "open_workspace"),
    "orchestrate": ("standby_combinators", "orchestrate"),
    "parse_plan": ("standby_combinators", "parse_plan"),
    "parse_question": ("standby_combinators", "parse_question"),
    "partitions": ("standby_supervision", "partitions"),
    "pick_name": ("standby_combinators", "pick_name"),
    "problems_of_plan": ("standby_combinators", "problems_of_plan"),
    "race": ("standby_combinators", "race"),
    "read_servers": ("standby_actors", "read_servers"),
    "read_verdict": ("standby_combinators", "read_verdict"),
    "read_vote": ("standby_combinators", "read_vote"),
    "reduce": ("standby_combinators", "reduce"),
    "retry": ("standby_combinators", "retry"),
    "review": ("standby_combinators", "review"),
    "route": ("standby_combinators", "route"),
    "run": ("standby_actors", "run"),
    "run_agent": ("standby_combinators", "run"),
    "run_plan": ("standby_combinators", "run_plan"),
    "run_sync": ("standby_actors", "run_sync"),
    "says_word": ("standby_actors", "says_word"),
    "serve_control": ("standby_supervision", "serve_control"),
    "serve_workspace": ("standby_supervision.live", "serve_workspace"),
    "signal_below": ("standby_combinators", "signal_below"),
    "spawn": ("standby_actors", "spawn"),
    "stop_switch": ("standby_combinators", "stop_switch"),
    "subagent": ("standby_actors.subagent", "subagent"),
    "supervisor": ("standby_supervision", "supervisor"),
    "swarm": ("standby_combinators", "swarm"),
    "tool": ("standby_actors", "tool"),
    "tune_gc": ("standby_actors", "tune_gc"),
    "vote": ("standby_combinators", "vote"),
    "watch_loop": ("standby_actors", "watch_loop"),
    "workers": ("standby_supervision", "workers"),
}

__all__ = [
    "Actor",
    "ActorCrashed",
    "ActorError",
    "ActorFilter",
    "ActorStopped",
    "Agent",
    "AgentAmbiguous",
    "AgentAnswered",
    "AgentFound",
    "AgentKey",
    "AgentMissing",
    "AgentRef",
    "AgentView",
    "AgentsStopped",
    "AlreadyPresent",
    "AlreadyStarted",
    "Anchor",
    "Answer",
    "Answers",
    "ApprovalRequest",
    "ApprovalRule",
    "ApprovalState",
    "Approvals",
    "Approved",
    "AskCycle",
    "AskTimeout",
    "Askable",
    "Asker",
    "AsyncioBackend",
    "AsyncioHost",
    "Attachment",
    "Attempt",
    "Backend",
    "Backoff",
    "BadFact",
    "BadGraph",
    "BadMcpConfig",
    "BadSpec",
    "Blocker",
    "Board",
    "BoardLimits",
    "Branch",
    "Broadcast",
    "BrokenAgent",
    "Budget",
    "CallLimits",
    "CalledOff",
    "CannotCapture",
    "CannotCopy",
    "Capabilities",
    "CaptureReceipt",
    "Carried",
    "Chain",
    "ChatMessage",
    "Check",
    "Checked",
    "ChildInfo",
    "ChildSpec",
    "ChildStatus",
    "Claim",
    "ClaimRefused",
    "Claims",
    "CloseUnavailable",
    "Closed",
    "Compacted",
    "Control",
    "ControlError",
    "ControlRefused",
    "Copied",
    "Copies",
    "Copy",
    "Counts",
    "Crashed",
    "DamagedRun",
    "Done",
    "Dormant",
    "Down",
    "ErrorKind",
    "Escalation",
    "Event",
    "Exit",
    "ExitReason",
    "Experiment",
    "ExperimentCell",
    "ExperimentRow",
    "Failed",
    "Fallback",
    "FanOut",
    "FannedOut",
    "Fenced",
    "ForgedReceipt",
    "Found",
    "GaveUp",
    "GitFailed",
    "Graph",
    "Guest",
    "Handoff",
    "Hedge",
    "Held",
    "Host",
    "Ignore",
    "Ignored",
    "InCopy",
    "InDoubt",
    "Interview",
    "Interviewed",
    "Job",
    "Jobs",
    "Killed",
    "Landing",
    "LastTurn",
    "Later",
    "LeakedScope",
    "Leased",
    "Ledger",
    "Lifetime",
    "Limits",
    "Linked",
    "Listener",
    "LocalModelError",
    "Loop",
    "Looped",
    "MailReceipt",
    "MailboxFull",
    "McpError",
    "McpServer",
    "McpStartFailed",
    "Member",
    "Memory",
    "MessageEnded",
    "MissingKey",
    "ModelCalled",
    "ModelError",
    "Monitor",
    "NameTaken",
    "Names",
    "Need",
    "NoClient",
    "NoMcp",
    "NoModel",
    "NoProcess",
    "NoSuchAgent",
    "NobodyBelow",
    "Normal",
    "NotClosed",
    "NotDormant",
    "NotFound",
    "NotGranted",
    "NotReplaced",
    "Nursery",
    "Obligation",
    "Ok",
    "OperatorWait",
    "Option",
    "Options",
    "Orchestra",
    "Orchestrated",
    "OutOfBudget",
    "Outcome",
    "OutsideCopy",
    "Partitions",
    "Patch",
    "PathClaims",
    "Periodic",
    "PermitSpent",
    "Plan",
    "Planned",
    "Planning",
    "Post",
    "PostRefused",
    "PostedAsker",
    "Price",
    "Quarantined",
    "Question",
    "Race",
    "RecordLost",
    "Reduce",
    "Ref",
    "Refused",
    "Rejected",
    "Reply",
    "Report",
    "RepositoryState",
    "Request",
    "ReservationUsed",
    "Restarting",
    "Result",
    "Retry",
    "Retrying",
    "Review",
    "Reviewed",
    "Role",
    "Route",
    "Routed",
    "Router",
    "Run",
    "RunError",
    "RunOver",
    "RunOwned",
    "RunState",
    "RunStep",
    "Running",
    "ScheduledMessage",
    "Scope",
    "ScriptedAsker",
    "ScriptedSession",
    "Seat",
    "Secret",
    "Session",
    "SessionLedger",
    "SessionLimit",
    "SessionNotHere",
    "SessionRef",
    "SessionSpec",
    "SettingsChanged",
    "SharedEscalation",
    "Shutdown",
    "Signal",
    "Snapshot",
    "SpawnBlocked",
    "Stage",
    "Stalled",
    "StartError",
    "StartFailed",
    "StartTimeout",
    "Started",
    "StateMachine",
    "Status",
    "Steered",
    "Step",
    "StepFailed",
    "StopSwitch",
    "StoppedAgent",
    "Store",
    "StoreBusy",
    "StoreClosed",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLost",
    "StoreReadOnly",
    "StoreTooNew",
    "StoreUnsure",
    "Stuck",
    "Subagent",
    "SubagentPool",
    "SupersededBy",
    "SupervisorSpec",
    "SupervisorStatus",
    "Swarm",
    "Swarmed",
    "Swept",
    "Tally",
    "Task",
    "Team",
    "TerminalAsker",
    "Terminated",
    "TextDelta",
    "ThoughtDelta",
    "TimedOut",
    "TooMany",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolEnded",
    "ToolOutput",
    "ToolStarted",
    "Trail",
    "Tree",
    "Turn",
    "TurnError",
    "TurnInterrupted",
    "UnknownAgent",
    "UnknownModel",
    "UnknownTool",
    "UnsafeFolder",
    "Untrusted",
    "Usage",
    "Verb",
    "Verdict",
    "Vote",
    "Voted",
    "WebAsker",
    "WindowOpen",
    "Workspace",
    "WorkspaceDenied",
    "WrongStrategy",
    "WrongThread",
    "add_actor",
    "agent",
    "agent_of",
    "agent_server",
    "agreed",
    "carry_out",
    "chain",
    "check",
    "child",
    "current_agent",
    "current_step",
    "decode_spec",
    "default_model",
    "emit",
    "encode_spec",
    "estimate_tokens",
    "experiment",
    "export_telemetry",
    "fallback",
    "fan_out",
    "file_tools",
    "find_agent",
    "graph_of",
    "hedge",
    "in_copy",
    "interview",
    "join_outputs",
    "json_objects",
    "listen",
    "load_agents",
    "loop",
    "make_plan",
    "map_reduce",
    "open_copies",
    "open_events",
    "open_fan_out",
    "open_guest",
    "open_jobs",
    "open_local_model",
    "open_mcp_servers",
    "open_model",
    "open_nursery",
    "open_stage",
    "open_store",
    "open_supervisor",
    "open_web_asker",
    "open_workspace",
    "orchestrate",
    "parse_plan",
    "parse_question",
    "partitions",
    "pick_name",
    "problems_of_plan",
    "race",
    "read_servers",
    "read_verdict",
    "read_vote",
    "reduce",
    "retry",
    "review",
    "route",
    "run",
    "run_agent",
    "run_plan",
    "run_sync",
    "says_word",
    "serve_control",
    "serve_workspace",
    "signal_below",
    "spawn",
    "stop_switch",
    "subagent",
    "supervisor",
    "swarm",
    "tool",
    "tune_gc",
    "vote",
    "watch_loop",
    "workers",
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
