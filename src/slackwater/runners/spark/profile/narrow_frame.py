"""A DataFrame as a profile looks at it: four numbers for each row, which Spark keeps, so that the frame is read once.

    frame ─ at, came, who, a hash of the rest ─ kept ─┬─ facts, sources, copies, the first rows: Spark's aggregates
                                                      └─ slices of arrival ─ cogroup with what came before ─ summaries

Only DataFrames are used, so that it is the same over Spark Connect.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, TimestampType
from pyspark.sql.window import Window

from slackwater.errors import RunError, message
from slackwater.runners.spark.pushdown.expressions import column_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from slackwater.runners.spark.source import SparkFeed

    Looked = Callable[[int, pa.Table, pa.Table], list[bytes]]
    """Looks at the rows of a slice, by its number, and at what came before from each of its sources."""

_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_MARKS: Final = 1_000
"""Slices end at some of so many quantiles of the arrivals."""

_ACCURACY: Final = 10_000
"""Spark's quantiles are off by one in so many rows, at most."""

_MICROS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class NarrowFrame:
    """Rows as `at long, came long, who string, contents long`; untimed ones have no `at`."""

    rows: DataFrame

    @classmethod
    @contextmanager
    def kept(
        cls, feed: SparkFeed, time: str, arrived: str, origin: str | None, epoch: str | None, *, contents: bool
    ) -> Iterator[NarrowFrame]:
        """Have Spark keep the rows of a frame, from the first look to the last."""
        assert feed.frame is not None
        frame = feed.frame
        others = [(column_of(one.name), one.dataType) for one in frame.schema if one.name not in {arrived, origin}]
        who = sf.lit(None) if origin is None else column_of(origin)
        with _naming():
            narrow = frame.select(
                _number(frame, time, epoch).alias("at"),
                _number(frame, arrived, epoch).alias("came"),
                who.cast("string").alias("who"),
                (_hash(others) if contents else sf.lit(None).cast("long")).alias("contents"),
            ).persist()
            try:
                yield cls(narrow)
            finally:
                narrow.unpersist()

    def facts(self) -> dict[str, Any]:
        """How many rows there are, how far they reach, and marks by which slices of arrival can be cut."""
        delay, timed = _delay(), sf.col("at").isNotNull()
        marks = sf.array(*(sf.lit(number / _MARKS) for number in range(1, _MARKS)))
        found = self.rows.agg(
            sf.count("*").alias("rows"),
            sf.count("at").alias("timed"),
            sf.count_if(sf.col("came").isNull()).alias("unknown"),
            sf.min("at").alias("oldest"),
            sf.max("at").alias("newest"),
            sf.min("came").alias("first"),
            sf.max("came").alias("last"),
            sf.count_if(timed & (delay < 0)).alias("ahead"),
            sf.min(sf.when(timed, delay)).alias("least_delay"),
            sf.percentile_approx(sf.when(timed, sf.col("came")), marks, _ACCURACY).alias("marks"),
        )
        return found.collect()[0].asDict()

    def sources(self) -> pa.Table:
        """Of each source, how many rows it has, and for how long half of them were under way."""
        found = (
            self._timed()
            .groupBy("who")
            .agg(
                sf.count("*").alias("rows"),
                sf.min(_delay()).alias("least"),
                sf.percentile_approx(_delay(), 0.5, _ACCURACY).alias("median"),
            )
        )
        return found.toArrow().sort_by([("rows", "descending"), ("who", "ascending")])

    def first(self, rows: int, without: Sequence[str | None]) -> pa.Table:
        """The rows that came first, in order; those of some sources left out."""
        chosen = self._timed().where(~_is_one_of("who", without))
        return chosen.orderBy("came", "at", "who").limit(rows).select("at", "came", "who").toArrow()

    def slices(self, ends: Sequence[int]) -> Slices:
        """The rows in slices, each of which ends with one of these arrivals, but for the last."""
        cut = (
            self._timed()
            .select("at", "came", "who")
            .mapInArrow(_Cut(tuple(ends)), "slice int, at long, came long, who string")
        )
        return Slices(cut)

    def copies(self) -> dict[str, Any]:
        """How many rows repeat another, after how long at most, and how many of each source another one sent, too."""
        of_source = (
            self._timed()
            .groupBy("contents", "who")
            .agg(sf.count("*").alias("rows"), sf.min("came").alias("first"), sf.max("came").alias("last"))
        )
        same = (
            of_source.groupBy("contents")
            .agg(
                sf.sum("rows").alias("rows"),
                sf.count("*").alias("sources"),
                sf.min("first").alias("first"),
                sf.max("last").alias("last"),
                sf.collect_list(sf.struct("who", "rows")).alias("of"),
            )
            .where("rows > 1")
            .persist()
        )
        try:
            total = (
                same.agg(
                    sf.coalesce(sf.sum(sf.col("rows") - 1), sf.lit(0)).alias("repeats"),
                    sf.max(sf.col("last") - sf.col("first")).alias("longest"),
                )
                .collect()[0]
                .asDict()
            )
            shared = same.where("sources > 1").select(sf.explode("of").alias("one")).select("one.*")
            return total | {"shared": shared.groupBy("who").agg(sf.sum("rows").alias("rows")).toArrow()}
        finally:
            same.unpersist()

    def _timed(self) -> DataFrame:
        return self.rows.where(sf.col("at").isNotNull())


@dataclass(frozen=True)
class Slices:
    """Rows with the number of their slice: `slice int, at long, came long, who string`."""

    rows: DataFrame

    def facts(self, wrong: Sequence[str | None]) -> list[dict[str, Any]]:
        """Of each slice that has rows, in order: how many, and how far they reach; the same without some sources."""
        sound = ~_is_one_of("who", wrong)
        found = self.rows.groupBy("slice").agg(
            sf.max("at").alias("newest"),
            sf.count_if(sound).alias("sound_rows"),
            sf.max(sf.when(sound, sf.col("at"))).alias("newest_sound"),
            sf.min(sf.when(sound, sf.col("came"))).alias("first_sound"),
        )
        return sorted((one.asDict() for one in found.collect()), key=lambda one: one["slice"])

    def newest_of(self, sources: Sequence[str | None]) -> pa.Table:
        """The newest time of some sources in each slice."""
        chosen = self.rows.where(_is_one_of("who", sources)).groupBy("slice", "who")
        return chosen.agg(sf.max("at").alias("newest")).toArrow()

    def summaries(self, look: Looked, tables: int) -> list[list[bytes]]:
        """What a look at each slice finds."""
        # What came from each source before: the greatest of its earlier slices.
        earlier = Window.partitionBy("who").orderBy("slice").rowsBetween(Window.unboundedPreceding, -1)
        of_source = self.rows.groupBy("slice", "who").agg(sf.max("at").alias("newest"), sf.max("came").alias("last"))
        before = of_source.select(
            "slice", "who", sf.max("newest").over(earlier).alias("newest"), sf.max("last").over(earlier).alias("last")
        ).where("newest IS NOT NULL")
        names = [f"table_{number}" for number in range(tables)]
        together = self.rows.groupBy("slice").cogroup(before.groupBy("slice"))
        found = together.applyInArrow(
            _rows_of(look, tuple(names)), ", ".join(f"{name} binary" for name in names)
        ).collect()
        return [[bytes(one[name]) for name in names] for one in found]


@dataclass(frozen=True)
class _Cut:
    """Numbers slices."""

    ends: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            number = np.searchsorted(np.array(self.ends, dtype=np.int64), batch["came"].to_numpy(), side="left")
            yield batch.add_column(0, "slice", pa.array(number.astype(np.int32)))


def _rows_of(look: Looked, names: tuple[str, ...]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """What looks at a slice, as Spark calls it, and makes a row of what it finds.

    It is a function, as Spark counts the arguments of what it is given, and self would be one.
    """

    def looked(rows: pa.Table, before: pa.Table) -> pa.Table:
        found = look(rows["slice"][0].as_py(), rows.drop(["slice"]), before.drop(["slice"]))
        return pa.table({name: pa.array([one], pa.binary()) for name, one in zip(names, found, strict=True)})

    return looked


def _number(frame: DataFrame, name: str, epoch: str | None) -> Column:
    """Times as microseconds since 1970, or as the whole numbers that they are."""
    column, kind = column_of(name), frame.schema[name].dataType
    if isinstance(kind, TimestampType):
        return sf.unix_micros(column)
    if isinstance(kind, TimestampNTZType):
        return _micros_as_they_stand(column)
    column = column.cast("long")
    return (
        sf.call_function("div", column, sf.lit(1_000))
        if epoch == "ns"
        else column * sf.lit(_MICROS.get(epoch or "us", 1)).cast("long")
    )


def _micros_as_they_stand(column: Column) -> Column:
    """Times without a zone as microseconds since 1970, as if they were UTC.

    Spark's own differences of such times go by the zone of the session, in which an hour may be missing.
    """
    minutes = (sf.unix_date(column.cast("date")).cast("long") * 24 + sf.hour(column)) * 60 + sf.minute(column)
    seconds = sf.date_part(sf.lit("SECOND"), column)  # a decimal number, with microseconds
    return minutes * 60_000_000 + (seconds * 1_000_000).cast("long")


def _delay() -> Column:
    """How long a row was under way; where no number of 64 bits says it, the least or the greatest."""
    at, came = sf.col("at"), sf.col("came")
    return sf.coalesce(sf.try_subtract(came, at), sf.when(came < at, sf.lit(_LEAST)).otherwise(sf.lit(_MOST)))


def _hash(columns: Sequence[tuple[Column, DataType]]) -> Column:
    """A hash of what stands in columns. Spark's own passes over null: whether there is one is hashed, too."""
    plain = [
        sf.to_json(sf.struct(column)) if isinstance(kind, StructType | ArrayType | MapType) else column
        for column, kind in columns
    ]
    return sf.xxhash64(*(part for column in plain for part in (column, column.isNull())))


def _is_one_of(name: str, values: Sequence[str | None]) -> Column:
    column = sf.col(name)
    known = column.isin([value for value in values if value is not None])
    return sf.coalesce(known, sf.lit(None in values))


@contextmanager
def _naming() -> Iterator[None]:
    """Say in one sentence that Spark could not read the rows, or that times do not fit."""
    try:
        yield
    except PySparkException as cause:
        facts = {"Spark says": str(cause).strip().partition("\n")[0]}
        raise RunError(message("Spark could not go through the rows of a profile", facts)) from cause
