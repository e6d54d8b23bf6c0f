"""A control socket around what the command line runs, so that `standby tree` can show it."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from standby_supervision.control import UnsafeFolder, serve_control


@asynccontextmanager
async def controlled() -> AsyncGenerator[None]:
    """Serve a control socket while the block is open; where none can be had, say so and go on."""
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(serve_control())
        except UnsafeFolder as error:
            print(f"standby: {error}; going on without", file=sys.stderr)
        yield
