"""The whole operator as users call it: `sw.stream(table, time="at").sort(patience).run().table`.

An event has a time and four 32-bit columns, and the patience is the greatest lateness, so that no row is late and all
contenders give the same table. The table is in memory; the runner takes 262,144 rows of it at once. Nothing is left
out: the plan is built, rows are judged, sorted, gathered and handed over as an Arrow table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import disordered
import slackwater as sw
from measure import interleaved, least, medians
from other_numpy import beside, better
from sort_streams import CHOSEN, GENERATORS, NEARLY_ORDERED, ONE_PERCENT, is_disordered, latency_of
from table_rivals import NUMPY, frames, same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from measure import Report
    from other_numpy import OtherNumpy

    Column = NDArray[np.int64]

OURS = "slackwater"
ENGINES = ("polars", "pyarrow", "duckdb")
COLUMNS = (OURS, *NUMPY, *ENGINES)
"""The contenders, in the order of the tables."""


def run(report: Report, names: Sequence[str], events: int, repeats: int, other: OtherNumpy | None) -> None:
    """Sort generated streams; table engines, which are slow, only on some."""
    taken = {}
    for name in names:
        taken[name] = _per_event(GENERATORS[name](events), repeats, other, engines=name in CHOSEN)
    ratios = _table(report, f"whole sort(patience).run(), {events:,} events of five columns, ns/event", taken)
    report.figures |= {
        "whole_sort_min_ratio_disordered": least(v for name, v in ratios.items() if is_disordered(name)),
        "whole_sort_min_ratio_1pct": least(v for name, v in ratios.items() if name in ONE_PERCENT),
        "whole_sort_min_ratio_nearly_ordered": least(v for name, v in ratios.items() if name in NEARLY_ORDERED),
    }
    _spread(report, "whole_sort_ns", [by[OURS] for by in taken.values()])
    for name in NEARLY_ORDERED:
        report.figures[f"whole_sort_ratio_{name}"] = round(ratios[name], 2)
    for name in CHOSEN:
        report.figures[f"whole_sort_ns_{name}"] = round(taken[name][OURS], 1)
        report.figures[f"whole_sort_over_polars_{name}"] = round(taken[name]["polars"] / taken[name][OURS], 2)
    report.series["whole"] = _rounded(taken)


def real(report: Report, streams: Mapping[str, Column], repeats: int, other: OtherNumpy | None) -> None:
    """Sort the real streams, which are short: each measurement sorts one several times."""
    taken = {
        name: _per_event(times, repeats, other, engines=True, often=max(1, 400_000 // len(times)))
        for name, times in streams.items()
    }
    ratios = _table(report, "whole sort(patience).run(), real streams with five columns, ns/event", taken)
    report.figures["whole_sort_min_ratio_real"] = least(ratios.values())
    _spread(report, "whole_sort_ns_real", [by[OURS] for by in taken.values()])
    for name, ratio in ratios.items():
        report.figures[f"whole_sort_ratio_{name}"] = round(ratio, 2)
    report.series["whole_real"] = _rounded(taken)


def _per_event(
    times: Column, repeats: int, other: OtherNumpy | None, *, engines: bool, often: int = 1
) -> dict[str, float]:
    """Nanoseconds per event of each contender, after all were checked; NumPy's are the better of its two processes."""
    columns: dict[str, NDArray[Any]] = {"at": times, **disordered.payload(len(times), groups=100)}
    calls: dict[str, Callable[[], Any]] = {OURS: partial(_ours, pa.table(columns), latency_of(times))}
    calls |= frames(columns) if engines else {}
    right = NUMPY["numpy argsort"](columns)
    made = {**{name: work() for name, work in calls.items()}, **{name: work(columns) for name, work in NUMPY.items()}}
    for name, table in made.items():
        assert same(table, right), f"{name} makes another table than the stable argsort"
    del made
    work = {name: partial(_repeatedly, call, often) for name, call in calls.items()}
    seconds = medians(interleaved({**work, **beside(NUMPY, columns, other, often)}, repeats, warm_up=0))
    return {name: 1e9 * value / (often * len(times)) for name, value in better(seconds).items()}


def _ours(table: pa.Table, patience: int) -> pa.Table:
    return sw.stream(table, time="at").sort(patience).run().table


def _repeatedly(work: Callable[[], Any], often: int) -> None:
    for _ in range(often):
        work()


def _table(report: Report, title: str, taken: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Print the times; return how many times as long as ours the best rival takes."""
    rows, ratios = [], {}
    for name, by in taken.items():
        best = min((rival for rival in by if rival != OURS), key=by.__getitem__)
        ratios[name] = by[best] / by[OURS]
        rows.append([name, *(by.get(contender, "-") for contender in COLUMNS), best, ratios[name]])
    report.table(title, ("data", *COLUMNS, "best rival", "ratio"), rows)
    return ratios


def _spread(report: Report, name: str, values: Sequence[float]) -> None:
    report.figures[f"{name}_least"] = round(min(values), 1)
    report.figures[f"{name}_most"] = round(max(values), 1)


def _rounded(taken: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: {contender: round(value, 2) for contender, value in by.items()} for name, by in taken.items()}
