"""The small model on this machine, served for the length of a block."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import trio
from attrs import frozen

from ..models import LOCAL, ModelError, ModelSettings, Secret, local_weights
from ..session import Capabilities

CONTEXT_TOKENS = 2048
"""What the model was made for: task and answer of one conversation, together."""

START_SECONDS = 60.0
STOP_SECONDS = 5.0
# The keys of the environment are none of its business.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
_PROGRAM = Path(__file__).with_name("local_server.py")


class LocalModelError(ModelError):
    """Raised when the local model is not installed, or does not start."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"the local model cannot be served: {self.why}"


@frozen
class LocalModel:
    """The local model while it is being served."""

    address: str
    """As in "http://127.0.0.1:40123"; only this machine reaches it."""
    slots: int
    """How many conversations it answers at the same time; more wait their turn."""
    context_tokens: int = CONTEXT_TOKENS
    """What each conversation may hold, task and answer together."""

    @property
    def base_url(self) -> str:
        """Where OpenAI's protocol is spoken."""
        return f"{self.address}/v1"

    def settings(self) -> ModelSettings:
        """What a chat client needs to ask it."""
        provider, _, model = LOCAL.partition("/")
        return ModelSettings(
            provider,
            model,
            self.base_url,
            Secret("none"),
            Capabilities(schema=True, streaming=True, context_tokens=self.context_tokens),
            # Tokens are told with every piece, so that also a cut turn is counted.
            {"timings_per_token": True},
        )


@asynccontextmanager
async def open_local_model(
    *, threads: int = 1, slots: int = 1, port: int = 0
) -> AsyncGenerator[LocalModel]:
    """Serve the local model on loopback for the length of the block.

    It runs in a process of its own, so that its threads and what its engine
    prints touch nobody.  The process is gone when the block is left, and also
    when this process ends in any other way.

    Args:
        threads: that compute.  More than there are idle cores is much slower.
        slots: conversations answered at the same time.  They share the
            threads; each has the whole context for itself.
        port: on 127.0.0.1; 0 for any that is free.

    Raises:
        LocalModelError: it is not installed, or does not start within 60 s.
    """
    weights = local_weights()
    if weights is None:
        raise LocalModelError("it is not installed; `standby local install` does that")
    command = [
        sys.executable,
        "-P",  # its own folder is full of names that others may want to import
        str(_PROGRAM),
        str(weights),
        f"--port={port}",
        f"--context={CONTEXT_TOKENS}",
        f"--slots={slots}",
        f"--threads={threads}",
        f"--alias={LOCAL.partition('/')[2]}",
    ]
    with tempfile.TemporaryFile() as complaints:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A file needs nobody to empty it, as a pipe would.
            stderr=complaints,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        )
        try:
            yield LocalModel(await _address(process, complaints), slots)
        finally:
            await _end(process)


async def _address(process: trio.Process, complaints: IO[bytes]) -> str:
    """The address that the server prints when it is ready."""
    assert process.stdout is not None
    line = b""
    with trio.move_on_after(START_SECONDS) as scope:
        while not line.endswith(b"\n"):
            more = await process.stdout.receive_some()
            if not more:
                break
            line += more
    if scope.cancelled_caught:
        raise LocalModelError(f"it was not ready after {START_SECONDS:g} s")
    try:
        address: str = json.loads(line)["address"]
    except (ValueError, LookupError, TypeError):
        await process.wait()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace").strip()
        raise LocalModelError(_reason(said) or f"exit code {process.returncode}") from None
    return address


def _reason(said: str) -> str:
    """The engine's first complaint, which is the cause of the others; else the last line.

    Examples:
        >>> _reason("0.01 E srv  start: couldn't bind to port 80\\nRuntimeError: see above")
        "couldn't bind to port 80"
        >>> _reason("Traceback ...\\nImportError: no xllamacpp")
        'ImportError: no xllamacpp'
    """
    complaint = re.search(r"^[\d.]+ E .*?: (.*)$", said, re.MULTILINE)
    if complaint:
        return complaint.group(1).strip()
    return said.splitlines()[-1].strip() if said else ""


async def _end(process: trio.Process) -> None:
    """End the server; also when cancelled, and never later than in `STOP_SECONDS`."""
    with trio.CancelScope(shield=True):
        assert process.stdin is not None
        assert process.stdout is not None
        # The end of its input is its order to go.
        await process.stdin.aclose()
        with trio.move_on_after(STOP_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stdout.aclose()
