"""Each event once, in process, against Polars batch by batch: rows come twice, the second time up to a while later.

Polars has no step that goes from batch to batch. The rivals here keep the keys of the last while themselves, in three
ways: unique() and an anti-join of each batch with them, unique() and a filter by is_in, and, without unique(), one
search for first values over keys and batch together (is_first_distinct), the best that we found. Each leaves out old
keys only when there are twice as many as needed, which is faster than at every batch. They give rows in order of
arrival: they sort nothing, know no late rows, and take a batch for a moment. Figures say which they are ratios to:
over_unique to the better one of the two with unique(), over_best to the best of all.

Ours runs through the whole runner: "in order" reads rows that come in order of time; "out of order" reads rows of which
most come late, waits for them, and gives them in order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

import slackwater as sw
from measure import interleaved, least, medians, times_slower

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from measure import Report

ROWS = 4_000_000
"""Rows of a stream; half as many events."""

LATER = 20_000
"""How many rows later the second row of an event comes, at most."""

WITHIN = 2 * LATER
"""For so long, in times, which are as many as rows, an event may come again."""

SIZES = (4_096, 65_536)


def run(report: Report, *, quick: bool) -> None:
    """Time all on the same rows, with keys that are numbers and keys that are texts."""
    rows = ROWS // 4 if quick else ROWS
    lines: list[list[Any]] = []
    of_all: dict[str, list[float]] = {}
    for kind in ("numbers", "texts"):
        ordered, disordered = _tables(rows, kind)
        for size in SIZES:
            contenders: dict[str, Callable[[], int]] = {
                "in order": partial(_ours, sw.stream(ordered, time="at").assume_ordered(), {}, size),
                "out of order": partial(_ours, sw.stream(disordered, time="at"), {"patience": LATER}, size),
                **{name: partial(_theirs, ordered, rival, size) for name, rival in _RIVALS.items()},
            }
            for name, contender in contenders.items():
                assert contender() == rows // 2, name
            taken = interleaved(contenders, repeats=2 if quick else 5, warm_up=0)
            typical = medians(taken)
            best = min(_RIVALS, key=lambda name: typical[name])
            by_unique = min(_BY_UNIQUE, key=lambda name: typical[name])
            for ours, figure in (("in order", "deduplicate"), ("out of order", "deduplicate_out_of_order")):
                for rival, name in ((by_unique, "unique"), (best, "best")):
                    ratio = round(times_slower(taken[rival], taken[ours]), 2)
                    report.figures[f"{figure}_over_{name}_{kind}_{size}"] = ratio
                    of_all.setdefault(f"{figure}_over_{name}", []).append(ratio)
            lines.append([kind, f"{size:,}", *(1e9 * seconds / rows for seconds in typical.values()), best])
    report.figures |= {figure: least(ratios) for figure, ratios in of_all.items()}
    title = f"{rows:,} rows, each event twice, in batches: nanoseconds per row"
    report.table(title, ("keys", "rows per batch", *contenders, "best rival"), lines)


def _tables(rows: int, kind: str) -> tuple[pa.Table, pa.Table]:
    """The rows in order of time, and the same events with times that go back; both in order of arrival."""
    rng = np.random.default_rng(26)
    events = np.arange(rows // 2)
    arrived = np.concatenate([2 * events, 2 * events + rng.integers(1, LATER, len(events))])
    order = np.argsort(arrived, kind="stable")
    event = np.concatenate([events, events])[order]
    # Scattered, as the numbers of devices and frames are.
    scattered = (event.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.int64)
    keys = pa.array(scattered) if kind == "numbers" else pa.array([f"frame {one:+020}" for one in scattered.tolist()])
    others = {"key": keys, "value": event / 7, "gateway": rng.integers(0, 100, rows).astype(np.int32)}
    in_order = pa.table({"at": np.sort(arrived), **others})
    return in_order, pa.table({"at": 2 * event, **others})


def _ours(stream: Any, options: dict[str, int], size: int) -> int:
    """Run to the end; how many rows come out."""
    found = 0

    def count(rows: pa.RecordBatch) -> None:
        nonlocal found
        found += rows.num_rows

    once = stream.deduplicate("key", within=WITHIN, **options)
    query = once.open(count, on_late=_refuse, batch_rows=size) if options else once.open(count, batch_rows=size)
    query.work()
    query.close()
    return found


def _refuse(_: pa.RecordBatch) -> None:
    raise AssertionError("no row is late")


# ---- rivals ----------------------------------------------------------------------------------------------------------


def _theirs(table: pa.Table, rival: Callable[[Iterator[pl.DataFrame]], Iterator[pl.DataFrame]], size: int) -> int:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return sum(out.height for out in rival(frame.iter_slices(size)))


class _Kept:
    """The keys of the last while, with their times."""

    def __init__(self) -> None:
        self.keys: pl.DataFrame | None = None
        self._trimmed_to = 0

    def add(self, fresh: pl.DataFrame, newest: int) -> None:
        new = fresh.select("key", "at")
        self.keys = new if self.keys is None else pl.concat([self.keys, new])
        if self.keys.height > 2 * max(self._trimmed_to, WITHIN // 2):
            self.keys = self.keys.filter(pl.col("at") >= newest - WITHIN).rechunk()
            self._trimmed_to = self.keys.height


def _by_anti_join(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    kept = _Kept()
    for batch in batches:
        fresh = batch.unique("key", keep="first", maintain_order=True)
        if kept.keys is not None:
            fresh = fresh.join(kept.keys, on="key", how="anti")
        kept.add(fresh, int(batch.item(-1, "at")))
        yield fresh


def _by_is_in(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    kept = _Kept()
    for batch in batches:
        fresh = batch.unique("key", keep="first", maintain_order=True)
        if kept.keys is not None:
            fresh = fresh.filter(~pl.col("key").is_in(kept.keys["key"].implode()))
        kept.add(fresh, int(batch.item(-1, "at")))
        yield fresh


def _by_first_distinct(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    kept = _Kept()
    for batch in batches:
        before = batch.clear().select("key") if kept.keys is None else kept.keys.select("key")
        both = pl.concat([before, batch.select("key")], rechunk=False)
        fresh = batch.filter(both.select(pl.col("key").is_first_distinct()).to_series().slice(before.height))
        kept.add(fresh, int(batch.item(-1, "at")))
        yield fresh


_RIVALS: dict[str, Callable[[Iterator[pl.DataFrame]], Iterator[pl.DataFrame]]] = {
    "unique, anti-join": _by_anti_join,
    "unique, is_in": _by_is_in,
    "first distinct": _by_first_distinct,
}
_BY_UNIQUE = ("unique, anti-join", "unique, is_in")
