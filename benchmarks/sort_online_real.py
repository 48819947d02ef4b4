"""The sort's kernel while whole short real streams flow, from the first event to the end, a punctuation every 1,000."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import interleaved, least, medians
from online_contenders import ALL, OURS, PAPER, RIVALS
from online_rivals import Feed
from sort_online import check_one
from sort_streams import latency_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from measure import Report
    from online_contenders import Contender

_TAKING_PART = (OURS, *(name for name in RIVALS if name != "heapq"), *PAPER, "mixed/batch")


def run(report: Report, streams: Mapping[str, NDArray[np.int64]]) -> None:
    """Measure all."""
    entries = {name: ALL[name] for name in _TAKING_PART}
    rounds = 9
    rows: list[list[Any]] = []
    for name, stream in streams.items():
        times = stream[: len(stream) // 1_000 * 1_000]
        feed = Feed(times, np.argsort(times, kind="stable"), 0, 1_000, latency_of(times), ends=True)
        work = {}
        for contender, entry in entries.items():
            check_one(contender, entry, feed, len(times))
            # A fresh one for every round, made beforehand: memory is not part of what is measured here.
            made = [entry.make(feed, deque[Any](maxlen=1).append, len(times)) for _ in range(rounds + 1)]
            work[contender] = partial(_advance_next, made, len(times))
        nanoseconds = {
            contender: 1e9 * taken / len(times)
            for contender, taken in medians(interleaved(work, repeats=rounds)).items()
        }
        best = min((rival for rival in RIVALS if rival in nanoseconds), key=nanoseconds.__getitem__)
        ratio = nanoseconds[best] / nanoseconds[OURS]
        rows.append([name, len(times), nanoseconds[OURS], *(1e3 / v for v in nanoseconds.values()), best, ratio])
    report.table(
        "the kernel online, real streams, f = 1,000, M events/s",
        ("data", "events", "ns/event", *entries, "best rival", "ratio"),
        rows,
    )
    report.figures["kernel_online_min_ratio_real"] = least(row[-1] for row in rows)
    for row in rows:
        report.figures[f"kernel_online_ratio_{row[0]}"] = round(row[-1], 2)


def _advance_next(made: list[Contender], events: int) -> None:
    made.pop().advance(events)
