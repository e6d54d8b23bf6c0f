"""What does a turn cost as a subagent's, over the function or the request alone?"""

from __future__ import annotations

from . import floors, sessions
from .measure import Case, Line, Sample, Suite, figure, on_trio
from .probes import probe
from .suites import Means


def suite(means: Means) -> Suite:
    children = means.size(10_000, 200)
    turns = means.size(200, 10)
    live = means.size(50, 5)

    def weighed() -> Sample:
        return figure(probe("sessions", live)["bytes"] / 1e6)

    return Suite(
        [
            on_trio("trio task, channel", floors.waiting_task, children, most_rounds=3),
            on_trio("function subagent", sessions.fan_out_subagents, children, most_rounds=3),
            means.peers.case("autogen-core", "fan_out", means.size(10_000, 200)),
            Case("bare openai call", lambda: sessions.bare_calls(turns)),
            Case("chat turn", lambda: sessions.chat_turns(turns)),
            Case("live chat session", weighed, unit="MB", most_rounds=3, ours=False),
        ],
        [
            Line("subagents", "function subagent", "trio task, channel"),
            Line("subagents autogen", "autogen-core", "function subagent"),
            Line("chat turns", "chat turn", "bare openai call"),
            Line("session memory", "live chat session"),
        ],
    )
