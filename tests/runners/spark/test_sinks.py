"""Who takes which outputs: a sink that is named for several takes them together, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.metrics import METRICS
from slackwater.runners.spark.sinks import FolderSink, Taker, as_sink, takers_of

_COUNTS = StructType([StructField("at", LongType()), StructField("n", LongType())])
_WORDS = StructType([StructField("at", LongType()), StructField("n", StringType())])


def _nothing(rows: Any, batch_id: int) -> None:
    """Take rows."""


def test_equal_sinks_are_one() -> None:
    """Two paths that are the same, or the same function twice: what a micro-batch has for it is written at once."""
    columns = {"main": _COUNTS, "main#2": _COUNTS, "main#3": _COUNTS, "late": _WORDS}
    sinks = {"main": as_sink("a"), "late": as_sink(_nothing), "main#2": as_sink("a"), "main#3": as_sink("b")}
    assert takers_of(sinks, columns) == [
        Taker(FolderSink("a"), ("main", "main#2"), _COUNTS),
        Taker(as_sink(_nothing), ("late",), _WORDS),
        Taker(FolderSink("b"), ("main#3",), _COUNTS),
    ]


class _Kept(list[Any]):
    """Keeps rows; two that are empty are equal."""

    def __call__(self, rows: Any, batch_id: int) -> None:
        """Keep rows."""
        self.append((rows, batch_id))


class _KeptToo(list[Any]):
    """The same as a sink."""

    def write(self, rows: Any, batch_id: int) -> None:
        """Keep rows."""
        self.append((rows, batch_id))


@pytest.mark.parametrize("kind", [_Kept, _KeptToo])
def test_what_users_made_is_only_itself(kind: type[Any]) -> None:
    """Two objects that are equal now may differ as soon as one has got rows."""
    columns, first, second = {"main": _COUNTS, "main#2": _COUNTS, "main#3": _COUNTS}, kind(), kind()
    assert first == second
    takers = takers_of(
        {name: as_sink(sink) for name, sink in zip(columns, (first, second, first), strict=True)}, columns
    )
    assert [taker.outputs for taker in takers] == [("main", "main#3"), ("main#2",)]


@pytest.mark.parametrize("other", ["late", METRICS])
def test_one_sink_for_different_columns_is_refused(other: str) -> None:
    """The second would replace what the first had written under the number of the same micro-batch."""
    sinks = {"main": as_sink("a"), other: as_sink("a")}
    with pytest.raises(PlanError, match=rf"(?s)different columns.*'a'.*main +at, n.*{other} .*a sink of its own"):
        takers_of(sinks, {"main": _COUNTS, "late": _WORDS})


def test_each_band_has_a_sink_or_all_have_one() -> None:
    """Refused before Spark is asked for anything."""
    bands = sw.stream([{"at": 1}], time="at").tumbling(10).in_bands(5, 20, n=sw.count())
    with pytest.raises(PlanError, match=r"(?s)each stream needs a sink.*streams +2.*sinks +1"):
        bands.start(checkpoint="nowhere", main=["one"])
