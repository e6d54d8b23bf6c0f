"""Teams: many turns, one Result."""

from .fan_out import fan_out as fan_out
from .fan_out import map_concurrent as map_concurrent
from .pool import Held as Held
from .pool import Options as Options
from .pool import Player as Player
from .pool import Spawner as Spawner
from .pool import SubagentPool as SubagentPool
from .reduce import reduce as reduce
from .run import run as run
from .signal import Signal as Signal
from .signal import signal_below as signal_below
from .tokens import estimate_tokens as estimate_tokens
from .trail import Report as Report
from .trail import Trail as Trail
from .trail import join_outputs as join_outputs
