"""Who is at work now, what it is told, and how it ends.

:mod:`registry` has the entries, each as long as the task that holds its agent;
:mod:`activity` folds what an agent does, :mod:`mail` what it is told, :mod:`refs` has
what can be done to it, :mod:`recent` keeps what has ended for a while, and :mod:`verbs`
lets other processes of the user ask for all that.
"""

from .keys import AgentKey as AgentKey
from .mail import MailReceipt as MailReceipt
from .mail import Rejected as Rejected
from .refs import AgentAmbiguous as AgentAmbiguous
from .refs import AgentAnswered as AgentAnswered
from .refs import AgentFound as AgentFound
from .refs import AgentMissing as AgentMissing
from .refs import AgentRef as AgentRef
from .refs import AgentsStopped as AgentsStopped
from .refs import StoppedAgent as StoppedAgent
from .refs import TurnInterrupted as TurnInterrupted
from .refs import current_agent as current_agent
from .registry import AgentView as AgentView
from .registry import Dormant as Dormant
from .verbs import serve_workspace as serve_workspace
