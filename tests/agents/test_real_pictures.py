"""Pictures reach the model behind a real coding agent, or are refused before anything is asked."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from standby_actors.agent import Agent
from standby_actors.result import Attachment
from standby_actors.sessions.acp import open_acp
from tests.support.clis import each_of
from tests.support.coding_agents import KINDS, PROMPT, Heard, settings
from tests.support.model_server_agents import agent_server
from tests.support.trees import new_spot, spotted

pytestmark = pytest.mark.clis


def a_picture(size: int = 64) -> bytes:
    """A PNG of so many pixels a side, all of them red."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + b"\xff\0\0" * size for _ in range(size))
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


PICTURE = Attachment("image/png", a_picture(), name="red.png")


@pytest.mark.parametrize("name", each_of(KINDS))
async def test_a_picture_reaches_its_model(name: str, tmp_path: Path) -> None:
    kind, spot = KINDS[name], new_spot()
    model = None if kind.opens is open_acp else "stub/stub"
    more: dict[str, Any] = {"images": True} if name == "pi" else {}
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        agent = Agent("scout", PROMPT, model=model, approve="allow")
        async with kind.opens(agent, **how, **more) as session:
            assert session.capabilities.images
            turn = await session.ask("what is on it", Heard(session), (PICTURE,))
            assert turn.error is None
            assert "what is on it" in turn.text
            assert turn.messages[0].attachments == (PICTURE,)
            # As it is, and once.
            told = str(server.seen[-1].body)
            assert told.count(base64.b64encode(PICTURE.data).decode()) == 1
    assert spotted(spot) == []


async def test_one_whose_model_takes_none_refuses_it_before_anything_is_asked(
    tmp_path: Path,
) -> None:
    kind, spot = KINDS["pi"], new_spot()
    async with agent_server() as server:
        how = settings(kind, server.url, tmp_path, spot)
        agent = Agent("scout", PROMPT, model="stub/stub")
        async with kind.opens(agent, **how) as session:
            assert not session.capabilities.images
            turn = await session.ask("what is on it", Heard(session), (PICTURE,))
            assert turn.error is not None
            assert turn.error.kind == "refused"
            assert "takes no pictures" in turn.error.message
            assert server.seen == []
            assert session.transcript() == ()
            after = await session.ask("hello", Heard(session))
            assert after.error is None
    assert spotted(spot) == []
