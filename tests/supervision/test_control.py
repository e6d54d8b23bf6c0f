"""The control socket: who can reach it, what it answers, and that it disturbs nobody."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from standby.testing import sweep
from standby_actors import Actor, open_nursery
from standby_supervision import child, open_supervisor
from standby_supervision.control import (
    About,
    Control,
    ControlRefused,
    Forest,
    LookAtTree,
    NoAnswer,
    Program,
    UnsafeFolder,
    Verb,
    connect,
    folder_path,
    programs,
    serve_control,
)
from standby_supervision.control.folder import Entry, new_entry, write_entry
from standby_supervision.control.folder import open_folder as opened
from standby_supervision.control.wire import REQUEST_LIMIT


class Works(Actor):
    """Waits as long as it is told, or fails."""

    async def receive(self, message: Any) -> Any:
        if isinstance(message, Exception):
            raise message
        await trio.sleep(message)
        return message


class Nothing(msgspec.Struct):
    """No arguments."""


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's runtime folder of this test's own, short enough for an address."""
    with tempfile.TemporaryDirectory(prefix="run") as place:
        monkeypatch.setenv("XDG_RUNTIME_DIR", place)
        yield Path(place)


def files(folder: Path) -> list[Path]:
    """Everything below `folder`."""
    return sorted(folder.rglob("*"))


def only() -> Program:
    (program,) = programs()
    return program


@asynccontextmanager
async def talking(control: Control) -> AsyncGenerator[Talk]:
    """A client that says whatever the test says."""
    async with await trio.open_unix_socket(control.path) as stream:
        yield Talk(stream, only_of(control))


def only_of(control: Control) -> Program:
    return next(each for each in programs() if control.path.endswith(f"{each.stem}.sock"))


class Talk:
    """One connection, and the token to show."""

    def __init__(self, stream: trio.SocketStream, program: Program) -> None:
        self.stream = stream
        self.program = program
        self._read = b""

    async def say(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def request(self, verb: str = "version", **changes: Any) -> dict[str, Any] | None:
        fields = {"version": 1, "token": self.program.entry.token, "verb": verb, **changes}
        await self.say(msgspec.json.encode(fields) + b"\n")
        return await self.hear()

    async def hear(self) -> dict[str, Any] | None:
        """The next answer; None where the other side has closed."""
        while b"\n" not in self._read:
            piece = await self.stream.receive_some()
            if not piece:
                assert self._read == b""
                return None
            self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer


# ---- where it is, and whose


async def test_the_socket_and_its_token_are_the_user_s_alone_and_go_with_the_block(
    runtime: Path,
) -> None:
    async with serve_control() as control:
        folder = runtime / "standby"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        names = sorted(path.suffix for path in folder.iterdir())
        assert names == [".json", ".sock"]
        for path in folder.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert path.stat().st_uid == os.geteuid()
        assert stat.S_ISSOCK(os.stat(control.path).st_mode)
        entry = only().entry
        assert entry.pid == os.getpid()
        assert len(entry.token) >= 40
        assert control.title == entry.title
    assert list(folder.iterdir()) == []
    assert programs() == []


async def test_each_socket_has_a_token_of_its_own() -> None:
    async with serve_control(title="one"), serve_control(title="two") as two:
        tokens = {each.entry.token for each in programs()}
        assert [each.entry.title for each in programs()] == ["one", "two"]
        assert len(tokens) == 2
        async with talking(two) as talk:
            stranger = next(each.entry.token for each in programs() if each.entry.title == "one")
            answer = await talk.request(token=stranger)
            assert answer is not None
            assert answer["kind"] == "wrong_token"


async def test_without_a_runtime_folder_there_is_a_private_one_below_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with serve_control() as control:
        folder = Path(control.path).parent
        assert folder == tmp_path / f"standby-{os.geteuid()}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert only().pid == os.getpid()


def test_a_runtime_folder_that_is_another_user_s_is_not_used(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if os.geteuid() == 0:
        os.chown(runtime, 12345, -1)
    else:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/")
    assert folder_path() == tmp_path / f"standby-{os.geteuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")  # not absolute: of wherever we are
    assert folder_path().parent == tmp_path
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "nowhere"))
    assert folder_path().parent == tmp_path


def a_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


def an_open_folder(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o755)


def a_file(folder: Path) -> None:
    folder.write_text("")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(a_link, "symbolic link", id="a symbolic link"),
        pytest.param(an_open_folder, "mode 755, it must be 700", id="others may look in"),
        pytest.param(a_file, "it is no folder", id="a file"),
    ],
)
async def test_a_folder_that_is_not_private_is_refused_and_nothing_is_left(
    runtime: Path, make: Callable[[Path], None], why: str
) -> None:
    make(runtime / "standby")
    before = files(runtime)
    with pytest.raises(UnsafeFolder, match=why):
        async with serve_control():
            raise AssertionError("it must not open")
    with pytest.raises(UnsafeFolder, match=why):
        programs()
    assert files(runtime) == before


async def test_a_folder_that_cannot_be_made_is_an_error_that_says_so(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", no_room)
    with pytest.raises(UnsafeFolder, match="No space left on device"):
        async with serve_control():
            raise AssertionError("it must not open")
    assert list((runtime / "standby").iterdir()) == []


async def test_the_folder_s_path_may_be_longer_than_an_address_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    async with serve_control(), connect(only()) as connection:
        assert (await connection.ask("version", {}, About)).pid == os.getpid()


# ---- who lives


def written(
    runtime: Path, *, pid: int, started: int, namespace: int | None = None, mode: int = 0o600
) -> str:
    """What a program leaves that is killed: an entry and a socket.  Returns their name."""
    with opened(create=True) as folder:
        assert folder is not None
        _, entry = new_entry("left behind")
        space = entry.namespace if namespace is None else namespace
        stem = f"{pid}-{started}-{space}-0123abcd"
        write_entry(folder, stem, Entry(pid, started, space, 1.0, "left behind", "token"))
    place = runtime / "standby"
    (place / f"{stem}.json").chmod(mode)
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.path.relpath(place / f"{stem}.sock"))
    bound.close()
    return stem


def ours() -> Entry:
    return new_entry("")[1]


@pytest.mark.real
def test_what_dead_programs_left_is_removed_when_it_is_looked_for(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime)
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    dead = written(runtime, pid=process.pid, started=ours().started)
    assert (runtime / "standby" / f"{dead}.sock").exists()
    assert programs() == []
    assert list((runtime / "standby").iterdir()) == []


def test_a_pid_that_was_given_again_does_not_keep_a_dead_program_alive(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime)
    me = ours()
    written(runtime, pid=me.pid, started=me.started - 1)
    alive = written(runtime, pid=me.pid, started=me.started)
    assert [each.stem for each in programs()] == [alive]
    assert sorted(path.stem for path in (runtime / "standby").iterdir()) == [alive, alive]


def test_a_program_of_another_container_is_not_taken_for_a_dead_one(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime)
    written(runtime, pid=4_000_000, started=1, namespace=1)
    assert [each.pid for each in programs()] == [4_000_000]


def test_what_is_no_entry_of_ours_is_left_alone_and_not_believed(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime)
    me = ours()
    written(runtime, pid=me.pid, started=me.started, mode=0o644)
    place = runtime / "standby"
    (place / "notes.json").write_text("{}")
    stem = f"{me.pid}-{me.started}-{me.namespace}"
    (place / f"{stem}-00000001.json").write_text("{}")
    (place / f"{stem}-00000001.json").chmod(0o600)
    (place / f"{stem}-00000002.json").symlink_to("notes.json")
    os.mkfifo(place / f"{stem}-00000003.json", 0o600)
    before = sorted(place.iterdir())
    assert programs() == []
    assert sorted(place.iterdir()) == before


async def test_a_program_that_opens_a_socket_removes_what_dead_ones_left(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runtime)
    me = ours()
    written(runtime, pid=me.pid, started=me.started - 1)
    async with serve_control() as control:
        left = {path.stem for path in (runtime / "standby").iterdir()}
        assert left == {Path(control.path).stem}


# ---- what it answers


async def test_a_program_says_its_trees_with_restarts_and_last_reasons(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="standby.supervision")
    async with (
        serve_control(title="shop"),
        open_nursery(name="plain") as nursery,
        open_supervisor(child(Works, id="till"), name="shop") as tree,
        connect(only()) as connection,
    ):
        nursery.spawn(Works, name="desk")
        tree["till"].tell(ValueError("no change"))
        await trio.sleep(1)
        forest = await connection.ask("tree", LookAtTree(), Forest)
        assert forest.pid == os.getpid()
        assert [block.path for block in forest.blocks] == ["plain", "shop"]
        till = forest.blocks[1].children[0].children[0]
        assert till.child is not None
        assert till.child.restarts == 1
        assert till.child.last_reason == "crashed (ValueError: no change)"
        assert forest.blocks[1] == next(each for each in forest.blocks if each.path == "shop")
        again = await connection.ask("tree", LookAtTree(depth=0), Forest)
        assert [block.children for block in again.blocks] == [(), ()]
        assert [block.not_shown[0].count for block in again.blocks] == [1, 1]


async def test_a_block_that_a_handler_holds_is_shown_below_its_actor_and_not_twice(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hold(message: float) -> None:
        async with open_nursery(name="inner") as inner:
            inner.spawn(Works, name="inside")
            await trio.sleep(message)

    async with serve_control(), open_nursery() as nursery, connect(only()) as connection:
        nursery.spawn(hold, name="holder").tell(5.0)
        await trio.sleep(1)
        (block,) = (await connection.ask("tree", LookAtTree(), Forest)).blocks
        assert [each.name for each in block] == ["nursery", "holder", "inner", "inside"]


async def test_very_many_blocks_are_counted() -> None:
    async def open_one(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with open_nursery() as block:
            task_status.started()
            await block.join()

    async with serve_control(), connect(only()) as connection, trio.open_nursery() as nursery:
        for _ in range(12):
            await nursery.start(open_one)
        forest = await connection.ask("tree", LookAtTree(most=5), Forest)
        assert (len(forest.blocks), forest.more_blocks) == (5, 7)
        nursery.cancel_scope.cancel()


async def test_a_program_says_what_it_runs_on_and_what_it_can_be_asked() -> None:
    async with serve_control(title="shop") as control, talking(control) as talk:
        answer = await talk.request("version")
        assert answer is not None
        assert answer["type"] == "answer"
        about = msgspec.convert(answer["value"], About)
        assert (about.pid, about.title, about.trio) == (os.getpid(), "shop", trio.__version__)
        assert about.verbs == ("tree", "version")
        assert (await talk.request("version")) == answer  # a connection is good for more than one


class Shout(msgspec.Struct, forbid_unknown_fields=True):
    """What to shout."""

    text: str
    times: int = 1


async def shout(arguments: Shout) -> str:
    if not arguments.text:
        raise ControlRefused("bad_arguments", "there is nothing to shout")
    return arguments.text.upper() * arguments.times


async def test_whoever_serves_a_socket_brings_verbs_of_its_own() -> None:
    async with serve_control(Verb("shout", Shout, shout)), connect(only()) as connection:
        assert await connection.ask("shout", Shout("hey", 2), str) == "HEYHEY"
        about = await connection.ask("version", {}, About)
        assert about.verbs == ("shout", "tree", "version")
        with pytest.raises(ControlRefused, match="nothing to shout"):
            await connection.ask("shout", Shout(""), str)


# ---- what it refuses

DEEP = b"[" * 30_000 + b"]" * 30_000


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        pytest.param(b"\n", "malformed", id="an empty line"),
        pytest.param(b"tree\n", "malformed", id="no JSON"),
        pytest.param(b"[]\n", "malformed", id="no object"),
        pytest.param(b'{"version": 1}\n', "malformed", id="no token"),
        pytest.param(b'{"version": "1"}\n', "malformed", id="a version that is no number"),
        pytest.param(b'{"version": 1, "token": 5, "verb": "tree"}\n', "malformed", id="no text"),
        pytest.param(b"\xff\xfe\n", "malformed", id="no UTF-8"),
        pytest.param(DEEP + b"\n", "malformed", id="brackets in brackets"),
        pytest.param(b'{"a": ' + DEEP + b"}\n", "malformed", id="brackets where nobody looks"),
        pytest.param(b'{"version": 2}\n', "other_version", id="another version"),
        pytest.param(
            b'{"version": 1, "token": "", "verb": "tree"}\n', "wrong_token", id="an empty token"
        ),
        pytest.param(
            b'{"version": 1, "token": "\\u00e9", "verb": "tree"}\n', "wrong_token", id="not ASCII"
        ),
        pytest.param(b"x" * (REQUEST_LIMIT + 1), "too_long", id="a line without an end"),
        pytest.param(b"x" * REQUEST_LIMIT + b"\n", "too_long", id="a line that is too long"),
    ],
)
async def test_what_is_no_request_is_refused_and_the_connection_closed(
    line: bytes, kind: str
) -> None:
    async with serve_control() as control, talking(control) as talk:
        await talk.say(line)
        answer = await talk.hear()
        assert answer is not None
        assert (answer["type"], answer["kind"]) == ("refusal", kind)
        assert await talk.hear() is None
        async with connect(only()) as connection:
            assert (await connection.ask("version", {}, About)).pid == os.getpid()


async def test_the_longest_request_that_is_allowed_is_read() -> None:
    async with serve_control(Verb("shout", Shout, shout)) as control, talking(control) as talk:
        text = "x" * (REQUEST_LIMIT - 500)
        answer = await talk.request("shout", arguments={"text": text})
        assert answer is not None
        assert answer["value"] == text.upper()


@pytest.mark.parametrize(
    ("verb", "arguments", "kind", "says"),
    [
        pytest.param("tre", {}, "unknown_verb", "did you mean 'tree'? There are: ", id="near"),
        pytest.param("x\ud800" * 500, {}, "unknown_verb", "There are: ", id="long"),
        pytest.param("tree", {"moist": 1}, "bad_arguments", "unknown field `moist`", id="unknown"),
        pytest.param("tree", {"most": -1}, "bad_arguments", "most", id="out of range"),
        pytest.param("tree", {"depth": 10**30}, "bad_arguments", "depth", id="too large"),
        pytest.param("tree", [], "bad_arguments", "Expected `object`", id="no object"),
    ],
)
async def test_a_request_that_cannot_be_meant_is_refused_with_the_reason(
    verb: str, arguments: Any, kind: str, says: str
) -> None:
    async with serve_control() as control, talking(control) as talk:
        answer = await talk.request(verb.replace("\ud800", "?"), arguments=arguments)
        assert answer is not None
        assert answer["kind"] == kind
        assert says in answer["message"]
        assert len(answer["message"]) < 300
        assert await talk.hear() is None


async def test_a_request_that_breaks_off_is_refused() -> None:
    async with serve_control() as control, talking(control) as talk:
        await talk.say(b'{"version": 1, ')
        await talk.stream.send_eof()
        answer = await talk.hear()
        assert answer is not None
        assert answer["kind"] == "malformed"
        assert await talk.hear() is None


async def test_who_says_nothing_and_goes_is_not_answered() -> None:
    async with serve_control() as control:
        async with talking(control) as talk:
            await talk.stream.send_eof()
            assert await talk.hear() is None
        async with talking(control) as talk:
            await talk.say(b'{"version"')  # and goes


class Broken(msgspec.Struct):
    """How to fail."""

    how: str = ""


async def break_down(arguments: Broken) -> object:
    match arguments.how:
        case "surrogate":
            raise OSError("caf\udce9")
        case "unencodable":
            return object()
        case "huge":
            return "x" * (17 * 1024 * 1024)
        case _:
            raise KeyError("a bug")


@pytest.mark.parametrize(
    ("how", "kind", "says"),
    [
        pytest.param("", "failed", "KeyError: 'a bug'", id="it raises"),
        pytest.param("surrogate", "failed", "OSError: caf?", id="what cannot be encoded"),
        pytest.param("unencodable", "failed", "TypeError", id="it returns what cannot be encoded"),
        pytest.param("huge", "too_long", "the answer has more than", id="it returns too much"),
    ],
)
async def test_a_verb_that_fails_is_an_answer_and_disturbs_nobody(
    how: str, kind: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve_control(Verb("break", Broken, break_down)) as control:
        async with talking(control) as talk:
            answer = await talk.request("break", arguments={"how": how})
            assert answer is not None
            assert answer["kind"] == kind
            assert says in answer["message"]
            assert await talk.hear() is None
        async with connect(only()) as connection:
            assert (await connection.ask("version", {}, About)).pid == os.getpid()
    logged = [record.name for record in caplog.records]
    assert logged == (["standby.control"] if kind == "failed" else [])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=200), max_size=4))
async def test_whatever_bytes_come_the_next_client_is_answered(pieces: list[bytes]) -> None:
    async with serve_control() as control:
        async with talking(control) as talk:
            try:
                for piece in pieces:
                    await talk.say(piece + b"\n")
                await talk.stream.send_eof()
            except trio.BrokenResourceError:
                pass  # refused before it was all said
            answers = []
            try:
                while (answer := await talk.hear()) is not None:
                    answers.append(answer["type"])
            except trio.BrokenResourceError:
                pass  # closed with some of it unread
            assert answers == (["refusal"] if pieces else [])
        async with connect(only()) as connection:
            assert (await connection.ask("version", {}, About)).pid == os.getpid()


# ---- bounds


@pytest.mark.parametrize("said", [b"", b'{"version": 1'])
async def test_a_client_that_is_slow_is_told_and_let_go(
    said: bytes, autojump_clock: trio.testing.MockClock
) -> None:
    async with serve_control(seconds=10.0) as control, talking(control) as talk:
        await talk.say(said)
        answer = await talk.hear()
        assert answer is not None
        assert answer["kind"] == "timeout"
        assert "10 s" in answer["message"]
        assert trio.current_time() == pytest.approx(10)
        assert await talk.hear() is None


async def test_a_verb_that_takes_too_long_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cancelled: list[float] = []

    async def hang(_: Nothing) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(trio.current_time())

    verb = Verb("hang", Nothing, hang)
    async with serve_control(verb, seconds=5.0) as control, talking(control) as talk:
        answer = await talk.request("hang")
        assert answer is not None
        assert answer["kind"] == "timeout"
        assert cancelled == [pytest.approx(5)]


async def test_a_reader_that_takes_nothing_holds_nobody_up_and_is_let_go(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def much(_: Nothing) -> str:
        return "x" * 4_000_000

    async with (
        serve_control(Verb("much", Nothing, much), seconds=10.0) as control,
        open_nursery() as nursery,
        talking(control) as slow,
    ):
        request = {"version": 1, "token": slow.program.entry.token, "verb": "much"}
        await slow.say(msgspec.json.encode(request) + b"\n")
        worker = nursery.spawn(Works)
        async with connect(slow.program) as connection:
            assert (await connection.ask("version", {}, About)).pid == os.getpid()
        assert await worker.ask(1.0) == 1.0
        await trio.sleep(10)
        got = b""
        while piece := await slow.stream.receive_some(1_000_000):
            got += piece
        assert 0 < len(got) < 4_000_000
        assert b"\n" not in got


async def test_a_connection_too_many_is_told_so_and_a_place_that_is_free_is_given(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serve_control(connections=2) as control:
        async with talking(control) as one, talking(control) as two:
            assert await one.request() is not None
            assert await two.request() is not None
            async with talking(control) as three:
                answer = await three.hear()
                assert answer is not None
                assert (answer["kind"], await three.hear()) == ("busy", None)
            assert (await one.request() or {})["type"] == "answer"
        async with talking(control) as four:
            assert (await four.request() or {})["type"] == "answer"


@pytest.mark.parametrize("options", [{"connections": 0}, {"seconds": 0}, {"seconds": float("nan")}])
def test_bounds_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        serve_control(**options)


# ---- its end


async def test_an_error_of_the_body_is_raised_as_it_is(runtime: Path) -> None:
    with pytest.raises(KeyError):
        async with serve_control():
            raise KeyError
    assert list((runtime / "standby").iterdir()) == []


async def test_a_client_that_is_connected_when_the_block_is_left_sees_the_end() -> None:
    async with serve_control() as control:
        stream = await trio.open_unix_socket(control.path)
        await trio.testing.wait_all_tasks_blocked()
    async with stream:
        assert await stream.receive_some() == b""


async def test_a_program_that_has_ended_meanwhile_is_an_error_that_says_so() -> None:
    async with serve_control():
        program = only()
        async with connect(program) as connection:
            assert (await connection.ask("version", {}, About)).pid == os.getpid()
    with pytest.raises(NoAnswer, match=f"program {os.getpid()} has ended") as caught:
        async with connect(program):
            raise AssertionError("there is nobody")
    assert caught.value.has_ended
    assert not program.is_listed()


async def test_a_program_that_does_not_answer_in_time_is_told_from_one_that_has_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def hang(_: Nothing) -> None:
        await trio.sleep_forever()

    async with serve_control(Verb("hang", Nothing, hang)):
        with pytest.raises(NoAnswer, match="does not answer: no answer within 3 s") as caught:
            async with connect(only(), seconds=3.0) as connection:
                await connection.ask("hang", {}, str)
        assert not caught.value.has_ended


def test_cut_at_any_step_it_leaves_no_file_and_no_connection(runtime: Path) -> None:
    async def scenario(turn: Callable[[int], None]) -> None:
        try:
            async with (
                serve_control(),
                open_supervisor(child(Works, id="w")),
                connect(only()) as connection,
            ):
                await connection.ask("tree", LookAtTree(), Forest)
        finally:
            assert list((runtime / "standby").iterdir()) == []

    assert sweep(scenario) > 20
