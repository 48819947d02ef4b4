"""Settings that a query has for itself: taken where they are safe, and never over what the user chose."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import small_query

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.settings import checkpoint_settings
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

_WRITER = "spark.sql.streaming.checkpointFileManagerClass"
_LOCAL = Place.written("file:///checkpoint")


@pytest.fixture
def unset(session: SparkSession) -> Iterator[SparkSession]:
    """A session that leaves it to Spark who writes checkpoints."""
    before = session.conf.get(_WRITER)
    session.conf.unset(_WRITER)
    yield session
    session.conf.set(_WRITER, str(before))


def test_a_local_checkpoint_is_written_without_asking_processes(unset: SparkSession) -> None:
    """The writer is one that this Spark has."""
    (name,) = checkpoint_settings(unset, _LOCAL).values()
    java: Any = unset
    assert java._jvm.org.apache.spark.util.Utils.classForName(name, True, True).getName() == name


def test_who_writes_a_query_of_his_own_hears_of_it(unset: SparkSession, tmp_path: Path) -> None:
    """In explain(), and when a session is refused for what it lacks; where it is set, there is nothing to say."""
    rows = sw.stream(unset.readStream.schema("at long").parquet(str(tmp_path)), time="at").sort(5, late=sw.Late.drop())
    ((name, value),) = checkpoint_settings(unset, _LOCAL).items()
    call = f'session.conf.set("{name}", "{value}")'
    assert (
        f"settings   start() has its own; to_spark(), where the checkpoint is on a local disk: {call}" in rows.explain()
    )
    with pytest.raises(PlanError, match="needs other settings") as refused:
        rows.to_spark(shards=1)
    calls, _, reason = str(refused.value).partition("or say: ")[2].partition("  # ")
    assert calls.endswith(f"; {call}")
    assert "local disk" in reason
    exec(call, {"session": unset})  # noqa: S102 - that is what users do
    assert "settings   " not in rows.explain()


def test_what_the_user_chose_and_what_is_elsewhere_is_left_alone(session: SparkSession, unset: SparkSession) -> None:
    """On other file systems the two differ; over Connect there is no Java to ask."""
    assert checkpoint_settings(unset, Place.written("hdfs://names/checkpoint")) == {}
    connected: Any = SimpleNamespace(conf=session.conf)
    assert checkpoint_settings(connected, _LOCAL) == {}
    session.conf.set(_WRITER, "mine")
    assert checkpoint_settings(session, _LOCAL) == {}
    session.conf.unset(_WRITER)


def test_a_query_goes_on_from_a_checkpoint_whoever_wrote_it(unset: SparkSession, tmp_path: Path) -> None:
    """One that was begun by Spark's own writer, as all were once, and the other way round; nothing is left over."""
    own = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
    for number, writer in enumerate([own, None, own]):
        if writer is not None:
            unset.conf.set(_WRITER, writer)
        small_query.bring(tmp_path, [number])
        small_query.run(unset, tmp_path)
        assert unset.conf.get(_WRITER, None) == writer
        unset.conf.unset(_WRITER)
    assert small_query.numbers(tmp_path / "out") == small_query.expected(3)
    assert small_query.numbers(tmp_path / "late") == small_query.late(3)
    assert not [path for path in (tmp_path / "checkpoint").rglob("*.tmp") if path.is_file()]
