"""A PostgreSQL server of our own: a new cluster in a folder that is removed afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import psycopg
from attrs import define, field

STARTS_WITHIN = 30.0
"""Seconds."""
_OURS = ("postgres", "nobody")
"""Users that a server may be run as, where we are root, whom it refuses."""


def programs() -> Path | None:
    """The folder of the newest server that is installed."""
    # Debian keeps them off the PATH.
    folders = [*Path("/usr/lib/postgresql").glob("*/bin")]
    folders.sort(key=lambda folder: int(folder.parent.name), reverse=True)
    found = shutil.which("initdb")
    folders += [] if found is None else [Path(found).parent]
    return next((each for each in folders if (each / "initdb").exists()), None)


@define(eq=False)
class Server:
    """A server on a socket in its folder, which nobody else can reach."""

    bin: Path
    folder: Path
    user: str | None
    process: subprocess.Popen[bytes] | None = field(default=None)

    def url(self, schema: str = "public", *, user: str = "standby", password: str = "") -> str:
        """The address of a schema of its one database."""
        told = f":{password}" if password else ""
        return (
            f"postgresql://{user}{told}@/postgres?host={quote(str(self.folder), safe='')}"
            f"&options={quote(f'-csearch_path={schema}')}"
        )

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Do something, outside of a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            found = connection.execute(query.encode())
            return [] if found.description is None else found.fetchall()

    def make(self) -> None:
        """Make the cluster."""
        arguments = ["--username=standby", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        self._run("initdb", "-D", str(self.folder / "data"), *arguments)
        access = self.folder / "data/pg_hba.conf"
        # One user who is asked for a password.
        rule = "local all guarded scram-sha-256\n"
        access.write_text(rule + access.read_text())

    def start(self) -> None:
        """Start it; returns once it answers."""
        log = (self.folder / "log").open("ab")
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "60",
            "shared_buffers": "16MB",
        }
        told = [word for each in settings.items() for word in ("-c", "=".join(each))]
        with log:
            self.process = subprocess.Popen(
                [str(self.bin / "postgres"), "-D", str(self.folder / "data"), *told],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
                start_new_session=True,
            )
        until = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self.process.poll() is not None:
                    said = (self.folder / "log").read_text()[-2_000:]
                    raise AssertionError(f"the server did not start: {said}") from None
            time.sleep(0.05)

    def stop(self, how: int = signal.SIGINT) -> None:
        """End it: SIGINT in order, SIGQUIT as in a crash; returns once it has ended."""
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(how)
            process.wait(60)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.bin / name), *arguments],
            user=self.user,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def running(programs: Path) -> Generator[Server]:
    """A server for the length of a block."""
    # A socket's path has 107 bytes at most, so that it cannot lie in a folder of pytest's.
    folder = Path(tempfile.mkdtemp(prefix="standby-pg-"))
    user = None
    if os.geteuid() == 0:
        user = next(each for each in _OURS if _is_user(each))
        shutil.chown(folder, user)
    server = Server(programs, folder, user)
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.stop(signal.SIGQUIT)
        shutil.rmtree(folder)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
