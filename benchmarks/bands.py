"""Early answers and full ones from one stream: the Impatience framework against its alternatives (figure 10, Table II).

Three answers in one pass are compared with the best single answer there is, the full one by in_bands(p2) alone or by a
sort, whichever is faster; with three best single answers one after the other; with the basic framework; and with the
paper's MaxLatency, which sorts events that need no order, and which our plans would not run as it is written. What is
asked, and how: bands_queries.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import slackwater as sw
from bands_memory import grown_bytes, watched
from bands_queries import (
    COUNTED,
    MEASURED,
    METHODS,
    QUERIES,
    SINGLE,
    TIME,
    answered,
    columns_of,
    grouped,
    streams_of,
    table_of,
)
from held import copied
from measure import interleaved, medians

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from bands_memory import Watched
    from bands_queries import Asked, Columns, Setting
    from measure import Report

    ByQuery = Mapping[str, Mapping[str, float]]


def run(report: Report, *, quick: bool) -> None:
    """Measure throughput and memory on both streams, then count how complete the answers are on all."""
    events, repeats = (1_000_000, 2) if quick else (5_000_000, 3)
    completeness: dict[str, list[float]] = {}
    for setting in MEASURED:
        columns = columns_of(setting, events)
        seconds: dict[str, dict[str, float]] = {}
        held: dict[str, dict[str, int]] = {}
        for name, query in QUERIES.items():
            asked = grouped(columns, query)
            # The first run of each method warms it up; it is watched and its answers are checked.
            runs = {}
            for method in METHODS:
                streams = streams_of(method, copied(asked, TIME), setting, query)
                runs[method] = answered(method, partial(watched, streams))
            complete = _checked(runs, query, len(columns["at"]))
            completeness |= {setting.name: complete} if complete else {}
            held[name] = {method: run.peak_bytes for method, run in runs.items()}
            del runs
            seconds[name] = _timed(setting, query, asked, repeats)
        _throughput(report, setting, seconds, events)
        _memory(report, setting, "held", "the most that operators hold between two batches", held)
        if not quick or setting is MEASURED[0]:
            grown = grown_bytes(setting, columns, ("Q2",) if quick else tuple(QUERIES))
            _memory(report, setting, "process growth", "by how much a fresh process grows", grown)
    for setting in COUNTED:
        completeness[setting.name] = _counted(setting)
    _figures(report)
    _completeness(report, completeness)


def _timed(setting: Setting, query: Asked, columns: Columns, repeats: int) -> dict[str, float]:
    """The seconds that each method takes for a table in memory, of which the runner takes 262,144 rows at once."""
    table = table_of(columns)
    work = {
        method: partial(answered, method, partial(sw.run_together, *streams_of(method, table, setting, query)))
        for method in METHODS
    }
    return medians(interleaved(work, repeats, warm_up=0))


def _checked(runs: Mapping[str, Watched], query: Asked, events: int) -> list[float]:
    """Compare the answers of all methods; return which part of the events is in those of each latency, if known."""
    order = [(name, "ascending") for name in ("window_start", *query.keys)]
    answers = {m: [_plain(table).sort_by(order) for table in run.tables] for m, run in runs.items()}
    for band, methods in SINGLE.items():
        for method in methods:
            assert answers["advanced"][band].equals(answers[method][0]), f"advanced, band {band}, is not {method}"
            assert answers["basic"][band].equals(answers[method][0]), f"basic, band {band}, is not {method}"
    if "n" not in query.aggregates:
        return []
    for method, run in runs.items():
        assert _events_in(run.tables[-1]) + run.late == events, f"{method} lost events"
    return [_events_in(table) / events for table in runs["advanced"].tables]


def _plain(table: pa.Table) -> pa.Table:
    return table.drop_columns("band") if "band" in table.column_names else table


def _events_in(table: pa.Table) -> int:
    return int(table["n"].to_numpy().sum())


def _counted(setting: Setting) -> list[float]:
    """Which part of the events is in the answers of each latency."""
    table = table_of({"at": setting.times(2_000_000)})
    results = sw.run_together(*streams_of("advanced", table, setting, QUERIES["Q1"]))
    return [_events_in(result.table) / table.num_rows for result in results]


# ---- the report ----------------------------------------------------------------------------------------------------


def _throughput(report: Report, setting: Setting, seconds: ByQuery, events: int) -> None:
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
    best = {band: min(taken[method] for method in methods) for band, methods in SINGLE.items()}
    rivals = {
        "best single": best[2],
        "three singles": sum(best.values()),
        "basic": taken["basic"],
        "MaxLatency": taken["MaxLatency"],
    }
    return {rival: seconds / taken["advanced"] for rival, seconds in rivals.items()}


def _memory(report: Report, setting: Setting, kind: str, what: str, sizes: Mapping[str, Mapping[str, int]]) -> None:
    mebibytes = {query: {method: size / 2**20 for method, size in by.items()} for query, by in sizes.items()}
    methods = next(iter(mebibytes.values()))
    report.table(
        f"{setting.name}: {what}, MiB; others over advanced",
        ("query", *methods, "/ basic", "/ band 2"),
        [[q, *by.values(), by["basic"] / by["advanced"], by["band 2"] / by["advanced"]] for q, by in mebibytes.items()],
    )
    report.series.setdefault(kind, {})[setting.name] = _rounded(mebibytes)


def _rounded(values: ByQuery) -> dict[str, dict[str, float]]:
    return {query: {name: round(value, 6) for name, value in by.items()} for query, by in values.items()}


def _figures(report: Report) -> None:
    """The least and the greatest ratios over the queries, stream by stream."""
    for figure, rival in (
        ("three_answers_over_best_single_answer", "best single"),
        ("three_answers_over_three_best_single_answers", "three singles"),
        ("three_answers_over_sort_then_aggregate", "MaxLatency"),
        ("advanced_over_basic_throughput", "basic"),
    ):
        _extremes(report, figure, {s: [by[rival] for by in q.values()] for s, q in report.series["ratios"].items()})
    for figure, kind in (
        ("basic_over_advanced_held_bytes", "held"),
        ("basic_over_advanced_process_growth", "process growth"),
    ):
        sizes = report.series[kind]
        _extremes(
            report,
            figure,
            {s: [by["basic"] / max(by["advanced"], 1e-6) for by in q.values()] for s, q in sizes.items()},
        )
    for stream, by_query in report.series["process growth"].items():
        for method, mebibytes in by_query["Q2"].items():
            report.figures[f"process_growth_mib_q2_{method.replace(' ', '_')}_{stream}"] = round(mebibytes, 1)


def _extremes(report: Report, figure: str, found: Mapping[str, Sequence[float]]) -> None:
    for stream, values in found.items():
        for name, extreme in _EXTREMES.items():
            report.figures[f"{figure}_{name}_{stream}"] = round(extreme(values), 2)


_EXTREMES: dict[str, Callable[[Sequence[float]], float]] = {"least": min, "most": max}


def _completeness(report: Report, completeness: Mapping[str, Sequence[float]]) -> None:
    settings = {setting.name: setting for setting in (*MEASURED, *COUNTED)}
    rows: list[list[Any]] = [
        [name, ", ".join(settings[name].patiences), str(settings[name].every), *(f"{part:.2%}" for part in parts)]
        for name, parts in completeness.items()
    ]
    header = ("data", "patiences", "punctuated", "MinLatency, band 0", "band 1", "MaxLatency, band 2")
    report.table("completeness: the part of the events that is in the answers (Table II)", header, rows)
    for name, parts in completeness.items():
        for number, part in enumerate(parts):
            report.figures[f"completeness_{name}_band_{number}"] = round(part, 4)
    report.series["completeness"] = {name: [round(part, 5) for part in parts] for name, parts in completeness.items()}
