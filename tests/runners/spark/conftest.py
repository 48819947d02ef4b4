"""Sessions of Spark for tests, and what every process that runs Spark needs around it."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from adbc_driver_postgresql import dbapi
from class_archive import ARCHIVE, JAVA
from nats_server import NatsServer, nats_server
from postgres_server import postgres_server
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

Surroundings: TypeAlias = Callable[[Path], dict[str, str]]
"""The environment of a process that runs Spark and may leave things behind in a folder."""

_HERE = Path(__file__).parent

_LONGEST = (
    "pushdown/test_steps.py",
    "test_runner.py",
    "test_crashes.py",
    "test_table_crashes.py",
    "test_equality.py",
    "test_faults.py",
    "test_replicas_by_column.py",
    "planning/test_shards.py",
    "test_docstrings.py",
    "test_heartbeats.py",
    "shard/test_replicas_by_bounds.py",
)
"""Files that take longest, in order: begun first, so that no process is left alone with one of them at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first. Their tests stay in the order that they have."""
    ranks = {_HERE / file: rank for rank, file in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(scope="session")
def forked_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A program that Spark takes for Python, whose processes have imported everything when they start."""
    folder = tmp_path_factory.mktemp("python")
    program, address = folder / "python", folder / "server"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        command = [sys.executable, str(_HERE / "fork_server.py"), str(listening.fileno())]
        env = {**os.environ, "PYTHONHASHSEED": "0"}  # as Spark has it, and what a fork cannot change any more
        server = subprocess.Popen(command, pass_fds=[listening.fileno()], env=env)  # noqa: S603 - our own interpreter
    words = [sys.executable, "-SE", str(_HERE / "forked_python.py"), str(address)]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    yield program
    server.terminate()
    server.wait()


@pytest.fixture(scope="session")
def surroundings(forked_python: Path) -> Surroundings:
    """Workers are the Python of these tests, and whatever Java and Spark leave behind is left in a folder of theirs."""

    def of(folder: Path) -> dict[str, str]:
        java_folder = folder / "java"
        java_folder.mkdir(exist_ok=True)
        archived = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off" if ARCHIVE.exists() else ""
        return {
            "PYSPARK_PYTHON": str(forked_python),
            "SPARK_LOCAL_DIRS": str(java_folder),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={java_folder} -XX:-UsePerfData {JAVA}",
            "SPARK_SUBMIT_OPTS": archived,
        }

    return of


@pytest.fixture(scope="session")
def surroundings_of_killed(surroundings: Surroundings) -> Surroundings:
    """The same for processes that are killed with all that they have started: a real Python, whose forks are found."""
    warm = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(_HERE), os.environ.get("PYTHONPATH", "")]),
        "PYSPARK_SUBMIT_ARGS": "--conf spark.python.daemon.module=warm_daemon pyspark-shell",
    }
    return lambda folder: surroundings(folder) | warm


_INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
_FEW_PROCESSES = {
    # The other one, which Spark takes by itself, asks `readlink` four times about every file that it writes.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}


class _Sessions:
    """One classic session at a time; it is made anew only for a file that wants another master."""

    def __init__(self) -> None:
        self._now: tuple[str, SparkSession] | None = None

    def of(self, master: str) -> SparkSession:
        """A session with this master."""
        if self._now is None or self._now[0] != master:
            self.stop()
            builder = SparkSession.builder.master(master)
            # What Spark does by itself is next to nothing here, and a query is run once: to compile it takes longer.
            for name, value in (_INTERPRETED | _FEW_PROCESSES).items():
                builder = builder.config(name, value)
            builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
            self._now = master, builder.getOrCreate()
            self._now[1].sparkContext.setLogLevel("OFF")
        return self._now[1]

    def stop(self) -> None:
        """Stop the one there is."""
        if self._now is not None:
            self._now[1].stop()
        self._now = None


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory, surroundings: Surroundings) -> Iterator[_Sessions]:
    """Sessions for all files."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(tmp_path_factory.mktemp("spark")).items():
            patch.setenv(name, value)
        sessions = _Sessions()
        yield sessions
        sessions.stop()


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, sessions: _Sessions) -> Iterator[SparkSession]:
    """A classic session with two cores; a test file that names a MASTER has that one. Its settings are put back.

    Spark compiles expressions and queries only for files that say COMPILED: what they look at is Spark's own work.
    """
    session = sessions.of(getattr(request.module, "MASTER", "local[2]"))
    before = dict(session.conf.getAll)
    if getattr(request.module, "COMPILED", False):
        for name, value in _COMPILED.items():
            session.conf.set(name, value)
    yield session
    for query in session.streams.active:  # of a test that failed
        query.stop()
    after = dict(session.conf.getAll)
    for name in {name for name, _ in before.items() ^ after.items()}:
        if name in before:
            session.conf.set(name, before[name])
        else:
            session.conf.unset(name)


@pytest.fixture(scope="session")
def postgres_of_session() -> Iterator[str]:
    """The address of a server of these tests."""
    with postgres_server() as uri:
        yield uri


@pytest.fixture
def postgres(postgres_of_session: str, tmp_path: Path) -> str:
    """The address of a schema of its own, in which a test finds no other's tables."""
    schema = f"s{uuid.uuid5(uuid.NAMESPACE_URL, str(tmp_path)).hex}"
    with dbapi.connect(postgres_of_session) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {schema}")
        connection.commit()
    return f"{postgres_of_session}&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def nats_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A NATS server of these tests."""
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def nats(nats_of_session: NatsServer) -> Iterator[NatsServer]:
    """The same, without streams: those that a test makes are gone when it has ended."""
    yield nats_of_session
    nats_of_session.remove_streams()
