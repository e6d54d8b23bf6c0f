"""A nursery for what runs beside the body of a block, not for the body itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def beside() -> AsyncGenerator[trio.Nursery]:
    """A nursery whose tasks are cancelled when the body ends, however it ends.

    What the body raises is raised as it is.  trio would put it into a group,
    which whoever wrote the body did not.
    """
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except trio.Cancelled:
            # Ours to absorb if the nursery was cancelled, else it goes on by itself.
            nursery.cancel_scope.cancel()
            raise
        # Raised again below, outside of the nursery.
        except BaseException as error:
            if isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[0] is not None:
                nursery.cancel_scope.cancel()
                raise
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        try:
            raise raised
        finally:
            # A frame that holds the error that holds the frame.
            del raised
