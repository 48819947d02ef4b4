"""Early answers and full ones from one stream: the Impatience framework against its alternatives (figure 10, Table II).

Four queries over tumbling windows are asked of a disordered stream by
    advanced     in_bands(..., **aggregates): three latencies in one pass, partial results go from band to band
    basic        in_bands(...) and the query on each of its three streams: events go from band to band
    MinLatency   sort(shortest patience) and the query: one early answer, of what has come by then
    MidLatency   the same with the middle patience, which only serves to know what three queries on their own cost
    MaxLatency   the same with the longest patience: one full answer, late
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section VI-D.

The times of the generated streams count events. Here they become dates. The paper's server log has events 13.6 million
places late that still come within the hour, so it has some 4,000 events per second; ours gets these. The phones'
uploads come at random, which makes 20 % of the events come within 3.5 hours and 92 % within a day, if 14 events come
per second; in the paper it was 10 minutes for the first. Windows are a minute and an hour long: 240,000 and 50,000
events, enough for 1,000 groups to be sums of something, and not so many that their open window outweighs the bands.
"""

from __future__ import annotations

import gc
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import disordered
import slackwater as sw
from held import copied, forget_peak, held_bytes, resident_bytes
from measure import interleaved, medians

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from slackwater.policies.aggregates import Aggregate

    Columns = Mapping[str, NDArray[Any]]

EVERY = sw.Every.rows(10_000)
"""The paper's punctuation frequency."""

_DROP = sw.Late.drop()
_TIME = {"at": pa.timestamp("us")}


@dataclass(frozen=True)
class Setting:
    """A stream, the patiences it is asked with, and the length of its windows."""

    name: str
    times: Callable[[int], NDArray[np.int64]]
    patiences: tuple[str, str, str]
    window: str
    every: sw.Every = EVERY
    quick_events: int = 2_000_000
    """How many events a short run watches; of two million it takes the time."""


@dataclass(frozen=True)
class Asked:
    """A query: what is computed for how many groups."""

    groups: int
    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]


QUERIES = {
    "Q1": Asked(100, (), {"n": sw.count()}),
    "Q2": Asked(100, ("group",), {"n": sw.count()}),
    "Q3": Asked(1_000, ("group",), {"n": sw.count()}),
    "Q4": Asked(100, ("group",), {"top": sw.top_k("a", 5)}),
}
"""The paper's four queries: a count; counts of 100 and of 1,000 groups; the five largest values in each of 100."""


def _cloud(events: int) -> NDArray[np.int64]:
    """Stretches of two million events, with a failure of a whole site in each, so that 2 % are late for a second."""
    stretch = 2_000_000
    parts = [disordered.cloud_like(stretch, seed) + seed * stretch for seed in range(max(1, events // stretch))]
    return np.concatenate(parts) * 250


def _android(events: int) -> NDArray[np.int64]:
    """A part of a longer stream, which has reached its usual lateness when the part begins."""
    before = 1_700_000
    times: NDArray[np.int64] = disordered.android_like(events + 2 * before)[before : before + events]
    return times * 72_000


def _synthetic(events: int) -> NDArray[np.int64]:
    return disordered.synthetic(events, percent=30, spread=64) * 1_000


def _flights(events: int) -> NDArray[np.int64]:  # noqa: ARG001 - there are as many as there are
    return disordered.flights()[0]


MEASURED = (
    Setting("cloud_like", _cloud, ("1s", "1m", "1h"), "1m", quick_events=4_000_000),
    Setting("android_like", _android, ("3h30m", "12h", "1d"), "1h"),
)
"""The streams of figure 10."""

COUNTED = (
    Setting("s30_64", _synthetic, ("50ms", "100ms", "200ms"), "1s", sw.Every.rows(10)),
    Setting("flights", _flights, ("1h", "3h", "6h"), "1h", sw.Every.time("1m")),
)
"""Streams of which only the completeness is told. 10,000 flights take eleven days, so they are punctuated by time."""


# ---- the methods ---------------------------------------------------------------------------------------------------


def _advanced(events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    grouped = events.group_by(*query.keys)
    return list(grouped.in_bands(*setting.patiences, every=setting.every, late=_DROP, **query.aggregates))


def _basic(events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    bands = events.in_bands(*setting.patiences, every=setting.every, late=_DROP)
    return [band.group_by(*query.keys).aggregate(**query.aggregates) for band in bands]


def _one_latency(band: int, events: sw.DisorderedStream, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    ordered = events.sort(setting.patiences[band], every=setting.every, late=_DROP)
    return [ordered.group_by(*query.keys).aggregate(**query.aggregates)]


METHODS: dict[str, Callable[[sw.DisorderedStream, Setting, Asked], list[sw.OrderedStream]]] = {
    "advanced": _advanced,
    "basic": _basic,
    "MinLatency": partial(_one_latency, 0),
    "MidLatency": partial(_one_latency, 1),
    "MaxLatency": partial(_one_latency, 2),
}
"""From windowed events to the streams that are run together."""


def _streams(method: str, source: Any, setting: Setting, query: Asked) -> list[sw.OrderedStream]:
    return METHODS[method](sw.stream(source, time="at").tumbling(setting.window), setting, query)


# ---- the measurements ----------------------------------------------------------------------------------------------


def run(report: Report, *, quick: bool) -> None:
    """Measure throughput and memory on both streams, then count how complete the answers are on all."""
    timed, repeats = (2_000_000, 3) if quick else (20_000_000, 2)
    completeness: dict[str, list[float]] = {}
    for setting in MEASURED:
        columns = _columns(setting, setting.quick_events if quick else timed)
        seconds: dict[str, dict[str, float]] = {}
        peaks: dict[str, dict[str, int]] = {}
        for name, query in QUERIES.items():
            asked = {**columns, "group": columns["group"] % np.int32(query.groups)}
            # The first run of each method warms it up; it is watched and its answers are checked.
            watched = {method: _watched(_streams(method, copied(asked, _TIME), setting, query)) for method in METHODS}
            complete = _checked(watched, query, len(columns["at"]))
            completeness |= {setting.name: complete} if complete else {}
            peaks[name] = {method: run.peak_bytes for method, run in watched.items()}
            del watched
            part = {column: values[:timed] for column, values in asked.items()}
            seconds[name] = _timed(setting, query, part, repeats)
        _throughput(report, setting, seconds, timed)
        _memory(report, setting, peaks, {} if quick else _resident_bytes(setting, columns))
    for setting in COUNTED:
        completeness[setting.name] = _counted(setting)
    _figures(report)
    _completeness(report, completeness)


def _columns(setting: Setting, events: int) -> dict[str, NDArray[Any]]:
    times = setting.times(events)
    return {"at": times, **disordered.payload(len(times), groups=1_000)}


def _table(columns: Columns) -> pa.Table:
    return pa.table({name: pa.array(column).view(_TIME.get(name, pa.int32())) for name, column in columns.items()})


def _timed(setting: Setting, query: Asked, columns: Columns, repeats: int) -> dict[str, float]:
    """The seconds that each method takes for a table in memory."""
    table = _table(columns)
    work = {method: partial(sw.run_together, *_streams(method, table, setting, query)) for method in METHODS}
    return medians(interleaved(work, repeats, warm_up=0))


@dataclass(frozen=True)
class Watched:
    """What a run gave, and the most that its operators held between two batches."""

    tables: list[pa.Table]
    late: int
    peak_bytes: int


def _watched(streams: Sequence[sw.OrderedStream]) -> Watched:
    """Run step by step, with a look at all that is held after every one."""
    answers: list[list[pa.RecordBatch]] = [[] for _ in streams]
    peak = 0
    with sw.Query([(stream, rows.append) for stream, rows in zip(streams, answers, strict=True)]) as query:
        while not query.finished:
            query.step()
            peak = max(peak, held_bytes(query.snapshot()))
        late = sum(counters.late for counters in query.counters().values())
    tables = [pa.Table.from_batches(rows, stream.schema) for stream, rows in zip(streams, answers, strict=True)]
    return Watched(tables, late, peak)


def _checked(watched: Mapping[str, Watched], query: Asked, events: int) -> list[float]:
    """Compare the answers of all methods; return which part of the events is in those of each latency, if known."""
    order = [(name, "ascending") for name in ("window_start", *query.keys)]
    answers = {m: [_plain(table).sort_by(order) for table in run.tables] for m, run in watched.items()}
    for band, method in enumerate(("MinLatency", "MidLatency", "MaxLatency")):
        assert answers["advanced"][band].equals(answers[method][0]), f"advanced, band {band}, is not {method}"
        assert answers["basic"][band].equals(answers[method][0]), f"basic, band {band}, is not {method}"
    if "n" not in query.aggregates:
        return []
    for method, run in watched.items():
        assert _events_in(run.tables[-1]) + run.late == events, f"{method} lost events"
    return [_events_in(table) / events for table in watched["advanced"].tables]


def _plain(table: pa.Table) -> pa.Table:
    return table.drop_columns("band") if "band" in table.column_names else table


def _events_in(table: pa.Table) -> int:
    return int(table["n"].to_numpy().sum())


def _counted(setting: Setting) -> list[float]:
    """Which part of the events is in the answers of each latency."""
    table = _table({"at": setting.times(2_000_000)})
    results = sw.run_together(*_streams("advanced", table, setting, QUERIES["Q1"]))
    return [_events_in(result.table) / table.num_rows for result in results]


# ---- the memory of whole processes ---------------------------------------------------------------------------------


def _resident_bytes(setting: Setting, columns: Columns) -> dict[str, int]:
    """By how much the memory of a process grows while it answers Q2, each method in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, column in columns.items():
            np.save(Path(folder) / name, column)
        fresh = partial(ProcessPoolExecutor, 1, mp_context=get_context("spawn"))
        grown = {}
        for method in METHODS:
            with fresh() as process:
                place = [one.name for one in MEASURED].index(setting.name)
                grown[method] = process.submit(_grown, folder, tuple(columns), place, method).result()
        return grown


def _grown(folder: str, names: tuple[str, ...], place: int, method: str) -> int:
    setting, query = MEASURED[place], QUERIES["Q2"]
    columns = {name: np.load(Path(folder) / f"{name}.npy") for name in names}
    columns["group"] %= np.int32(query.groups)

    def answer(rows: int) -> None:
        part = {name: column[:rows] for name, column in columns.items()}
        sw.run_together(*_streams(method, copied(part, _TIME), setting, query))

    answer(200_000)  # loads what is loaded once
    gc.collect()
    forget_peak()
    before = resident_bytes()
    answer(len(columns["at"]))
    return resident_bytes("VmHWM") - before


# ---- the report ----------------------------------------------------------------------------------------------------


def _throughput(report: Report, setting: Setting, seconds: Mapping[str, Mapping[str, float]], events: int) -> None:
    speeds = {q: {method: events / taken[method] / 1e6 for method in METHODS} for q, taken in seconds.items()}
    ratios = {query: _ratios(taken) for query, taken in seconds.items()}
    report.table(
        f"{setting.name}, {events:,} events, patiences {', '.join(setting.patiences)}, windows of {setting.window}:"
        " M events/s; advanced against others",
        ("query", *METHODS, *(f"/ {rival}" for rival in ratios["Q1"])),
        [[query, *speeds[query].values(), *ratios[query].values()] for query in QUERIES],
    )
    report.series.setdefault("throughput", {})[setting.name] = _rounded(speeds)
    report.series.setdefault("ratios", {})[setting.name] = _rounded(ratios)


def _ratios(taken: Mapping[str, float]) -> dict[str, float]:
    """How much longer others take than advanced does; three queries, one after the other, take the sum of theirs."""
    three = taken["MinLatency"] + taken["MidLatency"] + taken["MaxLatency"]
    rivals = {"basic": taken["basic"], "three queries": three, "MaxLatency": taken["MaxLatency"]}
    return {rival: seconds / taken["advanced"] for rival, seconds in rivals.items()}


def _memory(
    report: Report, setting: Setting, peaks: Mapping[str, Mapping[str, int]], resident: Mapping[str, int]
) -> None:
    sizes = {**peaks, **({"Q2, growth of the process": resident} if resident else {})}
    mebibytes = {query: {method: size / 2**20 for method, size in by.items()} for query, by in sizes.items()}
    report.table(
        f"{setting.name}: the most that operators hold between two batches, MiB; basic over advanced",
        ("query", *METHODS, "ratio"),
        [[query, *by.values(), by["basic"] / by["advanced"]] for query, by in mebibytes.items()],
    )
    report.series.setdefault("memory", {})[setting.name] = _rounded(mebibytes)


def _rounded(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {query: {name: round(value, 6) for name, value in by.items()} for query, by in values.items()}


def _figures(report: Report) -> None:
    """The least ratios over the queries."""
    ratios, memory = report.series["ratios"], report.series["memory"]

    def least(of: str, *names: str) -> float:
        return round(min(by[of] for name in names for by in ratios[name].values()), 2)

    def least_memory(name: str) -> float:
        return round(min(memory[name][query]["basic"] / memory[name][query]["advanced"] for query in QUERIES), 2)

    report.figures |= {
        "advanced_over_basic_throughput": least("basic", "cloud_like"),
        "advanced_over_basic_throughput_android": least("basic", "android_like"),
        "advanced_over_three_queries_throughput": least("three queries", "cloud_like"),
        "advanced_over_three_queries_throughput_android": least("three queries", "android_like"),
        "advanced_vs_max_latency_throughput": least("MaxLatency", "cloud_like", "android_like"),
        "advanced_vs_max_latency_throughput_cloud": least("MaxLatency", "cloud_like"),
        "basic_over_advanced_memory": least_memory("cloud_like"),
        "basic_over_advanced_memory_android": least_memory("android_like"),
    }


def _completeness(report: Report, completeness: Mapping[str, Sequence[float]]) -> None:
    settings = {setting.name: setting for setting in (*MEASURED, *COUNTED)}
    rows = [
        [name, ", ".join(settings[name].patiences), str(settings[name].every), *(f"{part:.2%}" for part in parts)]
        for name, parts in completeness.items()
    ]
    header = ("data", "patiences", "punctuated", "MinLatency, band 0", "band 1", "MaxLatency, band 2")
    report.table("completeness: the part of the events that is in the answers (Table II)", header, rows)
    for name, parts in completeness.items():
        report.figures[f"completeness_{name}_min"] = round(parts[0], 4)
        report.figures[f"completeness_{name}_max"] = round(parts[-1], 4)
    report.series["completeness"] = {name: [round(part, 5) for part in parts] for name, parts in completeness.items()}
