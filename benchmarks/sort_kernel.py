"""The sort's kernel by itself: a column of times in, the times in order and their rows out (figure 7).

`sort_times` is what a sort would cost without a plan, a runner, judging rows and gathering columns. No operator calls
it like this, for a stream never comes as one column: these figures say how good the algorithm is, and nothing of what a
user gets; sort_whole.py has that.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import interleaved, least, medians
from other_numpy import beside, better
from rivals import FAST, FRAMES, PLAIN, check, numpy_unstable, values_only
from slackwater.kernels.sorting.sort_times import sort_times
from sort_streams import CHOSEN, GENERATORS, NEARLY_ORDERED, ONE_PERCENT, is_disordered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from other_numpy import OtherNumpy

    Column = NDArray[np.int64]

OURS = "sort_times"
PREFIX = 100_000
"""Plain Python sorts so many events; its time per event is taken for all, which flatters it."""


def run(
    report: Report, names: Sequence[str], events: int, repeats: int, other: OtherNumpy | None, *, slow: bool
) -> None:
    """Sort whole columns; those who are slow, and mere marks, only on some streams and if asked for."""
    rows: list[list[Any]] = []
    nanoseconds: dict[str, dict[str, float]] = {}
    for name in names:
        times = GENERATORS[name](events)
        taken = _per_event(times, repeats, other)
        if slow and name in CHOSEN:
            taken |= _alone({**FRAMES, "argsort": numpy_unstable}, times, repeats - 2)
            taken |= _alone(PLAIN, times[:PREFIX], 1)
            taken["values"] = 1e9 / events * medians(interleaved({"": partial(values_only, times)}, repeats))[""]
        nanoseconds[name] = taken
        best = min((*FAST, *FRAMES), key=lambda rival: taken.get(rival, float("inf")))
        shown = [taken.get(c, "-") for c in (OURS, *FAST, *FRAMES, *PLAIN, "argsort", "values")]
        rows.append([name, 1e3 / taken[OURS], *shown, best, taken[best] / taken[OURS]])
    report.table(
        f"the kernel alone, {events:,} times, ns/event"
        f" (plain Python: first {PREFIX:,}; argsort loses ties, values loses rows)",
        ("data", "M events/s", OURS, *FAST, *FRAMES, *PLAIN, "argsort", "values", "best rival", "ratio"),
        rows,
    )
    ratios = {row[0]: row[-1] for row in rows}
    report.figures |= {
        "kernel_min_ratio_disordered": least(v for k, v in ratios.items() if is_disordered(k)),
        "kernel_min_ratio_1pct": least(v for k, v in ratios.items() if k in ONE_PERCENT),
        "kernel_min_ratio_nearly_ordered": least(v for k, v in ratios.items() if k in NEARLY_ORDERED),
    }
    ours = [taken[OURS] for taken in nanoseconds.values()]
    report.figures["kernel_ns_least"] = round(min(ours), 1)
    report.figures["kernel_ns_most"] = round(max(ours), 1)
    for name in CHOSEN:
        report.figures[f"kernel_ns_{name}"] = round(nanoseconds[name][OURS], 2)
    report.series["kernel"] = {
        name: {contender: round(value, 2) for contender, value in taken.items()} for name, taken in nanoseconds.items()
    }


def real(report: Report, streams: Mapping[str, Column], repeats: int, other: OtherNumpy | None) -> None:
    """Sort the real streams, which are short: each measurement sorts one several times."""
    rows: list[list[Any]] = []
    for name, times in streams.items():
        taken = _per_event(times, repeats, other, often=max(1, 400_000 // len(times)))
        best = min(FAST, key=taken.__getitem__)
        rows.append([name, *(taken[contender] for contender in (OURS, *FAST)), best, taken[best] / taken[OURS]])
    report.table("the kernel alone, real streams, ns/event", ("data", OURS, *FAST, "best rival", "ratio"), rows)
    report.figures["kernel_min_ratio_real"] = least(row[-1] for row in rows)


def _per_event(times: Column, repeats: int, other: OtherNumpy | None, often: int = 1) -> dict[str, float]:
    """Nanoseconds per event of ours and of NumPy's ways, these at their best; all are checked first."""
    order = np.argsort(times, kind="stable")
    for name, work in {OURS: sort_times, **FAST}.items():
        check(name, work, times, order)  # which is their warm-up, too
    columns = {"at": times}
    ours = {OURS: partial(_repeatedly, sort_times, times, often)}
    rivals = beside({name: partial(_of_times, work) for name, work in FAST.items()}, columns, other, often)
    seconds = better(medians(interleaved({**ours, **rivals}, repeats, warm_up=0)))
    return {name: 1e9 * taken / (often * len(times)) for name, taken in seconds.items()}


def _alone(contenders: Mapping[str, Any], times: Column, repeats: int) -> dict[str, float]:
    """Nanoseconds per event of those who are no match, checked first."""
    order = np.argsort(times, kind="stable")
    for name, work in contenders.items():
        check(name, work, times, order)
    seconds = medians(interleaved({n: partial(work, times) for n, work in contenders.items()}, repeats, warm_up=0))
    return {name: 1e9 * taken / len(times) for name, taken in seconds.items()}


def _of_times(work: Callable[[Column], Any], columns: Mapping[str, NDArray[Any]]) -> Any:
    return work(columns["at"])


def _repeatedly(work: Callable[[Column], Any], times: Column, often: int) -> None:
    for _ in range(often):
        work(times)
