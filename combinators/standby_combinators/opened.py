"""Models that are opened once, for whoever asks for them by name, and closed together."""

from __future__ import annotations

import trio
from attrs import define, field

from standby_actors.models import open_model
from standby_actors.opening import Model
from standby_actors.sessions.wires import Api

from .endings import without_failures


@define(eq=False)
class _Opened:
    """One model, open until it is let go."""

    model: Model | None = None
    failure: Exception | None = None
    settled: trio.Event = field(factory=trio.Event)
    scope: trio.CancelScope = field(factory=trio.CancelScope)


class OpenedModels:
    """The models of a pool, each held open by a task of its nursery."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, Api | None], _Opened] = {}

    async def get(self, name: str, api: Api | None, nursery: trio.Nursery) -> Model:
        """The model called `name`, opened in `nursery` by whoever asks first.

        Raises:
            ModelError: there is none of that name, or no way to ask it.
            RuntimeError: it was closed before it was ready.
        """
        which = name, api
        opened = self._models.get(which)
        if opened is None:
            opened = self._models[which] = _Opened()
            nursery.start_soon(self._serve, name, api, opened)
        await opened.settled.wait()
        if opened.model is None:
            raise opened.failure or RuntimeError(f"{name} was closed before it was ready")
        return opened.model

    def close(self) -> None:
        """Let all of them go; their tasks end then."""
        for opened in list(self._models.values()):
            opened.scope.cancel()

    async def _serve(self, name: str, api: Api | None, opened: _Opened) -> None:
        try:
            with opened.scope:
                async with open_model(name, api=api) as opened.model:
                    # From now on it ends when it is let go, not with a cancellation:
                    # the subagents, who need it, end first.
                    opened.scope.shield = True
                    opened.settled.set()
                    await trio.sleep_forever()
        # Whoever asks for it is told; it may be tried again.
        except Exception as error:
            opened.failure = error
        except BaseExceptionGroup as group:
            raise without_failures(group) from None
        finally:
            opened.settled.set()
            del self._models[name, api]
