"""A coding agent that plays a recording, in memory and on the test's own clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import msgspec
import trio
from attrs import define, field

from standby_actors.process import Ended, Frame

Fate = Literal["dies", "leaves", "falls silent", "closes its output"]
"""What becomes of it: killed, ended with exit code 0, alive and mute, or alive without output."""

Cut = Callable[[bytes], Iterator[bytes]]


def whole(data: bytes) -> Iterator[bytes]:
    """`data` in one piece."""
    yield data


def pieces(size: int) -> Cut:
    """Cuts data into pieces of `size` bytes."""

    def cut(data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    return cut


def kind_of(frame: Frame) -> str:
    """What a frame asks for, or that it is an answer."""
    request = frame.get("request") or {}
    return str(frame.get("method") or request.get("subtype") or frame.get("type") or "answer")


@define(eq=False)
class FakeProgram:
    """Says what the recording says, up to where it heard something, and waits to hear it.

    Args:
        records: of the conversation, in order.
        cut: how its output is cut into pieces.
        fate: what becomes of it after `frames` frames; it is the fate of its first life only.
        noise: lines between its frames.
        deaf: to these kinds of frames: it takes them for nothing said.
        stderr: what it wrote there.
        end: of each line.
        glued: whatever it has said by then comes in one read.
        unended: the last frame before its fate has no end of its line.
        again: its next life begins the recording anew.
    """

    records: Sequence[tuple[str, Frame]]
    cut: Cut = whole
    fate: Fate | None = None
    frames: float = math.inf
    noise: bytes = b""
    deaf: frozenset[str] = frozenset()
    stderr: str = ""
    end: bytes = b"\n"
    glued: bool = False
    unended: bool = False
    again: bool = False
    pause: float = 0.0
    """Seconds before each read of its output; to be set when it is open."""
    ids: dict[tuple[str, Any], Any] = field(init=False, factory=dict[tuple[str, Any], Any])
    """What those of the recording are in this conversation."""
    lives: int = field(init=False, default=0)
    heard: list[str] = field(init=False, factory=list[str])
    """Kinds of the frames that were sent to it."""
    sent: list[Frame] = field(init=False, factory=list[Frame])
    """Those frames themselves."""
    surprises: list[str] = field(init=False, factory=list[str])
    """Those that the recording does not have there."""
    killed: int = field(init=False, default=0)
    at: int = field(init=False, default=0)
    """How far it has played."""

    @asynccontextmanager
    async def run(self, command: Sequence[str], **how: Any) -> AsyncGenerator[_Life]:
        """Stands for `open_process`."""
        self.lives += 1
        life = _Life(self, self.fate if self.lives == 1 else None)
        life.speak()
        try:
            yield life
        finally:
            life.end(Ended(0))

    def next_life(self) -> None:
        """Go on where the next program began, if the recording has one."""
        if self.again:
            self.at, self.ids = 0, {}
            return
        starts = ("initialize", "get_state")
        while self.at < len(self.records):
            way, frame = self.records[self.at]
            if way == ">" and kind_of(frame) in starts:
                return
            self.at += 1

    def asked(self, recorded: Frame, frame: Frame) -> None:
        """A request of the recording was made, by an id that may be another one."""
        for key in ("id", "request_id"):
            if key in recorded and key in frame:
                self.ids[key, recorded[key]] = frame[key]

    def now(self, frame: Frame) -> Frame:
        """`frame` of the recording, with the id that its request has now."""
        if "method" in frame:
            return frame
        inner = frame.get("response")
        if frame.get("type") == "control_response" and isinstance(inner, dict):
            key = ("request_id", inner.get("request_id"))
            return {**frame, "response": {**inner, "request_id": self.ids.get(key, key[1])}}
        if "id" in frame:
            return {**frame, "id": self.ids.get(("id", frame["id"]), frame["id"])}
        return frame


_SAME = {
    "session/resume": "session/new",
    "session/load": "session/new",
    "thread/resume": "thread/start",
}


def _is_asked(recorded: Frame, kind: str) -> bool:
    """Whether the recording has that request there, of a conversation that is new or old."""
    known = kind_of(recorded)
    return _SAME.get(known, known) == _SAME.get(kind, kind)


@define(eq=False)
class _Life:
    program: FakeProgram
    fate: Fate | None
    pid: int = 1
    ended: Ended | None = None
    gone: bool = False
    said: int = 0
    _out: deque[bytes] = field(init=False, factory=deque[bytes])
    _closed: bool = field(init=False, default=False)
    _mute: bool = field(init=False, default=False)
    _news: trio.Event = field(init=False, factory=trio.Event)
    _over: trio.Event = field(init=False, factory=trio.Event)

    @property
    def stderr_tail(self) -> str:
        return self.program.stderr

    def speak(self) -> None:
        program = self.program
        while program.at < len(program.records):
            way, frame = program.records[program.at]
            if way == ">":
                break
            if self.said >= program.frames and self.fate is not None:
                self.meet(self.fate)
                break
            program.at += 1
            self.said += 1
            if not self._mute:
                is_last = program.unended and self.said == program.frames
                data = program.noise + msgspec.json.encode(program.now(frame))
                data += b"" if is_last else program.end
                self._out.extend(program.cut(data))
        self.tell()

    def meet(self, fate: Fate) -> None:
        match fate:
            case "dies":
                self.end(Ended(-9))
            case "leaves":
                self.end(Ended(0))
            case "falls silent":
                self._mute = True
            case "closes its output":
                self._closed = self._mute = True
                self.tell()
        self.program.next_life()

    def end(self, how: Ended) -> None:
        if self.ended is None:
            self.ended = how
        self._closed = self._mute = self.gone = True
        self._over.set()
        self.tell()

    def tell(self) -> None:
        self._news.set()

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.ended is not None:
            raise trio.BrokenResourceError("it has ended")
        program = self.program
        for line in data.splitlines():
            frame = msgspec.json.decode(line)
            kind = kind_of(frame)
            program.heard.append(kind)
            program.sent.append(frame)
            if self._mute or kind in program.deaf:
                continue
            expected = program.records[program.at :][:1]
            if not expected or not _is_asked(expected[0][1], kind):
                program.surprises.append(kind)
                continue
            program.asked(expected[0][1], frame)
            program.at += 1
            self.speak()

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        while not self._out and not self._closed:
            self._news = trio.Event()
            await self._news.wait()
        await trio.sleep(self.program.pause)
        if self.program.glued:
            whole = b"".join(self._out)
            self._out.clear()
            return whole
        return self._out.popleft() if self._out else b""

    async def wait(self) -> Ended:
        await self._over.wait()
        assert self.ended is not None
        return self.ended

    def kill(self) -> None:
        self.program.killed += 1
        if self.fate is None:
            self.program.next_life()
        self.end(Ended(-9))
