"""Merging replicas: memory and speed of all variants, beside plain Python, dropping duplicates, and ordering first.

    R0 to R4   the papers' cases, the later the more general
    R3-        R3 with an index for each replica: what sharing the nodes is worth
    C+R1       every replica is put in order first, its revisions applied (Cleanse); then R1 merges

Papers: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections VI-C and VI-D,
figures 2 to 6; and its technical report, figure 5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl

from held import held_bytes
from measure import interleaved, medians
from replicated import Generator
from slackwater.events.elements import elements_of
from slackwater.events.gather import no_rows
from slackwater.events.kinds import Kind
from slackwater.operators.merging.cleanse import CleanseOperator
from slackwater.operators.merging.ordered_alike import MergeOrderedAlike
from slackwater.operators.merging.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.merging.revised import MergeRevised
from slackwater.operators.merging.revised_apart import MergeRevisedApart
from slackwater.operators.merging.revised_with_key import MergeRevisedWithKey
from slackwater.operators.merging.strictly_ordered import MergeStrictlyOrdered
from slackwater.policies.agreement import Agreement, Revise
from slackwater.testing.oracles.merging import R3

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from measure import Report
    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission

    Batches = Sequence[Sequence[EventBatch]]
    Turns = Sequence[tuple[int, EventBatch]]

BATCH = 4_096


class Merge(Protocol):
    """Whatever takes the batches of replicas and hands out one stream."""

    def on_batch(self, port: int, batch: EventBatch) -> Emission:
        """Take a batch."""


class CleanseThenMerge:
    """Every replica is cleansed by itself; what comes out is in order, and R1 is enough."""

    __slots__ = ("_cleanse", "_merge")

    def __init__(self, replicas: int, no_rows: pa.RecordBatch) -> None:
        self._cleanse = [CleanseOperator(no_rows) for _ in range(replicas)]
        self._merge = MergeOrderedAlike(replicas, no_rows)

    def on_batch(self, port: int, batch: EventBatch) -> Emission:
        """Cleanse, and merge what is settled."""
        from slackwater.operators.emission import Emission

        settled = self._cleanse[port].on_batch(port, batch).batches
        return Emission.of(*(out for one in settled for out in self._merge.on_batch(port, one).batches))


ORDERED: dict[str, Callable[..., Merge]] = {
    "R0": MergeStrictlyOrdered,
    "R1": MergeOrderedAlike,
    "R2": MergeOrderedWithKey,
    "R3": MergeRevisedWithKey,
    "R3-": MergeRevisedApart,
    "R4": MergeRevised,
}
"""All variants can merge replicas that are strictly ordered and never revised."""

REVISED: dict[str, Callable[..., Merge]] = {
    "R3": MergeRevisedWithKey,
    "R3-": MergeRevisedApart,
    "C+R1": CleanseThenMerge,
}
"""The variants of figure 6."""

PREFIX = 12
"""Batches of each replica that plain Python merges: its time for an element is taken for all, which flatters it."""


def run(report: Report, *, quick: bool) -> None:
    """Measure everything."""
    inputs, repeats = ((2, 4, 10), 3) if quick else ((2, 4, 6, 8, 10), 5)
    few, many = (16_000, 50_000) if quick else (50_000, 200_000)
    _ordered(report, Generator(few, stable_freq=0.01, disorder=0, alive=few // 10, word_bytes=1_000), inputs, repeats)
    _revised(report, Generator(many, stable_freq=0.001, revised=0.2), inputs, repeats)
    _batch_sizes(report, Generator(many, stable_freq=0.001, revised=0.2), (1_024, 4_096, 16_384, 65_536), repeats)
    _long_payloads(report, Generator(few, stable_freq=0.001, alive=2_000, word_bytes=1_000), repeats)
    _chattiness(report, Generator(many // 4), (0.0, 0.2, 0.5) if quick else (0.0, 0.1, 0.2, 0.3, 0.5, 0.8))
    _stable_freq(report, Generator(many // 2), (1e-5, 1e-3, 1e-2) if quick else (1e-5, 1e-4, 1e-3, 3e-3, 1e-2), repeats)
    _lag(report, Generator(many // 2, stable_freq=0.001), (0, 2, 5) if quick else (0, 1, 2, 3, 4, 5), repeats)
    _cleansed(report, Generator(many // 2, stable_freq=0.001, disorder=0.5), inputs, repeats)
    _live_doubled(report, Generator(many, stable_freq=0.01), repeats)


# ---- feeding ---------------------------------------------------------------------------------------------------------


def _batches(generator: Generator, inputs: int, words: pa.Array | None = None, rows: int = BATCH) -> Batches:
    return [generator.replica(seed).batches(rows, words) for seed in range(1, inputs + 1)]


def _elements(batches: Batches) -> int:
    return sum(len(batch) for replica in batches for batch in replica)


def _no_rows(batch: EventBatch) -> pa.RecordBatch:
    """An empty payload with memory of its own, for a slice would keep the batch alive."""
    return no_rows(batch.payload.schema)


def _turns(batches: Batches) -> Turns:
    """Replicas in turn, batch by batch: the first leads, the others tell the same a little later."""
    rounds = zip_longest(*batches)
    return [(port, batch) for together in rounds for port, batch in enumerate(together) if batch is not None]


def _merge(variant: Callable[..., Merge], inputs: int, turns: Turns) -> int:
    """Merge all; return how many elements went out."""
    merge = variant(inputs, _no_rows(turns[0][1]))
    return sum(len(out) for port, batch in turns for out in merge.on_batch(port, batch).batches)


def _peak(variant: Callable[..., Merge], inputs: int, turns: Turns) -> float:
    """The most that a merge has in memory, in MiB, looked at now and then."""
    merge, peak = variant(inputs, _no_rows(turns[0][1])), 0
    for number, (port, batch) in enumerate(turns):
        merge.on_batch(port, batch)
        if number % 5 == 0:
            peak = max(peak, held_bytes(merge))
    return peak / 2**20


def _speeds(variants: dict[str, Callable[..., Merge]], batches: Batches, repeats: int) -> dict[str, float]:
    """Millions of elements per second, those of all replicas counted."""
    turns, inputs = _turns(batches), len(batches)
    work = {name: partial(_merge, variant, inputs, turns) for name, variant in variants.items()}
    return {name: _elements(batches) / taken / 1e6 for name, taken in medians(interleaved(work, repeats)).items()}


def _by_inputs(
    variants: dict[str, Callable[..., Merge]], made: Callable[[int], Batches], inputs: Sequence[int], repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Throughput and memory of each variant, for each number of replicas."""
    speed: dict[str, list[float]] = {name: [] for name in variants}
    memory: dict[str, list[float]] = {name: [] for name in variants}
    for count in inputs:
        batches = made(count)
        turns = _turns(batches)
        for name, value in _speeds(variants, batches, repeats).items():
            speed[name].append(value)
            memory[name].append(_peak(variants[name], count, turns))
    return speed, memory


def _tables(
    report: Report,
    title: str,
    along: tuple[str, Sequence[Any]],
    speed: dict[str, list[float]],
    memory: dict[str, list[float]],
) -> None:
    what, values = along
    for measured, figures in (("M elements/s", speed), ("the most in memory, MiB", memory)):
        rows = [[value, *(column[i] for column in figures.values())] for i, value in enumerate(values)]
        report.table(f"{title}: {measured}", (what, *figures), rows)


# ---- figures 2 and 3 -------------------------------------------------------------------------------------------------


def _ordered(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """All variants on ordered replicas without adjusts, with the paper's payloads."""
    told = generator.replica(1).batches(BATCH, generator.words())
    speed, memory = _by_inputs(ORDERED, lambda count: [told] * count, inputs, repeats)
    _tables(report, "ordered replicas, payloads of 1,000 bytes", ("inputs", inputs), speed, memory)
    for name in ("R3", "R3-"):
        report.figures[f"{_plain(name)}_memory_10_over_2_inputs"] = round(memory[name][-1] / memory[name][0], 2)
    short = [replace(generator, events=4 * generator.events, word_bytes=0).replica(1).batches(BATCH)] * 4
    plain = _speeds(ORDERED, short, repeats)
    report.table("4 ordered replicas, payloads of one integer: M elements/s", tuple(plain), [list(plain.values())])
    for name, value in plain.items():
        report.figures[f"{_plain(name)}_ordered_melements_per_s"] = round(value, 2)
    report.series["ordered"] = {"inputs": inputs, "speed": speed, "memory": memory}


def _plain(name: str) -> str:
    return {"R3-": "r3_minus", "C+R1": "cleanse"}.get(name, name.lower())


# ---- beside others ---------------------------------------------------------------------------------------------------


def _revised(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """R3 and R4 on disordered, revised replicas, beside plain Python and Polars (which only drops doubled inserts)."""
    rows = []
    ratios: dict[str, list[float]] = {"pure_python": [], "polars_unique": []}
    for count in inputs:
        batches = _batches(generator, count)
        turns, part = _turns(batches), _turns([replica[:PREFIX] for replica in batches])
        spelled_out = [(port, list(elements_of(batch))) for port, batch in part]
        work: dict[str, Callable[[], int]] = {
            "R3": partial(_merge, MergeRevisedWithKey, count, turns),
            "R4": partial(_merge, MergeRevised, count, turns),
            "polars": partial(_unique, _frames(turns)),
            "Python": partial(_in_python, spelled_out, count),
        }
        seconds = medians(interleaved(work, repeats))
        total, prefix = _elements(batches), sum(len(elements) for _, elements in spelled_out)
        speed = {name: (prefix if name == "Python" else total) / taken / 1e6 for name, taken in seconds.items()}
        ratios["pure_python"].append(speed["R3"] / speed["Python"])
        ratios["polars_unique"].append(speed["R3"] / speed["polars"])
        rows.append([count, *speed.values(), speed["R3"] / speed["Python"], speed["R3"] / speed["polars"]])
    columns = ("inputs", "R3 M/s", "R4 M/s", "polars M/s", "Python M/s", "R3 / Python", "R3 / polars")
    report.table(f"20 % disordered, 20 % revised, batches of {BATCH:,}, payloads of one integer", columns, rows)
    for rival, found in ratios.items():
        report.figures[f"r3_over_{rival}"] = round(min(found), 1)


def _batch_sizes(report: Report, generator: Generator, sizes: Sequence[int], repeats: int) -> None:
    """R3 and Polars by the size of batches: what either spends on a batch before it looks at a row weighs on both."""
    rows = []
    for size in sizes:
        batches = _batches(generator, 2, rows=size)
        turns = _turns(batches)
        work = {"R3": partial(_merge, MergeRevisedWithKey, 2, turns), "polars": partial(_unique, _frames(turns))}
        seconds = medians(interleaved(work, repeats))
        speed = {name: _elements(batches) / taken / 1e6 for name, taken in seconds.items()}
        rows.append([f"{size:,}", *speed.values(), speed["R3"] / speed["polars"]])
        report.figures[f"r3_over_polars_unique_{size}"] = round(speed["R3"] / speed["polars"], 1)
    columns = ("rows per batch", "R3 M/s", "polars M/s", "R3 / polars")
    report.table("2 disordered, revised replicas by the size of batches", columns, rows)


def _frames(turns: Turns) -> list[pl.DataFrame]:
    """The rows of each batch as a frame, made beforehand."""
    frames = []
    for _, batch in turns:
        data = batch.data()
        frame: Any = pl.from_arrow(data.payload)
        frames.append(frame.with_columns(start=pl.Series(data.start)))
    return frames


def _unique(frames: Sequence[pl.DataFrame]) -> int:
    """Drop doubled rows as they come: those of the batch, and those that are still known from before."""
    known, told = frames[0].clear(), 0
    for frame in frames:
        new = frame.unique(subset=["number", "start"]).join(known, on=["number", "start"], how="anti")
        told += len(new)
        known = pl.concat([known, new]).tail(20_000)
    return told


def _in_python(turns: Sequence[tuple[int, list[Any]]], inputs: int) -> int:
    merge, told = R3(inputs), 0
    for port, elements in turns:
        for element in elements:
            told += len(merge.take(port, element))
    return told


def _long_payloads(report: Report, generator: Generator, repeats: int) -> None:
    """R3 with words of 1,000 bytes, compared to the last byte."""
    batches = _batches(generator, 4, generator.words())
    speed = _speeds({"R3": MergeRevisedWithKey}, batches, repeats)["R3"]
    report.table("4 disordered replicas, payloads of an integer and 1,000 bytes: M elements/s", ("R3",), [[speed]])
    report.figures["r3_1kb_melements_per_s"] = round(speed, 2)


# ---- figures 4 and 5 -------------------------------------------------------------------------------------------------


def _chattiness(report: Report, generator: Generator, disorders: Sequence[float]) -> None:
    """How many adjusts replicas tell that revise as many events as they disorder, and how many the merge does."""
    rows = []
    for disorder in disorders:
        batches = _batches(replace(generator, disorder=disorder, revised=disorder, revisions=3), 3)
        told = []
        for agreement in (Agreement.first(), Agreement.first().revising(Revise.ALWAYS)):
            merge = MergeRevisedWithKey(3, _no_rows(batches[0][0]), agreement=agreement)
            outs = (out for port, batch in _turns(batches) for out in merge.on_batch(port, batch).batches)
            told.append(sum(map(_adjusts, outs)))
        rows.append([disorder, sum(map(_adjusts, batches[0])), *told])
    report.table(
        "adjusts, by the fraction of events that are disordered and revised three times (figure 4)",
        ("disorder", "one replica", "three, merged", "merged, all revisions told"),
        rows,
    )
    report.figures["chattiness_merged_over_one_replica"] = round(rows[-1][2] / max(rows[-1][1], 1), 3)
    report.series["chattiness"] = rows


def _adjusts(batch: EventBatch) -> int:
    return int(np.count_nonzero(batch.kinds() == Kind.ADJUST))


def _stable_freq(report: Report, generator: Generator, frequencies: Sequence[float], repeats: int) -> None:
    """Memory and throughput by how often replicas punctuate."""
    variants = {name: ORDERED[name] for name in ("R0", "R1", "R2", "R3", "R4")}
    speed: dict[str, list[float]] = {name: [] for name in variants}
    memory: dict[str, list[float]] = {name: [] for name in variants}
    for frequency in frequencies:
        batches = [replace(generator, stable_freq=frequency, disorder=0).replica(1).batches(BATCH)] * 3
        turns = _turns(batches)
        for name, value in _speeds(variants, batches, repeats).items():
            speed[name].append(value)
            memory[name].append(_peak(variants[name], 3, turns))
    _tables(report, "by StableFreq (figure 5)", ("frequency", frequencies), speed, memory)
    report.series["stable_freq"] = {"frequencies": frequencies, "speed": speed, "memory": memory}


def _lag(report: Report, generator: Generator, seconds: Sequence[int], repeats: int) -> None:
    """Three replicas of which two are behind by so many seconds, at 5,000 elements per second."""
    batches = _batches(generator, 3)
    per_second = 5_000 / BATCH
    speeds = []
    for lag in seconds:
        behind = round(lag * per_second)
        lagging = [batches[0], *([None] * behind + list(replica) for replica in batches[1:])]
        turns = _turns(lagging)  # type: ignore[arg-type]
        taken = medians(interleaved({"R3": partial(_merge, MergeRevisedWithKey, 3, turns)}, repeats))["R3"]
        speeds.append(_elements(batches) / taken / 1e6)
    rows = [list(pair) for pair in zip(seconds, speeds, strict=True)]
    report.table("two of three replicas behind (the report's figure 5): M elements/s", ("seconds", "R3"), rows)
    report.figures["r3_lagging_over_even_throughput"] = round(speeds[-1] / speeds[0], 2)
    report.series["lag"] = {"seconds": seconds, "speed": speeds}


# ---- figure 6 --------------------------------------------------------------------------------------------------------


def _cleansed(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """R3 on revised replicas, beside putting each in order first."""
    told = [generator.aggregated(seed, BATCH) for seed in range(1, max(inputs) + 1)]
    adjusts = sum(map(_adjusts, told[0])) / sum(map(len, told[0]))
    speed, memory = _by_inputs(REVISED, lambda count: told[:count], inputs, repeats)
    title = f"counts over windows, 50 % disorder, {adjusts:.0%} adjusts (figure 6)"
    _tables(report, title, ("inputs", inputs), speed, memory)
    delays = {name: _delay(variant, told[:2]) for name, variant in REVISED.items()}
    report.table("elements that come in before an event goes out, on average", tuple(delays), [list(delays.values())])
    report.figures["cleanse_memory_over_r3_10_inputs"] = round(memory["C+R1"][-1] / memory["R3"][-1], 2)
    report.figures["r3_over_cleanse_throughput_10_inputs"] = round(speed["R3"][-1] / speed["C+R1"][-1], 2)
    report.figures["r3_over_r3_minus_throughput_10_inputs"] = round(speed["R3"][-1] / speed["R3-"][-1], 2)
    report.figures["cleanse_delay_elements"] = round(delays["C+R1"])
    report.figures["r3_delay_elements"] = round(delays["R3"])
    report.series["cleansed"] = {"inputs": inputs, "speed": speed, "memory": memory, "delay": delays}


def _delay(variant: Callable[..., Merge], batches: Batches) -> float:
    """How many elements come in, on average, between the first insert of an event and its way out."""
    merge = variant(len(batches), _no_rows(batches[0][0]))
    came: dict[Any, int] = {}
    waited, at = [], 0
    for port, batch in _turns(batches):
        for key in _inserted(batch):
            came.setdefault(key, at)
        for out in merge.on_batch(port, batch).batches:
            waited += [at - came.pop(key) for key in _inserted(out) if key in came]
        at += len(batch)
    return float(np.mean(waited))


def _inserted(batch: EventBatch) -> list[tuple[Any, ...]]:
    """Start and payload of the inserts of a batch."""
    is_insert = batch.data().kinds() == Kind.INSERT if batch.kind is not None else np.ones(batch.rows, dtype=bool)
    rows = zip(batch.data().start.tolist(), *(column.to_pylist() for column in batch.payload.columns), strict=True)
    return [row for row, inserted in zip(rows, is_insert, strict=True) if inserted]


# ---- what a punctuation costs ----------------------------------------------------------------------------------------


def _live_doubled(report: Report, generator: Generator, repeats: int) -> None:
    """R3 with twice the living events and the same rate of freezing: it should hardly notice."""
    work = {}
    for name, alive in (("alive", generator.alive), ("doubled", 2 * generator.alive)):
        turns = _turns(_batches(replace(generator, alive=alive), 2))
        work[name] = partial(_merge, MergeRevisedWithKey, 2, turns)
    seconds = medians(interleaved(work, repeats))
    slower = seconds["doubled"] / seconds["alive"]
    report.table("R3, seconds by the events alive", ("10,000", "20,000", "ratio"), [[*seconds.values(), slower]])
    report.figures["r3_time_with_doubled_live_events"] = round(slower, 2)
