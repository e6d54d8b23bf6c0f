"""How a running program is asked what it does: a socket that only its user can reach.

    async with standby.serve_control():
        ...

:mod:`folder` says where the sockets are, :mod:`wire` what is said over them,
:mod:`server` answers, :mod:`client` asks, and :mod:`verbs` has what can be asked.
"""

from .client import SECONDS as SECONDS
from .client import Connection as Connection
from .client import connect as connect
from .errors import ControlError as ControlError
from .errors import ControlRefused as ControlRefused
from .errors import NoAnswer as NoAnswer
from .errors import UnsafeFolder as UnsafeFolder
from .folder import Program as Program
from .folder import folder_path as folder_path
from .folder import programs as programs
from .server import Control as Control
from .server import Verb as Verb
from .server import serve_control as serve_control
from .verbs import About as About
from .verbs import Forest as Forest
from .verbs import LookAtTree as LookAtTree
