"""Settings of a Spark session that a query needs when it starts, and which it keeps for itself from then on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.runners.spark.storage.places import LOCAL
from slackwater.runners.spark.wire.chunks import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.spark.storage.places import Place

PARTITIONS: Final = "spark.sql.shuffle.partitions"
"""How many tasks Spark shuffles rows to; a stateful step has as many, in all lives of a query."""

_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_ARROW: Final = "spark.sql.execution.arrow"

_TELLS_ATTEMPTS_APART: Final = {
    f"{_STATE_STORE}.providerClass": _ROCKS_DB,
    f"{_STATE_STORE}.checkpointFormatVersion": "2",
}
"""What no query can do without.

A task may be done twice, on two machines. In the first version of its checkpoints Spark stores what one of them did and
may go on from what the other one has in memory; since the second it knows which of them was committed.
"""

_CHUNK_BYTES: Final = 2 << 20
"""What goes from Spark to Python at once, about a chunk.

Spark counts rows, and to it a chunk is one: without this it would gather all chunks of a task before Python gets one.
"""

_CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
"""Who writes the files of a checkpoint."""

_ITS_WRITERS: Final = "org.apache.spark.sql.execution.streaming"
_PLAIN_WRITER: Final = "FileSystemBasedCheckpointFileManager"

_one_at_a_time: Final = RLock()
"""Who changes the settings of a session puts them back before somebody else looks."""


def stream_settings(shards: int) -> dict[str, str]:
    """State in RocksDB, of which a micro-batch stores what changed; one partition for each shard; chunks one by one."""
    return {
        f"{_ARROW}.maxRecordsPerBatch": str(CHUNK_ROWS),
        f"{_ARROW}.maxBytesPerBatch": str(_CHUNK_BYTES),
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        **_TELLS_ATTEMPTS_APART,
        PARTITIONS: str(shards),
    }


def rescaling_settings(shards: int) -> dict[str, str]:
    """The same for a query of one micro-batch that reads segments from Parquet files: one by one, they are large."""
    return {**stream_settings(shards), "spark.sql.parquet.enableVectorizedReader": "false"}


def checkpoint_settings(session: SparkSession, checkpoint: Place) -> dict[str, str]:
    """Who writes the files of a checkpoint, where that is on a local disk, unless the session says so."""
    return settings_for_local_checkpoints(session) if checkpoint.scheme == LOCAL else {}


def settings_for_local_checkpoints(session: SparkSession) -> dict[str, str]:
    """Who writes the files of a checkpoint on a local disk best; nothing where the session says who does.

    The one that Spark takes by itself asks a process, `readlink`, about every file, several times: a tenth of a second
    for the state of each shard. The other one writes a file under another name and renames it, too, and both look first
    whether there is one. It has moved between versions of Spark, so Java is asked where it is.
    """
    java: Any = getattr(session, "_jvm", None)
    if java is None or session.conf.get(_CHECKPOINT_FILES, None) is not None:
        return {}
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    for name in (f"{_ITS_WRITERS}.checkpointing.{_PLAIN_WRITER}", f"{_ITS_WRITERS}.{_PLAIN_WRITER}"):
        if loader.getResource(f"{name.replace('.', '/')}.class") is not None:
            return {_CHECKPOINT_FILES: name}
    return {}


def require_settings(session: SparkSession, shards: int, most: int) -> None:
    """Refuse a session whose own queries could not keep the state of so many shards, or only at great cost.

    Spark asks a state store for every partition, though it is empty: with the 200 that a session has unless somebody
    set otherwise, a micro-batch takes ten times as long. One for each shard is best; a few more, as many as there would
    be if rows could be spread, are let pass: a query has in all its lives what it began with.
    """
    wrong = {name: value for name, value in _TELLS_ATTEMPTS_APART.items() if session.conf.get(name) != value}
    if int(str(session.conf.get(PARTITIONS))) > most:
        wrong[PARTITIONS] = str(shards)
    if wrong:
        facts = {name: f"is {session.conf.get(name)}, must be {value}" for name, value in wrong.items()}
        faster = settings_for_local_checkpoints(session)
        hint = f"use start(), which does it for its own query, or say: {calls_of({**wrong, **faster})}"
        hint += "  # the last makes it faster, where the checkpoint is on a local disk" if faster else ""
        raise PlanError(message("a streaming query of your own needs other settings of the session", facts, hint))


def calls_of(settings: Mapping[str, str]) -> str:
    """The calls that make settings, as users write them."""
    return "; ".join(f'session.conf.set("{name}", "{value}")' for name, value in settings.items())


@contextmanager
def settled(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what a query copies when it starts, and put the session back as it was. One thread at a time."""
    with _one_at_a_time, _changed(session, settings):
        yield


@contextmanager
def _changed(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before: dict[str, str | None] = {}
    try:
        for name, value in settings.items():
            earlier = session.conf.get(name, None)
            _set(session, name, value)
            before[name] = earlier
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, earlier)


@dataclass(frozen=True)
class WithPartitions:
    """Lets sinks work with the shuffle partitions of the user's session; those of the query are for its state."""

    write: Callable[[DataFrame, int], None]
    partitions: str

    def __call__(self, released: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch, for foreachBatch."""
        with _changed(released.sparkSession, {PARTITIONS: self.partitions}):  # which is the query's own
            self.write(released, batch_id)


def _set(session: SparkSession, name: str, value: str) -> None:
    try:
        session.conf.set(name, value)
    except Exception as error:
        facts, hint = {"setting": name, "needed": value}, "run it on a session that may be set up by its users"
        raise PlanError(message("this session does not take a setting that a query needs", facts, hint)) from error
