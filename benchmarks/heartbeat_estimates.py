"""Bounds that are learnt while a query runs, on recorded streams: what they lose against what was asked, and the delay.

Ours runs online and knows nothing of the stream but a patience that keeps all rows, and a time-out where all pause; its
rivals are tuned in hindsight. What is late is what `sort(bounds=...)` puts out as late, and must be the same as in the
replay that delays are counted in. Where `live` rows are pushed into a running query, tick by tick, delays are those of
rows as they come out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from heartbeat_rivals import UNITS, best, measured
from recorded_streams import MINUTE, SECOND

if TYPE_CHECKING:
    from heartbeat_rivals import Result
    from measure import Report
    from recorded_streams import Recorded
    from slackwater.operators.heartbeats.recording import Recording

HOUR = 60 * MINUTE

LOSSES = (0.001, 0.01)

UNIT = dict.fromkeys(("winlogs", "zeek", "gateways"), ("s", 1)) | dict.fromkeys(("phones", "flights"), ("h", 3600))
"""In what delays of a stream are written, and how many seconds that is."""

LIVE_ROWS = 50_000
"""So many rows are pushed into a running query."""


@dataclass(frozen=True)
class Declared:
    """What is known of a stream beforehand, in microseconds: a patience that keeps all rows, and a time-out."""

    patience: int
    lull: int

    def bounds(self, bounds: sw.Bounds | None, unit: str) -> sw.Bounds:
        """With others beside it, or alone."""
        made = sw.Bounds.patience(_length(self.patience, unit)) & sw.Bounds.lull(_length(self.lull, unit))
        return (made if bounds is None else bounds & made).once_seen()


DECLARED = {
    "flights": Declared(12 * HOUR, 36 * HOUR),
    "winlogs": Declared(150 * SECOND, MINUTE),
    "zeek": Declared(14 * MINUTE, 5 * MINUTE),
    "phones": Declared(96 * HOUR, 24 * HOUR),
    "gateways": Declared(HOUR, HOUR),
}


def _length(micros: int, unit: str) -> Any:
    return f"{micros}us" if unit == "us" else micros


def estimated(
    report: Report, stream: Recorded, recording: Recording, rivals: dict[str, list[Result]], *, quick: bool
) -> list[list[Any]]:
    """All ways to estimate on one stream, in a short run only those with a share; lines of a table."""
    unit, seconds = UNIT[stream.name]
    declared = DECLARED[stream.name]
    alone = measured(recording, recording.replayed(declared.bounds(None, "").rules(UNITS)).of_all)
    lines: list[list[Any]] = [[stream.name, unit, "the patience alone", "", 100 * alone[0], alone[1] / seconds]]
    ways = {f"estimated({loss})": sw.Bounds.estimated(loss) for loss in LOSSES}
    if not quick:
        ways["adaptive"] = sw.Bounds.adaptive(1_000, start=declared.patience, adapts=True, clock=True)
        ways["greatest"] = sw.Bounds.greatest(clock=True)
    for words, bounds in ways.items():
        replayed = recording.replayed(declared.bounds(bounds, "").rules(UNITS)).of_all
        lost, delay = measured(recording, replayed)
        lines.append([stream.name, unit, words, "", 100 * lost, delay / seconds])
        if words == "estimated(0.001)":
            result = _run(stream, declared)
            late = int(result.late.num_rows)
            assert late == int(np.count_nonzero(replayed < recording.ticks)), "a run loses what a replay does"
            why = f"estimated_{stream.name}"
            report.figures[f"{why}_loss"] = round(late / len(recording.times), 6)
            report.figures[f"{why}_delay_{unit}"] = round(delay / seconds, 2)
            for rival in ("patience", "clock"):
                tuned = best(rivals[rival], 0.001)
                report.figures[f"{why}_tuned_{rival}_delay_{unit}"] = round(tuned / seconds, 2)
                report.figures[f"{why}_tuned_{rival}_over_estimated"] = round(tuned / delay, 2)
    for rival, loss in product(("patience", "clock"), LOSSES):
        tuned = best(rivals[rival], loss) / seconds
        lines.append([stream.name, unit, f"{rival}, tuned", f"{100 * loss:g}", "", tuned])
    return lines


def _run(stream: Recorded, declared: Declared) -> sw.Result:
    """The whole stream through sort(), as users call it."""
    rows = sw.stream(stream.table, time="at", origin="by", arrived="came", name=stream.name)
    bounds = declared.bounds(sw.Bounds.estimated(0.001), "us")
    return rows.sort(bounds=bounds, every=sw.Every.time(f"{stream.tick}us")).run()


def live(report: Report, stream: Recorded, tick: int) -> None:
    """Rows pushed into a running query, a batch for each tick of the clock; when each of them comes out."""
    first = stream.table.slice(0, LIVE_ROWS)
    came = first["came"].cast(pa.int64()).to_numpy()
    table = first.append_column("n", pa.array(np.arange(len(came))))
    begins = np.append(np.flatnonzero(np.diff(came // tick, prepend=came[0] // tick - 1)), len(came))
    clock, source = sw.ManualClock(int(came[0] // tick * tick)), sw.PushSource(table.schema, name=stream.name)
    declared = DECLARED[stream.name].bounds(sw.Bounds.estimated(0.001), "us")
    out = np.full(len(came), -1)
    late = np.zeros(len(came), bool)

    def note_late(rows: pa.Table) -> None:
        late[rows["n"].to_numpy()] = True

    def note(rows: pa.Table) -> None:
        out[rows["n"].to_numpy()] = clock.now()

    query = sw.stream(source, time="at", origin="by").sort(bounds=declared).open(note, clock=clock, on_late=note_late)
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        while clock.now() < came[begin] // tick * tick:
            clock.advance(tick)
            query.work()
        source.push(table.slice(begin, end - begin))
        query.work()
    for _ in range(48 * HOUR // tick):
        clock.advance(tick)
        query.work()
    query.stop()
    given = ~late
    assert (out[given] >= 0).all(), "all rows come out, or are late"
    report.figures[f"estimated_{stream.name}_live_loss"] = round(float(late.mean()), 6)
    report.figures[f"estimated_{stream.name}_live_delay_h"] = round(float((out - came)[given].mean()) / HOUR, 2)
