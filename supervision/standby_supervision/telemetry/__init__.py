"""What subagents do, as OpenTelemetry spans and metrics, made by a reader of their events."""

from __future__ import annotations

from .export import export_telemetry as export_telemetry
from .logs import ActorFilter as ActorFilter
from .logs import add_actor as add_actor
