"""Tasks that need one another: checked when the graph is made, decided by pure functions.

:mod:`graph` says what a graph is and refuses one that cannot be carried out, :mod:`decide`
says what is to be done next, and :mod:`carry_out` does it.
"""

from .carry_out import Attempt, Carried, carry_out
from .decide import TaskStatus
from .graph import BadGraph, Graph, Need, Task, graph_of

__all__ = [
    "Attempt",
    "BadGraph",
    "Carried",
    "Graph",
    "Need",
    "Task",
    "TaskStatus",
    "carry_out",
    "graph_of",
]
