"""What aggregates over windows cost: without the sort that was written, and by panes where windows overlap.

Each pipeline is run as planned and as it was written: with the sort, and with events copied to each of their windows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import disordered
import slackwater as sw
from as_written import as_written
from measure import interleaved, medians

if TYPE_CHECKING:
    from measure import Report

_SECOND = 1_000_000


def run(report: Report, *, quick: bool) -> None:
    """Compare both ways on a stream whose events are up to two seconds late."""
    events = 50_000 if quick else 500_000
    rows: list[list[Any]] = []
    for per_second in (1_000, 100, 10):
        rng = np.random.default_rng(1)
        times = np.arange(events) * _SECOND // per_second - rng.integers(0, 2 * _SECOND, events)
        payload = disordered.payload(events, groups=10)
        stream = sw.stream(pa.table({"at": pa.array(times, pa.timestamp("us")), **payload}), time="at").sort("3s")
        for name, windows, rewrite in (
            ("tumbling 60s, no sort", stream.tumbling("60s"), "without_needless_sorts"),
            ("hopping 60s every 1s, panes", stream.hopping("60s", "1s"), "in_panes"),
        ):
            query = windows.aggregate(n=sw.count(), most=sw.max("a"))
            written = partial(as_written, rewrite, query.run)
            assert query.run().table.equals(written().table), name
            taken = medians(interleaved({"planned": query.run, "written": written}, 3))
            ours, theirs = (1e6 * taken[way] / events for way in ("planned", "written"))
            rows.append([name, per_second, ours, theirs, theirs / ours])
    report.table(
        f"aggregates over windows, {events:,} events, us per event: as planned, as written; times as fast",
        ("windows", "events per second", "planned", "written", "x"),
        rows,
    )
    report.figures["no_sort_before_aggregate_min_speedup"] = round(min(row[-1] for row in rows[::2]), 2)
    report.figures["hopping_panes_speedup_1000_per_second"] = round(rows[1][-1], 2)
    report.figures["hopping_panes_us_per_event_1000_per_second"] = round(rows[1][2], 3)
