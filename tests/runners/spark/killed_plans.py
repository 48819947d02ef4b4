"""Ten plans for tests in which Spark is killed: their steps, their rows, and which sources and sinks they have.

All sources and sinks are met, and what plans keep for later: rows, sums, keys, how far each origin has come.
To add one is to add a line to PLANS, and a function to `killed_rows.py` if none there makes its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from killed_rows import any_rows, come_and_gone, of_origins, sent_again, sent_by_two, silent_after_a_while, tables_of

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from killed_rows import RowsOf

Streams: TypeAlias = "list[sw.DisorderedStream]"
_BATCH = sw.Every.batch()


@dataclass(frozen=True)
class Plan:
    """A plan; where its rows come from, and where they go.

    Sources are `frames`, `files`, `delta` and `jetstream`; sinks `folder`, `tasks` (a folder that Spark's tasks write),
    `delta`, `postgres` and `function`.
    """

    planned: Callable[[Streams], Sequence[Any]]
    sources: tuple[str, ...]
    main: str
    late: str
    left_out: str | None = None
    rows: RowsOf = any_rows
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the columns of a stream."""

    options: Mapping[str, Any] = field(default_factory=dict)
    """What else the query is started with."""

    by_shards: bool = False
    """Whether they differ from one process: of replicas that contradict each other each shard has one that leads."""

    @property
    def timed(self) -> bool:
        """Whether timers have a say."""
        return "timeout" in self.options

    @property
    def flushed(self) -> bool:
        """Whether it gives out in the end what it holds."""
        return "at_end" in self.options

    @property
    def outputs(self) -> dict[str, str]:
        """Its outputs by their places, each with the kind of its sink: there are late ones for each source."""
        late = {f"late {number}": self.late for number in range(len(self.sources))}
        return {"main": self.main, **late, **({} if self.left_out is None else {"left out": self.left_out})}

    def tables(self, seed: str, files: int) -> list[list[pa.Table]]:
        """The rows of each source, by micro-batch."""
        return tables_of(self.rows, seed, len(self.sources), files)


# ---- plans -----------------------------------------------------------------------------------------------------------


def _sort(streams: Streams) -> Sequence[Any]:
    return [streams[0].select("n", "word").sort(40, every=_BATCH)]


def _bands(streams: Streams) -> Sequence[Any]:
    """Rows that cannot be late are summed up where they are read."""
    per_word = streams[0].select("n", "word").tumbling(50).group_by("word")
    return list(per_word.in_bands(10, 40, 90, every=_BATCH, n=sw.count(), sum=sw.sum("n")))


def _join(streams: Streams) -> Sequence[Any]:
    left, right = (stream.select("n", "word").sort(40, every=_BATCH) for stream in streams)
    return [left.select("word", left="n").join(right.select("word", right="n"), on="word", within=3)]


def _replicas(streams: Streams) -> Sequence[Any]:
    replicas = (stream.select("n", "word").sort(60, every=_BATCH) for stream in streams)
    return [sw.merge_replicas(*replicas, left_out=sw.LeftOutRows.divert())]


def _by_column(streams: Streams) -> Sequence[Any]:
    rows = streams[0].select("n", replica="word")
    return [rows.merge_replicas("replica", 45, every=_BATCH, left_out=sw.LeftOutRows.divert())]


def _deduplicate(streams: Streams) -> Sequence[Any]:
    return [streams[0].select("n", "word").deduplicate("n", within=30, patience=40, every=_BATCH)]


def _timed(streams: Streams) -> Sequence[Any]:
    return [sw.union(*(stream.select("n", "word").sort(30, every=_BATCH) for stream in streams))]


def _early(streams: Streams) -> Sequence[Any]:
    per_word = streams[0].select("n", "word").tumbling(50).group_by("word")
    return [per_word.aggregate_early(40, every=_BATCH, n=sw.count(), sum=sw.sum("n"))]


def _by_origin(streams: Streams) -> Sequence[Any]:
    rows = streams[0].select("n", "word", "landed")
    return [rows.sort_within_origins(bounds=sw.Bounds.disorder(20) & sw.Bounds.delay(30))]


def _spilling(streams: Streams) -> Sequence[Any]:
    return [streams[0].select("n", "word").sort(100, every=_BATCH)]


_FLUSH = {"at_end": "flush"}

PLANS = {
    "sort": Plan(_sort, ("frames",), main="tasks", late="delta"),
    "bands": Plan(_bands, ("files",), main="delta", late="postgres"),
    "join": Plan(_join, ("frames", "delta"), main="postgres", late="folder", options=_FLUSH),
    "replicas": Plan(
        _replicas, ("jetstream", "files"), "function", "folder", "postgres", sent_by_two, options=_FLUSH, by_shards=True
    ),
    "by_column": Plan(_by_column, ("delta",), "folder", "function", "delta", come_and_gone),
    "deduplicate": Plan(_deduplicate, ("jetstream",), main="delta", late="tasks", rows=sent_again),
    "timeout": Plan(
        _timed, ("frames", "files"), "folder", "tasks", rows=silent_after_a_while, options={"timeout": "1500ms"}
    ),
    "early": Plan(_early, ("files",), main="postgres", late="function"),
    "by_origin": Plan(
        _by_origin, ("frames",), "function", "postgres", rows=of_origins,
        columns={"origin": "word", "arrived": "landed"},
    ),
    "spilling": Plan(_spilling, ("files",), main="delta", late="function", options={"memory": 1, **_FLUSH}),
}  # fmt: skip
"""The plans by their names. One that control records steer has its place here, too."""
