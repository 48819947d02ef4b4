"""Workers acknowledge what Java has sent before they wait for rows, or a small batch waits 40 ms for nothing."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer

import slackwater as sw
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.output.unpacking import _Unpack
from slackwater.runners.spark.runner import plan_of
from slackwater.runners.spark.shard.host import BatchHost, ShardHost
from slackwater.runners.spark.shard.unopened_host import unopened
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.wire.prompt_answers import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slackwater.runners.spark.planning.shard_plan import ShardPlan

_AT_ONCE = getattr(socket, "TCP_QUICKACK", None)
pytestmark = pytest.mark.skipif(_AT_ONCE is None, reason="only Linux has the option")


class _Connection:
    """Two ends of a TCP connection, of which one puts off to acknowledge what comes."""

    def __init__(self, listening: socket.socket) -> None:
        self.java = socket.create_connection(listening.getsockname())
        self.worker, _ = listening.accept()
        self.worker.setsockopt(socket.IPPROTO_TCP, _AT_ONCE or 0, 0)
        assert not self.at_once

    @property
    def at_once(self) -> bool:
        """Whether what comes is acknowledged at once."""
        return bool(self.worker.getsockopt(socket.IPPROTO_TCP, _AT_ONCE or 0))


@pytest.fixture
def connection() -> Iterator[_Connection]:
    """A connection of TCP, on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = _Connection(listening)
        with connection.java, connection.worker:
            yield connection


def _plan() -> ShardPlan:
    feed: Any = SparkFeed("frame", pa.schema({"at": pa.int64()}), live=True)
    return plan_of([sw.stream(feed, time="at").sort(patience=3, late=sw.Late.drop()).node], 1)


def _travelled(step: Any) -> Any:
    pickled: Any = CloudPickleSerializer
    return pickled().loads(pickled().dumps(step))


def _first_of(task: Any) -> None:
    next(iter(task(iter([]))), None)


def _pack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "_taskContext", SimpleNamespace(partitionId=lambda: 0))
    _first_of(packs_of(_plan())[0])


_TASKS: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "pack": _pack,
    "host": lambda _: _travelled(unopened(ShardHost(_plan()))),
    "host of a batch": lambda _: _first_of(BatchHost(_plan())),
    "unpack": lambda _: _first_of(_Unpack()),
}


@pytest.mark.parametrize("task", _TASKS)
def test_a_worker_that_waits_for_its_first_row_has_acknowledged_all_before(
    task: str, connection: _Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step in Python does so; the stateful one when it is read, for Spark calls it with rows only."""
    _TASKS[task](monkeypatch)
    assert connection.at_once


def test_other_files_and_sockets_are_left_as_they_are(connection: _Connection) -> None:
    """What is acknowledged can be used as before, and nothing is closed or left open."""
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        before = sorted(Path("/proc/self/fd").iterdir())
        answer_at_once()
        assert sorted(Path("/proc/self/fd").iterdir()) == before
        one.send(b"x")
        assert other.recv(1) == b"x"
    connection.java.send(b"y")
    assert connection.worker.recv(1) == b"y"


def test_connections_wait_as_before_where_new_ones_have_a_time_limit(connection: _Connection) -> None:
    """A module that somebody imports may have set one: the limit stays, and what is open goes on waiting."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(30)
    try:
        answer_at_once()
        assert socket.getdefaulttimeout() == 30
    finally:
        socket.setdefaulttimeout(before)
    assert os.get_blocking(connection.worker.fileno())
    assert connection.at_once


def test_where_nothing_can_be_acknowledged_nothing_is_done(
    connection: _Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other systems do not know the option."""
    monkeypatch.delattr(socket, "TCP_QUICKACK")
    answer_at_once()
    assert not connection.at_once
