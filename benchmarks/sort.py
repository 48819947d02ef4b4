"""Impatience sort against other ways to sort times: offline, online, its two optimizations, real streams, memory.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section VI-B, figures 2, 5, 7 and 8.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import disordered
import sort_online
from measure import interleaved, medians
from rivals import FAST, FRAMES, PLAIN, check, numpy_unstable, values_only
from slackwater.disorder.profile import DisorderProfile
from slackwater.kernels.measure_disorder import count_runs, deal_onto_runs
from slackwater.kernels.patience_dealing import PatienceSorter, runs_over_time
from slackwater.kernels.sort_times import sort_times

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from measure import Report

    Column = NDArray[np.int64]

OURS = sort_online.OURS
GENERATORS: dict[str, Callable[[int], Column]] = {
    **{
        f"s{percent}_{spread}": partial(disordered.synthetic, percent=percent, spread=spread)
        for percent in (1, 10, 30, 100)
        for spread in (16, 64, 1024)
    },
    "cloud_like": disordered.cloud_like,
    "android_like": disordered.android_like,
}
"""The streams of the paper's experiments: s30_64 has 30 % of its events moved back by |N(0, 64)|."""

CHOSEN = ("s30_64", "cloud_like", "android_like")
"""The streams of figure 8, and of all that is too slow to be measured on every stream."""

QUICKLY = ("s1_64", *CHOSEN)
"""The streams of a short run."""

PREFIX = 100_000
"""Plain Python sorts so many events; its time per event is taken for all, which flatters it."""


def run(report: Report, *, quick: bool) -> None:
    """Measure everything."""
    real = disordered.real_streams()
    departures, left_out = disordered.flights()
    print(f"flights: {len(departures):,} landed, {left_out:,} without departure or time in the air left out")
    real_and_flights = {**real, "flights": departures}
    if quick:
        _offline(report, QUICKLY, 6_000_000, repeats=5, slow_on=())
    else:
        _offline(report, tuple(GENERATORS), 20_000_000, repeats=7, slow_on=CHOSEN)
    _offline_real(report, real_and_flights, 3 if quick else 15)
    _ablations(report, 500_000 if quick else 12_000_000, 3)
    # Phones fill a buffer with 1.7 million events before anything is measured.
    short = {"android_like": 6_000_000}
    streams = {name: GENERATORS[name](short.get(name, 3_600_000) if quick else 12_000_000) for name in CHOSEN}
    frequencies = [10, 100, 1_000, 100_000] if quick else [10, 100, 1_000, 10_000, 100_000, 1_000_000]
    sort_online.run(report, streams, frequencies, quick=quick)
    if not quick:
        sort_online.real(report, real_and_flights)
    sort_online.memory(report, streams)
    _pictures(report, streams["cloud_like"], real)


def _offline(report: Report, names: Sequence[str], events: int, repeats: int, slow_on: Sequence[str]) -> None:
    """Sort whole columns (figure 7); those who are slow, and mere marks, only on some streams."""
    rows: list[list[Any]] = []
    shapes: list[list[Any]] = []
    nanoseconds: dict[str, dict[str, float]] = {}
    with_payload: dict[str, dict[str, float]] = {}
    for name in names:
        times = GENERATORS[name](events)
        taken = _per_event({OURS: sort_times, **FAST}, times, repeats)
        if name in slow_on:
            taken |= _per_event({**FRAMES, "argsort": numpy_unstable}, times, repeats - 2)
            taken |= _per_event(PLAIN, times[:PREFIX], 1)
            taken["values"] = 1e9 / events * medians(interleaved({"": partial(values_only, times)}, repeats))[""]
        if name in slow_on:
            with_payload[name] = _with_payload(times, max(repeats - 2, 1))
        nanoseconds[name] = taken
        best = min((*FAST, *FRAMES), key=lambda rival: taken.get(rival, float("inf")))
        shown = [taken.get(c, "-") for c in (OURS, *FAST, *FRAMES, *PLAIN, "argsort", "values")]
        rows.append([name, 1e3 / taken[OURS], *shown, best, taken[best] / taken[OURS]])
        shapes.append(_shape(name, times, whole=name in slow_on))
    report.table("the streams", ("data", *_SHAPE), shapes)
    report.table(
        f"offline, {events:,} events, ns/event (plain Python: first {PREFIX:,}; argsort loses ties, values loses rows)",
        ("data", "M events/s", OURS, *FAST, *FRAMES, *PLAIN, "argsort", "values", "best rival", "ratio"),
        rows,
    )
    if with_payload:
        _payload_table(report, with_payload)
    ratios = {row[0]: row[-1] for row in rows}
    report.figures["offline_min_ratio_disordered"] = _least(v for k, v in ratios.items() if not k.startswith("s1_"))
    report.figures["offline_1pct_ratio"] = _least(v for k, v in ratios.items() if k.startswith("s1_"))
    for name in CHOSEN:
        report.figures[f"offline_ns_{name}"] = round(nanoseconds[name][OURS], 2)
    report.series["offline"] = {
        name: {contender: round(value, 2) for contender, value in taken.items()} for name, taken in nanoseconds.items()
    }


def _per_event(contenders: Mapping[str, Any], times: Column, repeats: int, often: int = 1) -> dict[str, float]:
    """Nanoseconds per event of those who sort a column, checked first. Short columns are sorted often."""
    order = np.argsort(times, kind="stable")
    for name, work in contenders.items():
        check(name, work, times, order)  # which is their warm-up, too
    timed = {name: partial(_repeatedly, work, times, often) for name, work in contenders.items()}
    seconds = medians(interleaved(timed, repeats, warm_up=0))
    return {name: 1e9 * taken / (often * len(times)) for name, taken in seconds.items()}


def _repeatedly(work: Callable[[Column], Any], times: Column, often: int) -> None:
    for _ in range(often):
        work(times)


def _least(ratios: Any) -> float:
    return round(min(ratios), 2)


_SHAPE = ("events", "natural run", "interleaved", "distance", "late", "greatest lateness")


def _shape(name: str, times: Column, *, whole: bool) -> list[Any]:
    """What a stream looks like. Distance and lateness cost more to know: only for some."""
    shape: list[Any] = [name, f"{len(times):,}", len(times) / count_runs(times), len(deal_onto_runs(times))]
    if not whole:
        return [*shape, "-", "-", "-"]
    profile = DisorderProfile.of(times)
    return [*shape, f"{profile.distance:,}", f"{profile.late_fraction:.1%}", f"{profile.lateness[1.0]:,}"]


def _with_payload(times: Column, repeats: int) -> dict[str, float]:
    """The same with what a sort is for: the four columns of each event brought into order, too."""
    columns = disordered.payload(len(times), groups=100)

    def gathered(work: Callable[[Column], Any], times: Column) -> Any:
        ordered = work(times)
        for column in columns.values():
            column.take(ordered[1])
        return ordered

    contenders = {OURS: sort_times, **FAST}
    return _per_event({name: partial(gathered, work) for name, work in contenders.items()}, times, repeats)


def _payload_table(report: Report, taken: Mapping[str, Mapping[str, float]]) -> None:
    ratios = {name: min(by[rival] for rival in FAST) / by[OURS] for name, by in taken.items()}
    report.table(
        "offline with four 32-bit columns taken in the new order, ns/event",
        ("data", OURS, *FAST, "ratio"),
        [[name, by[OURS], *(by[rival] for rival in FAST), ratios[name]] for name, by in taken.items()],
    )
    report.figures["payload_min_ratio"] = _least(ratios.values())


def _offline_real(report: Report, streams: Mapping[str, Column], repeats: int) -> None:
    """Sort the real streams, which are short: each measurement sorts one several times."""
    rows: list[list[Any]] = []
    shapes: list[list[Any]] = []
    contenders = {OURS: sort_times, **FAST}
    for name, times in streams.items():
        taken = _per_event(contenders, times, repeats, often=max(1, 400_000 // len(times)))
        best = min(FAST, key=taken.__getitem__)
        rows.append([name, *(taken[contender] for contender in contenders), best, taken[best] / taken[OURS]])
        shapes.append(_shape(name, times, whole=True))
    report.table("the real streams (lateness in microseconds)", ("data", *_SHAPE), shapes)
    report.table("real streams offline, ns/event", ("data", *contenders, "best rival", "ratio"), rows)
    report.figures["real_offline_min_ratio"] = _least(row[-1] for row in rows)


_VARIANTS = {"full": (True, True), "no HM": (False, True), "no HM, no SRS": (False, False)}
"""Huffman merge and speculative run selection, switched off one after the other, as in figure 7."""


def _ablations(report: Report, events: int, repeats: int) -> None:
    """What the paper's two optimizations bring its own algorithm, event by event, offline."""
    rows = []
    for name in ("s1_64", "s30_64", "s100_1024", "cloud_like", "android_like"):
        times = GENERATORS[name](events)
        sorters = {
            variant: PatienceSorter(huffman=huffman, speculate=speculate)
            for variant, (huffman, speculate) in _VARIANTS.items()
        }
        # Each keeps its memory from one sort to the next: what is compared is the work, not the growth of arrays.
        taken = _per_event({v: partial(_pushed_and_flushed, s) for v, s in sorters.items()}, times, repeats)
        huffman, speculation = taken["no HM"] / taken["full"], taken["no HM, no SRS"] / taken["no HM"]
        rows.append([name, *taken.values(), huffman, speculation])
        report.figures[f"hm_speedup_{name}"] = round(huffman, 2)
        report.figures[f"srs_speedup_{name}"] = round(speculation, 2)
    report.table(
        f"the paper's algorithm offline, {events:,} events, ns/event: what its optimizations bring",
        ("data", *_VARIANTS, "Huffman merge", "speculation"),
        rows,
    )


def _pushed_and_flushed(sorter: PatienceSorter, times: Column) -> tuple[Column, Column]:
    sorter.push(times, 0)
    return sorter.flush()


def _pictures(report: Report, cloud: Column, real: Mapping[str, Column]) -> None:
    """The series of figures 5 (runs over time) and 2 (event time by arrival), thinned."""
    watched = {"cloud_like": (cloud, 10_000)}
    if "winlogs_multihost" in real:
        watched["winlogs_multihost"] = (real["winlogs_multihost"], 2_000)
    report.series["runs"] = {}
    for name, (times, every) in watched.items():
        latency = sort_online.latency_of(times)
        counts = {
            algorithm: runs_over_time(times, every, latency, incremental=incremental)
            for algorithm, incremental in (("patience", False), ("impatience", True))
        }
        report.series["runs"][name] = {"every": every, **{a: _thinned(c, 200) for a, c in counts.items()}}
        report.figures[f"impatience_mean_runs_{name}"] = round(float(counts["impatience"].mean()), 1)
        report.figures[f"patience_runs_{name}"] = int(counts["patience"][-1])
    report.series["arrivals"] = {}
    for name, times in real.items():
        first, stop = _longest_stretch(times)
        seconds = (times[first:stop] - times[first]) // 1_000_000
        report.series["arrivals"][name] = {"first": first, **_thinned(seconds, 500)}


def _longest_stretch(times: Column) -> tuple[int, int]:
    """Where a stream runs longest without a gap of a tenth of its time: some files are recordings from many days."""
    first, stop = 0, len(times)
    while True:
        high_water = np.maximum.accumulate(times[first:stop])
        gaps = np.flatnonzero(np.diff(high_water) > (high_water[-1] - high_water[0]) // 10) + 1
        if not len(gaps):
            return first, stop
        edges = np.array([0, *gaps, stop - first])
        longest = int(np.diff(edges).argmax())
        first, stop = first + int(edges[longest]), first + int(edges[longest + 1])


def _thinned(values: Column, most: int) -> dict[str, Any]:
    """At most so many of the values, evenly spaced, and the distance between them."""
    stride = -(-len(values) // most)
    return {"stride": stride, "values": values[::stride].tolist()}
