"""Progress by bounds on recorded streams: how long rows wait, and how many are late, beside what other engines do.

Rows arrive in ticks of a second (a minute for phones and flights). Delay is counted by the clock of arrival, from the
arrival of a row to the end of the tick in which its time is complete. "By origin": each row is given out by how far its
own source is complete, as where all that follows is grouped by the source. Bounds are those that fit_bounds() finds in
hindsight, and rivals are tuned in hindsight, too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import heartbeat_by_origin as by_origin
import slackwater as sw
from heartbeat_estimates import DECLARED, UNIT, estimated, live
from heartbeat_rivals import UNITS, best, by_clock, by_patience, delays_by_clock, idle_timeouts, measured, patiences
from recorded_streams import MINUTE, SECOND, Recorded, all_streams, gateways
from slackwater.kernels.progress.skews import skew_within_source
from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.operators.heartbeats.recording import Recording
from slackwater.policies.bound import Units
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from measure import Report

    Mask = NDArray[np.bool_]

CUT_ROWS = 60_000
CUT_EVERY, CUT_FOR = 6 * 60 * MINUTE, 10 * MINUTE
"""The busiest gateway is cut off four times a day, and sends its backlog afterwards."""


def run(report: Report, *, quick: bool) -> None:
    """All of it."""
    _zero_loss(report, quick=quick)
    _cut_off(report, quick=quick)
    _broken_clocks(report)
    _machine(report, quick=quick)
    by_origin.costs(report, quick=quick)
    by_origin.overheads(report, quick=quick)


def _recording(stream: Recorded) -> Recording:
    came, codes, at, names = stream.columns()
    return Recording(came, codes, at, names, stream.tick)


# ---- bounds in hindsight ---------------------------------------------------------------------------------------------


def _zero_loss(report: Report, *, quick: bool) -> None:
    """Bounds that lose nothing, fitted in hindsight, against rivals that lose nothing, little, or more."""
    lines: list[list[Any]] = []
    learnt: list[list[Any]] = []
    for name, stream in all_streams().items():
        recording, (unit, seconds) = _recording(stream), UNIT[name]
        rivals = {
            "patience": list(patiences(recording, quick=quick)),
            "clock": list(delays_by_clock(recording)),
            "idle": _idle(recording) if name == "winlogs" or not quick else [],
        }
        fitted = sw.fit_bounds(stream.table, time="at", arrived="came", origin="by", first=1.0)
        replayed = recording.replayed(fitted.bounds.rules(Units(calendar=True)))
        for column, key in ((replayed.of_all, ""), (replayed.of_own, "_by_origin")):
            lost, delay = measured(recording, column)
            assert lost == 0, name
            report.figures[f"{name}_zero_loss_delay{key}_{unit}"] = round(delay / seconds, 2)
            lines.append([name, unit, f"bounds{key.replace('_', ' ')}", delay / seconds, "", ""])
        for rival, results in rivals.items():
            delays = [best(results, loss) / seconds for loss in (0, 0.001, 0.01)]
            lines.append([name, unit, rival, *(delay if np.isfinite(delay) else "-" for delay in delays)])
            if np.isfinite(delays[0]):
                report.figures[f"{name}_zero_loss_delay_{rival}_{unit}"] = round(delays[0], 2)
        nearest = min(best(results, 0) for results in rivals.values())
        ours = report.figures[f"{name}_zero_loss_delay_{unit}"] * seconds
        report.figures[f"{name}_nearest_rival_over_bounds"] = round(nearest / ours, 2)
        learnt += estimated(report, stream, recording, rivals, quick=quick)
        if name == "winlogs":
            _live_by_origin(report, name, recording, fitted.bounds, unit)
        if not quick:
            _held_out(report, name, stream)
            if name == "flights":
                live(report, stream, 10 * MINUTE)
    header = ("stream", "in", "by", "nothing late", "at most 0.1 %", "at most 1 %")
    report.table("least mean delay, rivals and bounds tuned in hindsight; on zeek bounds win nothing", header, lines)
    if not quick:
        learnt += _learnt_from_gateways(report)
    header = ("stream", "in", "by", "allowed, %", "late, %", "mean delay")
    report.table("bounds learnt online, from a patience that keeps all; rivals tuned in hindsight", header, learnt)


def _learnt_from_gateways(report: Report) -> list[list[Any]]:
    """Estimates of hundreds of sources, most of which send little; those whose clocks are sound."""
    stream, sound = gateways()
    if stream.name not in DECLARED:
        return []
    stream = Recorded(stream.name, stream.table.filter(pa.array(sound)), stream.tick)
    recording = _recording(stream)
    rivals = {"patience": list(patiences(recording, quick=True)), "clock": list(delays_by_clock(recording))}
    return estimated(report, stream, recording, rivals, quick=True)


def _live_by_origin(report: Report, name: str, recording: Recording, bounds: sw.Bounds, unit: str) -> None:
    """The same by origin in a running query: nothing late, and how long rows wait."""
    rows = by_origin.first(recording, by_origin.LIVE_ROWS)
    replayed = rows.replayed(bounds.rules(Units(calendar=True))).of_own
    found = by_origin.live(rows, bounds, replayed)
    given = (found < FOREVER) & (replayed < FOREVER)
    assert not (found < rows.ticks).any(), name
    waits = [float((column - rows.ticks)[given].mean()) for column in (found, replayed)]
    report.figures[f"{name}_zero_loss_delay_by_origin_live_{unit}"] = round(waits[0], 2)
    report.figures[f"{name}_zero_loss_delay_by_origin_live_over_replay"] = round(waits[0] / waits[1], 3)


def _idle(recording: Recording) -> list[tuple[float, float]]:
    """A slack that most sources keep, one that all keep, and none; several time-outs."""
    behind = np.empty_like(recording.times)
    nothing = np.full(len(recording.names), sw.BEGINNING)
    skew_within_source(recording.arrived, recording.codes, recording.times, nothing, behind)
    slacks = [0, *np.quantile(behind.clip(0), (0.999, 1), method="higher").tolist()]
    idles, pauses = [recording.grid * ticks for ticks in (10, 30, 150)], [recording.grid * ticks for ticks in (22, 600)]
    return [result for result, _ in idle_timeouts(recording, slacks, idles, pauses)]


def _held_out(report: Report, name: str, stream: Recorded) -> None:
    """What bounds lose that were fitted to the first 70 %: the honest figure for what is to come."""
    fitted = sw.fit_bounds(stream.table, time="at", arrived="came", origin="by")
    report.figures[f"{name}_held_out_loss"] = round(fitted.on_the_rest.loss, 5)


# ---- a gateway that is cut off ---------------------------------------------------------------------------------------


def _sound_gateways() -> tuple[Recording, Recorded]:
    stream, sound = gateways()
    came, codes, at, names = stream.columns()
    return Recording(came[sound], codes[sound], at[sound], names, stream.tick), stream


def _cut_off(report: Report, *, quick: bool) -> None:
    whole, stream = _sound_gateways()
    busiest = int(np.bincount(whole.codes).argmax())
    arrived, codes, times = (column[:CUT_ROWS].copy() for column in (whole.arrived, whole.codes, whole.times))
    into = (arrived - arrived[0]) % CUT_EVERY
    cut = (codes == busiest) & (into < CUT_FOR)
    arrived[cut] += CUT_FOR - into[cut]
    order = np.argsort(arrived, kind="stable")
    recording = Recording(arrived[order], codes[order], times[order], whole.names, whole.grid)
    cut, others = cut[order], recording.codes != busiest
    declared = sw.Bounds.delay({whole.names[busiest]: 11 * MINUTE, ...: 5 * SECOND}) & sw.Bounds.disorder(5 * SECOND)
    lines: list[list[Any]] = []
    replayed = recording.replayed(declared.once_seen().rules(UNITS))
    joined = np.flatnonzero(recording.codes == busiest)[0]
    since = others & (np.arange(len(cut)) >= joined)
    for words, key, column in (
        ("bounds: 5 s, of that one 11 min", "", replayed.of_all),
        ("the same by origin", "_by_origin", replayed.of_own),
    ):
        lost = int(np.count_nonzero(column[cut] < recording.ticks[cut]))
        delay = measured(recording, column, others)[1]
        waited = (column - recording.ticks)[others & (column >= recording.ticks)]
        lines.append([words, lost, delay, float(np.median(waited)), measured(recording, column, since)[1]])
        report.figures[f"cutoff_rows_lost{key}"] = lost
        report.figures[f"cutoff_others_mean_delay{key}_s"] = round(delay, 1)
        report.figures[f"cutoff_others_median_delay{key}_s"] = float(np.median(waited))
        report.figures[f"cutoff_others_mean_delay_since_it_joined{key}_s"] = round(lines[-1][4], 1)
    lines.append(_cut_off_live(report, recording, whole.names[busiest], cut, others, quick=quick))
    report.figures["cutoff_rows"] = int(cut.sum())
    kept: list[float] = []
    for idle in (60, 300, 600, 900, 1200):
        ((_, complete),) = idle_timeouts(recording, [5 * SECOND], [idle * SECOND], [CUT_FOR])
        part = float((complete[cut] < recording.ticks[cut]).mean())
        delay = measured(recording, complete, others)[1]
        kept += [delay] if part <= 0.02 else []
        lines.append(
            [f"idle after {idle} s", round(part * cut.sum()), delay, "", measured(recording, complete, since)[1]]
        )
    report.figures["cutoff_idle_timeout_delay_at_2_percent_s"] = round(min(kept, default=float("nan")), 1)
    newest = np.maximum.accumulate(recording.times)
    for length in (60, 660):
        for rival, complete in (
            ("clock", by_clock(recording, length * SECOND)),
            ("patience", by_patience(recording, newest, length * SECOND, 600)),
        ):
            lost = int(np.count_nonzero(complete[cut] < recording.ticks[cut]))
            delay = measured(recording, complete, others)[1]
            lines.append([f"{rival}, {length} s", lost, delay, "", measured(recording, complete, since)[1]])
            report.figures[f"cutoff_{rival}_{length}_s_delay_s"] = round(delay, 1)
            report.figures[f"cutoff_{rival}_{length}_s_rows_lost"] = lost
    header = ("by", "of the cut-off rows lost", "others wait, s", "median", "since it joined")
    report.table(f"{stream.name}: the busiest is cut off for 10 min, {cut.sum()} of {len(cut):,} rows", header, lines)


def _cut_off_live(
    report: Report, recording: Recording, slow: Any, cut: Mask, others: Mask, *, quick: bool
) -> list[Any]:
    """The same rows by origin in a running query: what is lost, how long the others wait, and what a replay finds."""
    rows = by_origin.LIVE_ROWS if quick else len(cut)
    recording, cut, others = by_origin.first(recording, rows), cut[:rows], others[:rows]
    bounds = (sw.Bounds.delay({slow: "11m", ...: "5s"}) & sw.Bounds.disorder("5s")).once_seen()
    replayed = recording.replayed(bounds.rules(Units(calendar=True))).of_own
    found = by_origin.live(recording, bounds, replayed)
    known = replayed < FOREVER
    off = int(np.count_nonzero((found != np.maximum(replayed, recording.ticks - 1))[known]))
    lost = int(np.count_nonzero(found[cut] < recording.ticks[cut]))
    waited = (found - recording.ticks)[others & (found >= recording.ticks) & (found < FOREVER)]
    report.figures["cutoff_rows_lost_by_origin_live"] = lost
    report.figures["cutoff_others_mean_delay_by_origin_live_s"] = round(float(waited.mean()), 1)
    report.figures["cutoff_by_origin_live_rows"] = len(found)
    report.figures["cutoff_by_origin_live_rows_off_replay"] = off
    words = f"by origin in a running query, the first {len(found):,} rows"
    return [words, lost, float(waited.mean()), float(np.median(waited)), ""]


# ---- clocks that are broken ------------------------------------------------------------------------------------------


def _broken_clocks(report: Report) -> None:
    """Rows of clocks that stand still, years ago; half of them are set as far ahead instead. Others must not wait."""
    stream, sound = gateways()
    came, codes, at, names = stream.columns()
    if sound.all():
        return
    broken = np.flatnonzero(~sound)
    at = at.copy()
    at[broken[::2]] = 2 * came[broken[::2]] - at[broken[::2]]
    bounds = (sw.Bounds.delay(5 * SECOND) & sw.Bounds.patience(60 * MINUTE)).rules(UNITS)
    ahead = at > came + MINUTE  # what sort(ahead="1m") takes for no progress
    delays = {}
    for words, rows in (("sound", sound), ("broken", np.ones(len(at), bool)), ("guarded", ~ahead)):
        recording = Recording(came[rows], codes[rows], at[rows], names, stream.tick)
        delays[words] = measured(recording, recording.replayed(bounds).of_all, sound[rows])
    report.figures["broken_clocks_over_sound"] = round(delays["guarded"][1] / delays["sound"][1], 3)
    report.figures["broken_clocks_sound_rows_lost_without_guard"] = round(delays["broken"][0], 4)
    report.figures["broken_clocks_sound_rows_lost"] = round(delays["guarded"][0], 4)
    lines = [[words, 100 * lost, delay] for words, (lost, delay) in delays.items()]
    report.table("clocks that are broken: what sound rows suffer", ("rows", "late, %", "mean delay, s"), lines)


# ---- the machine -----------------------------------------------------------------------------------------------------


def _machine(report: Report, *, quick: bool) -> None:
    """What a micro-batch costs the generator, with 16 sources present and with all; best of some rounds."""
    lines = []
    bounds = sw.Bounds.sensors(5 * SECOND) & sw.Bounds.delay(MINUTE)
    for sources in (1_000, 100_000):
        generator = HeartbeatGenerator(bounds.rules(UNITS), SECOND)
        places = generator.places_of(list(range(sources)))
        row = [f"{sources:,}"]
        for present in (16, sources):
            at, taken = max(generator.tick, 0), []
            for number in range(20 if quick else 100):
                ticks = np.full(present, at + number + 1)
                times = ticks * SECOND
                begun = time.perf_counter()
                generator.follow(ticks, places[:present], times, closes=True)
                taken.append(time.perf_counter() - begun)
            row.append(f"{1e6 * min(taken):.1f}")
            words = "16" if present == 16 else "all"
            report.figures[f"machine_us_{sources}_sources_{words}_present"] = round(1e6 * min(taken), 1)
        lines.append(row)
    report.table("the generator, us per micro-batch", ("sources", "16 present", "all present"), lines)
