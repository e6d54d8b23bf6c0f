"""A store in PostgreSQL when its server, or the way to it, gives out; against a real server."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import tempfile
import threading
import traceback
from collections.abc import Generator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import trio

from standby_supervision.store import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLost,
    StoreReadOnly,
    StoreUnsure,
    open_store,
)
from tests.supervision.store.conftest import schema
from tests.supervision.store.server import Server
from tests.supervision.store.test_store import create, given, opened

pytestmark = pytest.mark.real
SECRET = "hunter2-hunter2"


@pytest.fixture
def place(server: Server) -> Iterator[str]:
    yield schema(server)
    if server.process is None:
        server.start()


async def test_a_server_that_starts_again_is_found_again(server: Server, place: str) -> None:
    async with opened(place) as store:
        await trio.to_thread.run_sync(server.stop)
        await trio.to_thread.run_sync(server.start)
        assert await store.append("r", 1, [given(1)]) == 2
        assert len(await store.read("r")) == 2


async def test_a_server_that_is_gone_is_told_and_nothing_is_written(
    server: Server, place: str
) -> None:
    async with open_store(place, busy_seconds=0.3) as store:
        await create(store, "r")
        await trio.to_thread.run_sync(server.stop)
        for _ in range(2):
            with pytest.raises(StoreLost, match="nothing was written"):
                await store.append("r", 1, [given(1)])
            with pytest.raises(StoreLost):
                await store.read("r")
        with pytest.raises(StoreLost):
            async with open_store(place):
                raise AssertionError
        await trio.to_thread.run_sync(server.start)
        assert await store.append("r", 1, [given(2)]) == 2


async def test_a_server_that_crashes_has_all_that_it_acknowledged(
    server: Server, place: str
) -> None:
    acknowledged: list[int] = []
    errors: list[StoreError] = []
    is_over = False
    reached = [trio.Event() for _ in range(3)]

    async def write() -> None:
        while not is_over:
            try:
                acknowledged.append(await store.append("r", 1, [given(1), given(2)]))
                for event in reached[: len(acknowledged) // 40]:
                    event.set()
            except StoreError as error:
                errors.append(error)

    async with opened(place) as store:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(write)
            for crash in range(3):
                await reached[crash].wait()
                await trio.to_thread.run_sync(server.stop, signal.SIGQUIT)
                await trio.to_thread.run_sync(server.start)
            is_over = True
        found = [event.seq for event in await store.read("r")]
        assert found == list(range(1, len(found) + 1))
        assert len(found) % 2 == 1
        assert set(acknowledged) <= set(found)
        assert len(acknowledged) == len(set(acknowledged))
        assert {type(error) for error in errors} <= {StoreLost, StoreUnsure}
        assert await store.check() == []


async def test_a_connection_that_was_ended_costs_nobody_an_error(
    server: Server, place: str
) -> None:
    async with opened(place) as store:
        for number in range(3):
            server.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid != pg_backend_pid() AND backend_type = 'client backend'"
            )
            assert await store.append("r", 1, [given(number)]) == number + 2
            assert len(await store.read("r")) == number + 2


class Way:
    """A way to a server that can be cut at the next commit."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.cut = ""
        """"before" the commit gets through, or "after" it is done; then "both" and nothing."""
        self.is_closed = False
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.is_closed:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.server.folder / ".s.PGSQL.5432"))
            answers = threading.Event()
            answers.set()
            threading.Thread(target=self.ask, args=(near, far, answers), daemon=True).start()
            threading.Thread(target=self.answer, args=(near, far, answers), daemon=True).start()

    def ask(self, near: socket.socket, far: socket.socket, answers: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while said := near.recv(65_536):
                if b"COMMIT\0" in said and self.cut:
                    cut, self.cut = self.cut, ""
                    if cut == "before":
                        break
                    answers.clear()
                    self.is_closed = cut == "both"
                far.sendall(said)
        shut(near, far)

    def answer(self, near: socket.socket, far: socket.socket, answers: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while said := far.recv(65_536):
                if not answers.is_set():
                    break  # it was done, and nobody is told
                near.sendall(said)
        shut(near, far)


def shut(*both: socket.socket) -> None:
    for each in both:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


@contextlib.contextmanager
def way_to(server: Server, place: str) -> Generator[tuple[Way, str]]:
    folder = Path(tempfile.mkdtemp(prefix="standby-way-"))
    way = Way(server, folder)
    try:
        there, here = quote(str(server.folder), safe=""), quote(str(folder), safe="")
        yield way, place.replace(there, here)
    finally:
        shut(way.listener)
        shutil.rmtree(folder)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_commit_without_an_answer_is_looked_up(
    server: Server, place: str, cut: str
) -> None:
    with way_to(server, place) as (way, through):
        async with opened(through) as store:
            way.cut = cut
            # It is written once, and its true number is told.
            assert await store.append("r", 1, [given(1), given(2)]) == 3
            assert way.cut == ""
            assert await store.append("r", 1, [given(3)]) == 4
            assert [event.seq for event in await store.read("r")] == [1, 2, 3, 4]


async def test_a_commit_that_cannot_be_looked_up_is_said_to_be_in_doubt(
    server: Server, place: str
) -> None:
    with way_to(server, place) as (way, through):
        async with open_store(through, busy_seconds=0.3) as store:
            await create(store, "r")
            way.cut = "both"
            with pytest.raises(StoreUnsure, match="read what is there before it is written again"):
                await store.append("r", 1, [given(1)])
            way.is_closed = False
            assert [event.seq for event in await store.read("r")] == [1, 2]
            assert await store.append("r", 1, [given(2)]) == 3


@pytest.mark.parametrize(
    ("code", "kind"),
    [("53100", StoreFull), ("XX001", StoreDamaged), ("25006", StoreReadOnly), ("40P01", StoreBusy)],
)
async def test_what_the_server_says_is_told_as_what_it_is(
    server: Server, place: str, code: str, kind: type[StoreError]
) -> None:
    async with opened(place) as store:
        name = place.rpartition("%3D")[2]
        server.sql(
            f"CREATE FUNCTION {name}.fail() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = '{code}'; END $$"
        )
        server.sql(
            f"CREATE TRIGGER fail BEFORE INSERT ON {name}.standby_events"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}.fail()"
        )
        with pytest.raises(kind, match="as told"):
            await store.append("r", 1, [given(1)])
        server.sql(f"DROP TRIGGER fail ON {name}.standby_events")
        assert await store.append("r", 1, [given(2)]) == 2


async def test_a_user_who_may_only_read_reads(server: Server, place: str) -> None:
    async with opened(place):
        pass
    async with open_store(f"{place}%20-cdefault_transaction_read_only%3Don") as store:
        assert len(await store.read("r")) == 1
        with pytest.raises(StoreReadOnly):
            await store.append("r", 1, [given(1)])
    with pytest.raises(StoreReadOnly):
        async with open_store(f"{schema(server)}%20-cdefault_transaction_read_only%3Don"):
            raise AssertionError


async def test_it_is_synced_also_for_a_user_who_is_set_not_to_be(
    server: Server, place: str
) -> None:
    async with opened(f"{place}%20-csynchronous_commit%3Doff") as store:
        name = place.rpartition("%3D")[2]
        server.sql(
            f"CREATE FUNCTION {name}.synced() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF current_setting('synchronous_commit') != 'on' THEN RAISE 'not synced'; END IF;"
            " RETURN NULL; END $$"
        )
        server.sql(
            f"CREATE TRIGGER synced BEFORE INSERT ON {name}.standby_events"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}.synced()"
        )
        assert await store.append("r", 1, [given(1)]) == 2


async def test_a_password_is_in_no_error(server: Server, place: str) -> None:
    server.sql("DROP ROLE IF EXISTS guarded")
    server.sql("CREATE ROLE guarded LOGIN PASSWORD 'another'")
    socket_of = f"host={quote(str(server.folder), safe='')}"
    places = [
        f"postgresql://guarded:{SECRET}@/postgres?{socket_of}",
        f"postgresql://me:{SECRET}@127.0.0.1:1/none",
        f"postgresql://me:{SECRET}@127.0.0.1:no/none",
        f"postgresql://me:{SECRET}@[/none?{SECRET}",
        f"postgresql://me@/none?password={SECRET}&{socket_of}",
    ]
    for each in places:
        with pytest.raises(StoreError) as raised:
            async with open_store(each):
                raise AssertionError
        told = "".join(traceback.format_exception(raised.value))
        assert SECRET not in told, each
        assert SECRET not in f"{raised.value!r} {raised.value} {raised.value.where}", each
    async with open_store(place.replace("standby@", f"standby:{SECRET}@")) as store:
        assert SECRET not in f"{store!r} {store.where}"
