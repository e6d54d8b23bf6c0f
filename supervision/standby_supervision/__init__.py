"""Supervision: who starts whom, what a failure means, what outlives a crash."""

from .answers import AlreadyPresent as AlreadyPresent
from .answers import AlreadyStarted as AlreadyStarted
from .answers import ChildInfo as ChildInfo
from .answers import Counts as Counts
from .answers import Done as Done
from .answers import Ignored as Ignored
from .answers import NotFound as NotFound
from .answers import Refused as Refused
from .answers import Restarting as Restarting
from .answers import Running as Running
from .answers import Started as Started
from .answers import StartError as StartError
from .answers import TooMany as TooMany
from .answers import WrongStrategy as WrongStrategy
from .backoff import Backoff as Backoff
from .child import ChildSpec as ChildSpec
from .child import SupervisorSpec as SupervisorSpec
from .child import child as child
from .control import Control as Control
from .control import ControlError as ControlError
from .control import ControlRefused as ControlRefused
from .control import UnsafeFolder as UnsafeFolder
from .control import Verb as Verb
from .control import serve_control as serve_control
from .errors import BadSpec as BadSpec
from .errors import Ignore as Ignore
from .errors import Stalled as Stalled
from .errors import StartFailed as StartFailed
from .jobs import CalledOff as CalledOff
from .jobs import Failed as Failed
from .jobs import Job as Job
from .jobs import Jobs as Jobs
from .jobs import Ok as Ok
from .jobs import Outcome as Outcome
from .jobs import Periodic as Periodic
from .jobs import TimedOut as TimedOut
from .jobs import open_jobs as open_jobs
from .partition import Partitions as Partitions
from .partition import partitions as partitions
from .router import Answers as Answers
from .router import Broadcast as Broadcast
from .router import Router as Router
from .router import workers as workers
from .spec_json import decode_spec as decode_spec
from .spec_json import encode_spec as encode_spec
from .tree import Branch as Branch
from .tree import GaveUp as GaveUp
from .tree import Tree as Tree
from .tree import open_supervisor as open_supervisor

# isort: split
# Last: importing the module of that name puts the module in the place of the function.
from .child import supervisor as supervisor
