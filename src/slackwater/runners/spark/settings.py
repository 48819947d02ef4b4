"""Settings of a Spark session that a query needs when it starts, and which it keeps for itself from then on."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message
from slackwater.runners.spark.packing import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_ARROW: Final = "spark.sql.execution.arrow"

_CHUNK_BYTES: Final = 2 << 20
"""What goes from Spark to Python at once, about a chunk.

Spark counts rows, and to it a chunk is one: without this it would gather all chunks of a task before Python gets one.
"""


def stream_settings(shards: int) -> dict[str, str]:
    """State in RocksDB, of which a micro-batch stores what changed; one partition for each shard; chunks one by one."""
    return {
        f"{_ARROW}.maxRecordsPerBatch": str(CHUNK_ROWS),
        f"{_ARROW}.maxBytesPerBatch": str(_CHUNK_BYTES),
        f"{_STATE_STORE}.providerClass": _ROCKS_DB,
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.shuffle.partitions": str(shards),
    }


def default_shards(session: SparkSession) -> int:
    """As many shards as a local session has cores; elsewhere as many as its shuffles have partitions."""
    master = re.fullmatch(r"local\[(\d+)[\],].*|local\[(\d+)\]", str(session.conf.get("spark.master", "")))
    if master is not None:
        return int(master[1] or master[2])
    return int(str(session.conf.get("spark.sql.shuffle.partitions", "1")))


def require_rocks_db(session: SparkSession) -> None:
    """Refuse a session whose own queries could not keep the state of shards."""
    name = f"{_STATE_STORE}.providerClass"
    found = str(session.conf.get(name, ""))
    if found != _ROCKS_DB:
        hint = f"session.conf.set({name!r}, {_ROCKS_DB!r}), or use start(), which does it for its own query"
        raise PlanError(message("a streaming query of your own keeps its state in RocksDB", {"got": found}, hint))


@contextmanager
def settled(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what a query copies when it starts, and put the session back as it was."""
    before: dict[str, str | None] = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)
