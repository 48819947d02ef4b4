"""Examples in docstrings that need Spark run and print what they say."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest
from docstring_examples import on_spark

if TYPE_CHECKING:
    from pathlib import Path

    from nats_server import NatsServer
    from pyspark.sql import SparkSession

_EXAMPLES = on_spark()


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda example: example.name)
def test_an_example_prints_what_it_says(
    session: SparkSession, postgres: str, nats: NatsServer, tmp_path: Path, example: doctest.DocTest
) -> None:
    """With a session that is called `spark`, a folder of its own, a PostgreSQL, and a NATS server with a stream."""
    if "jetstream" in example.name:
        nats.add_stream("READINGS", "readings.>")
        nats.publish_all([("readings.ebb", b'{"at": 7}'), ("readings.flood", b'{"at": 5}')])
    example.globs |= {"spark": session, "folder": str(tmp_path), "postgres": postgres, "nats": nats.url}
    assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0


def test_what_is_started_on_spark_has_an_example() -> None:
    """A test of nothing would pass too."""
    names = {example.name.rpartition(".")[2] for example in _EXAMPLES}
    on_streams = {"delta_table", "jetstream", "parquet_files", "start", "start_together", "to_spark"}
    sinks = {"DeltaSink", "FolderSink", "PostgresSink"}
    assert names == sinks | {
        "QueryListener",
        "SparkQuery",
        "control",
        "prometheus",
        "tasks_allowed",
        "why",
        *on_streams,
    }
