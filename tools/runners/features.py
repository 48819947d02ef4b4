"""Every feature, as a small stream that has it: what the runners are asked about.

A plan node that none of these streams has fails a test, so that a new step comes here on its first day.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import narwhals as nw
import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

    Make: TypeAlias = Callable[[Any, Any], Any]
    """Makes a stream, or several, of two sources of rows."""

ROWS: Final = pa.schema({
    "at": pa.timestamp("us", "UTC"), "k": pa.string(), "n": pa.int64(), "who": pa.string(), "gone": pa.bool_(),
    "came": pa.timestamp("us", "UTC"),
})  # fmt: skip
"""The columns of rows."""

LOG: Final = pa.schema({
    "change": pa.string(), "at": pa.timestamp("us", "UTC"), "until": pa.timestamp("us", "UTC"),
    "until_before": pa.timestamp("us", "UTC"), "k": pa.string(), "n": pa.int64(),
})  # fmt: skip
"""The columns of a log of changes."""

_DROP = sw.Late.drop()


def _stream(source: Any, **options: Any) -> sw.DisorderedStream:
    return sw.stream(source, time="at", **options)


def _sorted(source: Any, **options: Any) -> sw.OrderedStream:
    return _stream(source).sort("5s", late=_DROP, **options)


def _by_who(source: Any) -> sw.DisorderedStream:
    return _stream(source, origin="who")


def _related(first: Any, second: Any) -> sw.OrderedStream:
    one, other = (_stream(source, name=name, arrived="came") for name, source in (("one", first), ("other", second)))
    one, other = sw.related(one, other, bounds=sw.Bounds.in_order() & sw.Bounds.uniform("5s"), late=_DROP)
    return sw.union(one.sort(), other.sort())


def _windows(source: Any) -> Any:
    return _stream(source).tumbling("1m").sort("5s", late=_DROP).group_by("k")


def _early(source: Any) -> sw.RevisedStream:
    return _stream(source).tumbling("1m").group_by("k").aggregate_early("5s", late=_DROP, n=sw.count())


def _changes(source: Any, **options: Any) -> sw.RevisedStream:
    return sw.changes(source, time="at", until="until", **options)


def _unchanged(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["k", "n"])


def _first_row(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["k", "n"]).slice(0, 1)


OF_ROWS: Final[dict[str, Make]] = {
    "sort(patience=...)": lambda a, _: _sorted(a),
    "late rows in an output of their own": lambda a, _: _stream(a).sort("5s"),
    "late rows moved, late=Late.adjust()": lambda a, _: _stream(a).sort("5s", late=sw.Late.adjust()),
    "rows without a time, untimed_is_late=True": lambda a, _: _stream(a, untimed_is_late=True).sort("5s", late=_DROP),
    "a cadence in rows, every=Every.rows(n)": lambda a, _: _sorted(a, every=sw.Every.rows(10)),
    "sort() without a patience": lambda a, _: _stream(a).sort(),
    "assume_ordered()": lambda a, _: _stream(a).assume_ordered(),
    "punctuations of a source by the clock": lambda a, _: _stream(
        a, punctuations=sw.Punctuations.on_demand(skew="2s"), late=_DROP
    ).sort(),
    "sort(bounds=...)": lambda a, _: _by_who(a).sort(bounds=sw.Bounds.sensors("2s"), late=_DROP),
    "bounds that are learnt": lambda a, _: _stream(a).sort("5s", bounds=sw.Bounds.estimated(loss=0.01), late=_DROP),
    "rows ahead of all others, ahead= without arrived=": lambda a, _: sw.stream(a, time="n").sort(
        bounds=sw.Bounds.disorder(2), ahead=9, late=_DROP
    ),
    "sort_within_origins(bounds=...)": lambda a, _: _by_who(a).sort_within_origins(
        bounds=sw.Bounds.in_order(), late=_DROP
    ),
    "aggregates by origin": lambda a, _: (
        _by_who(a)
        .tumbling("1m")
        .sort_within_origins(bounds=sw.Bounds.in_order(), late=_DROP)
        .group_by("who")
        .aggregate(n=sw.count())
    ),
    "bands by origin": lambda a, _: (
        _by_who(a)
        .tumbling("1m")
        .sort_within_origins(bounds=sw.Bounds.in_order(), late=_DROP)
        .group_by("who")
        .in_bands("10s", "1m", n=sw.count())
    ),
    "where, select": lambda a, _: _stream(a).where(nw.col("n") > 0).select("k").sort("5s", late=_DROP),
    "map_batches": lambda a, _: _stream(a).map_batches(_unchanged).sort("5s", late=_DROP),
    "windows and aggregates": lambda a, _: _windows(a).aggregate(n=sw.count(), mean=sw.mean("n")),
    "aggregates without a key": lambda a, _: _stream(a).tumbling("1m").sort("5s", late=_DROP).aggregate(n=sw.count()),
    "sliding windows": lambda a, _: _sorted(a).sliding("1m").group_by("k").aggregate(n=sw.count()),
    "top_rows": lambda a, _: _stream(a).tumbling("1m").sort("5s", late=_DROP).top_rows(3, by="n"),
    "map_windows": lambda a, _: _stream(a).tumbling("1m").sort("5s", late=_DROP).map_windows(_first_row),
    "in_bands, of aggregates": lambda a, _: (
        _stream(a).tumbling("1m").group_by("k").in_bands("10s", "1m", late=_DROP, n=sw.count())
    ),
    "in_bands, of rows": lambda a, _: _stream(a).in_bands("10s", "1m", late=_DROP),
    "aggregate_early": lambda a, _: _early(a),
    "union": lambda a, b: sw.union(_sorted(a), _sorted(b)),
    "related(bounds=...)": _related,
    "join": lambda a, b: _sorted(a).select("k", "n").join(_sorted(b).select("k", "who"), on="k", within="5s"),
    "followed_by": lambda a, b: (
        _sorted(a).select("k", "n").followed_by(_sorted(b).select("k", "who"), on="k", within="5s")
    ),
    "deduplicate": lambda a, _: _stream(a).deduplicate("k", within="1h", patience="5s", late=_DROP),
    "upserts": lambda a, _: sw.upserts(a, time="at", key="k", deleted="gone", patience="5s", late=_DROP),
    "upserts, settled": lambda a, _: sw.upserts(a, time="at", key="k", patience="5s", late=_DROP).settle(),
    "release(Release.by_query())": lambda a, b: sw.union(_sorted(a), _sorted(b)).release(sw.Release.by_query()),
    "release(Release.by_memory()), measured": lambda a, b: (
        _sorted(a).select("k").join(_sorted(b).select("k"), on="k", within="5s").release(sw.Release.by_memory())
    ),
    "merge_replicas": lambda a, b: sw.merge_replicas(_sorted(a), _sorted(b)),
    "an agreement, of rows that are revised": lambda a, b: sw.merge_replicas(
        _early(a), _early(b), agreement=sw.Agreement.quorum_of(1.0)
    ),
    "fast_availability": lambda a, b: sw.fast_availability(_sorted(a), _sorted(b)),
    "replicas that come and go, attachable=True": lambda a, b: sw.high_availability(
        _sorted(a), _sorted(b), attachable=True
    ),
    "replicas on standby": lambda a, b: _with_standby(_sorted(a), _sorted(b)),
    "jumpstart": lambda a, b: sw.jumpstart(_sorted(a), _sorted(b), since=datetime(2026, 11, 16, tzinfo=UTC)),
    "merge_replicas(by=...)": lambda a, _: _stream(a).merge_replicas(by="who", patience="5s", late=_DROP),
    "merge_replicas(by=..., bounds=...)": lambda a, _: _stream(a).merge_replicas(
        by="who", patience="5s", late=_DROP, bounds=sw.Bounds.disorder("1s")
    ),
    "compare_replicas": lambda a, b: sw.compare_replicas(_sorted(a), _sorted(b)),
    "assume_keyed": lambda a, _: _sorted(a).assume_keyed(),
    "arrivals()": lambda a, _: sw.arrivals(a),
    "unstamped()": lambda a, b: sw.unstamped(a).union(sw.unstamped(b)).tumbling("1m").aggregate(n=sw.count()),
}
"""By what they are called in the table; of sources of ROWS."""

OF_CHANGES: Final[dict[str, Make]] = {
    "changes()": lambda a, _: _changes(a),
    "changes(), chosen": lambda a, _: _changes(a).where(nw.col("n") > 0).select("k"),
    "changes(late=...)": lambda a, _: _changes(a, late=_DROP),
    "changes(keyed=True)": lambda a, _: _changes(a, keyed=True),
    "changes(), settled": lambda a, _: _changes(a).settle(),
    "replicas of logs of changes": lambda a, b: sw.merge_replicas(_changes(a), _changes(b)),
}
"""The same, of logs of changes."""


def _with_standby(active: sw.OrderedStream, waiting: sw.OrderedStream) -> Any:
    return sw.merge_replicas(active, waiting, standby=[waiting])
