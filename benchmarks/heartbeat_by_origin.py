"""Progress by origin as users call it: when rows come out of a running query, and what it costs beside one order.

Rows are pushed into a live query in their ticks, and the clock is moved to the end of every tick in which something
should come out, and of the one before it. So each row comes out at the very tick that a replay of the heartbeats
finds, or is counted as off.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from measure import interleaved, medians
from slackwater.operators.heartbeats.recording import Recording
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from measure import Report

    Column = NDArray[np.int64]

LIVE_ROWS = 2_000
"""Rows that are pushed one tick after the other where there is little time."""

BATCH, PATIENCE = 65_536, 50_000


def first(recording: Recording, rows: int) -> Recording:
    """The beginning of a recording."""
    came, codes, times = (column[:rows] for column in (recording.arrived, recording.codes, recording.times))
    return Recording(came, codes, times, recording.names, recording.grid)


def live(recording: Recording, bounds: sw.Bounds, expected: Column) -> Column:
    """The tick in which each row came out of a live query by origin; one before its arrival for rows that were late."""
    ticks, grid = recording.ticks, recording.grid
    due = expected[(expected < FOREVER) & (expected >= ticks)]
    table = pa.table(
        {
            "at": pa.array(recording.times).cast(pa.timestamp("us", "UTC")),
            "by": pa.DictionaryArray.from_arrays(pa.array(recording.codes.astype(np.int32)), list(recording.names)),
            "n": np.arange(len(ticks)),
        }
    )
    clock, source = sw.ManualClock(int(ticks[0]) * grid), sw.PushSource(table.schema, name="recorded")
    found = np.full(len(ticks), FOREVER)

    def note(rows: pa.RecordBatch) -> None:
        found[rows["n"].to_numpy()] = clock.now() // grid

    def note_late(rows: pa.RecordBatch) -> None:
        found[rows["n"].to_numpy()] = ticks[rows["n"].to_numpy()] - 1

    stream = sw.stream(source, time="at", origin="by").sort_within_origins(bounds=bounds)
    query = stream.open(note, clock=clock, on_late=note_late)
    begins = np.append(np.flatnonzero(np.diff(ticks, prepend=ticks[0] - 1)), len(ticks))
    of_tick = dict(
        zip(ticks[begins[:-1]].tolist(), zip(begins.tolist(), begins[1:].tolist(), strict=False), strict=True)
    )
    for tick in np.unique(np.concatenate([ticks, due, due - 1])).tolist():
        if tick in of_tick:
            # Rows come at the beginning of their tick, before its clock has moved anything.
            clock.advance(tick * grid - clock.now())
            begin, end = of_tick[tick]
            source.push(table.slice(begin, end - begin))
            query.work()
        clock.advance((tick + 1) * grid - 1 - clock.now())
        query.work()
    query.stop()
    return found


def costs(report: Report, *, quick: bool) -> None:
    """A whole sort by origin over sort(patience), in batches; and one operator for each source over the same."""
    lines: list[list[Any]] = []
    rows = BATCH * (4 if quick else 32)
    for origins in (16, 384, 1_000):
        table = _rows(rows, origins)
        taken = _taken(table, 3 if quick else 7) | _taken_by_instances(table.slice(0, BATCH * (1 if quick else 4)))
        over = {name: taken[name] / taken["patience"] for name in ("one_order", "by_origin", "instances")}
        for name, ratio in over.items():
            report.figures[f"{name}_over_sort_{origins}_origins"] = round(ratio, 2)
        lines.append([origins, 1e9 * taken["patience"], *over.values()])
    header = ("origins", "sort(patience), ns a row", "one order by bounds", "by origin", "an operator for each source")
    report.table("cost of progress by origin over sort(patience), batches of 65,536 rows", header, lines)


def overheads(report: Report, *, quick: bool) -> None:
    """A whole sort by bounds over sort(patience) of the same rows, with 16 sources by words, or by numbers of these.

    Bounds are those of sensors: one rule for all pairs, so that what it costs to know who sent a row is most of it.
    """
    lines: list[list[Any]] = []
    table, drop = _rows(BATCH * (8 if quick else 32), 16), sw.Late.drop()
    words = table.set_column(1, "who", table["who"].cast(pa.string()))
    for name, rows in (("dictionary", table), ("string", words)):
        contenders = {
            "patience": lambda rows=rows: _run(sw.stream(rows, time="at").sort(PATIENCE, late=drop)),
            "bounds": lambda rows=rows: _run(_stream(rows).sort(bounds=sw.Bounds.sensors(PATIENCE), late=drop)),
        }
        taken = medians(interleaved(contenders, 5 if quick else 9))
        report.figures[f"overhead_{name}_origin"] = round(taken["bounds"] / taken["patience"], 2)
        lines.append([name, *(1e9 * seconds / len(rows) for seconds in taken.values())])
    report.table("a sort by bounds beside sort(patience), ns a row", ("sources", "patience", "bounds"), lines)


def _taken(table: pa.Table, repeats: int) -> dict[str, float]:
    """Seconds for each row: a patience, and bounds in one order and by origin."""
    drop = sw.Late.drop()
    contenders = {
        "patience": lambda: _run(sw.stream(table, time="at").sort(PATIENCE, late=drop)),
        "one_order": lambda: _run(_stream(table).sort(bounds=_bounds(), late=drop)),
        "by_origin": lambda: _run(_stream(table).sort_within_origins(bounds=_bounds(), late=drop)),
    }
    return {name: taken / len(table) for name, taken in medians(interleaved(contenders, repeats)).items()}


def _taken_by_instances(table: pa.Table) -> dict[str, float]:
    """Seconds for each row of a part: it takes so long that once is enough."""
    begun = time.perf_counter()
    _instances(table)
    return {"instances": (time.perf_counter() - begun) / len(table)}


def _rows(rows: int, origins: int) -> pa.Table:
    rng = np.random.default_rng(44)
    who = pa.array(rng.integers(0, origins, rows).astype(np.int32))
    names = pa.array([f"gateway {number}" for number in range(origins)])
    at = np.arange(rows) * 10 - rng.integers(0, PATIENCE, rows)
    return pa.table({"at": at, "who": pa.DictionaryArray.from_arrays(who, names), "value": rng.random(rows)})


def _stream(table: pa.Table) -> sw.DisorderedStream:
    return sw.stream(table, time="at", origin="who")


def _bounds() -> sw.Bounds:
    return sw.Bounds.disorder(PATIENCE)


def _run(stream: Any) -> int:
    """Read in batches of one size; the rows are taken and let go."""
    found = 0

    def count(rows: pa.RecordBatch) -> None:
        nonlocal found
        found += rows.num_rows

    stream.open(count, batch_rows=BATCH).close()
    return found


def _instances(table: pa.Table) -> int:
    """What could be done instead: the steps of sort(patience) once for each source, fed with its own rows."""
    node: Any = sw.stream(table, time="at").sort(PATIENCE, late=sw.Late.drop()).node
    steps: dict[bytes, tuple[Any, Any]] = {}
    names, found = ReplicaNames(node.schema, "who"), 0
    for batch in table.to_batches(max_chunksize=BATCH):
        for part in names.split(node.schema.read(batch, "rows")):
            if part.name not in steps:
                steps[part.name] = node.input.build("punctuate"), node.build("sort")
            punctuate, sort = steps[part.name]
            for rows in punctuate.on_batch(0, part.rows).batches:
                found += sum(sent.rows for sent in sort.on_batch(0, rows).batches)
    return found + sum(sent.rows for _, sort in steps.values() for sent in sort.on_end(0).batches)
