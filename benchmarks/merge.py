"""Merging replicas: memory and speed of all variants, beside others, and as replicas, events and payloads grow.

    this file      figures 2 to 6 of the paper: all variants, in one process
    merge_rivals   beside plain Python and Polars
    merge_latency  how long an event waits, in milliseconds (VI-D)
    merge_growth   time and space by inputs, events, payloads, ties and duplicates (Table IV)
    merge_memory   by how much a fresh process grows

Papers: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections VI-C and VI-D,
figures 2 to 6; and its technical report, figure 5.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import merge_growth
import merge_latency
import merge_memory
import merge_rivals
from measure import interleaved, medians
from merge_feeding import (
    BATCH,
    ORDERED,
    REVISED,
    batches_of,
    by_inputs,
    elements_in,
    empty_like,
    merge_all,
    peak_mib,
    plain_name,
    speeds,
    tables,
    turns_of,
)
from replicated import Generator
from slackwater.events.kinds import Kind
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.policies.agreement import Agreement, Revise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from measure import Report
    from slackwater.events.batch import EventBatch


def run(report: Report, *, quick: bool) -> None:
    """Measure everything."""
    inputs, repeats = ((2, 10), 3) if quick else ((2, 4, 6, 8, 10), 5)
    few, many = (10_000, 30_000) if quick else (50_000, 200_000)
    _ordered(report, Generator(few, stable_freq=0.01, disorder=0, alive=few // 10, word_bytes=1_000), inputs, repeats)
    merge_rivals.run(report, few, many, inputs, repeats, quick=quick)
    _chattiness(report, Generator(many // 4), (0.0, 0.2, 0.5) if quick else (0.0, 0.1, 0.2, 0.3, 0.5, 0.8))
    _stable_freq(report, Generator(many // 2), (1e-5, 1e-3, 1e-2) if quick else (1e-5, 1e-4, 1e-3, 3e-3, 1e-2), repeats)
    _lag(report, Generator(many // 2, stable_freq=0.001), (0, 5) if quick else (0, 1, 2, 3, 4, 5), repeats)
    _cleansed(report, Generator(many // 4 if quick else many // 2, stable_freq=0.001, disorder=0.5), inputs, repeats)
    _live_doubled(report, Generator(many, stable_freq=0.01), repeats)
    merge_latency.run(report, seconds=3 if quick else 20)
    merge_growth.run(report, quick=quick)
    merge_memory.run(report, few, many // 2, quick=quick)


# ---- figures 2 and 3 -------------------------------------------------------------------------------------------------


def _ordered(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """All variants on ordered replicas without adjusts, with the paper's payloads."""
    told = generator.replica(1).batches(BATCH, generator.words())
    speed, memory = by_inputs(ORDERED, lambda count: [told] * count, inputs, repeats)
    tables(report, "ordered replicas, payloads of 1,000 bytes", ("inputs", inputs), speed, memory)
    for name in ("R3", "R3-"):
        report.figures[f"{plain_name(name)}_held_bytes_10_over_2_inputs"] = round(memory[name][-1] / memory[name][0], 2)
    short = [replace(generator, events=4 * generator.events, word_bytes=0).replica(1).batches(BATCH)] * 4
    plain = speeds(ORDERED, short, repeats)
    report.table("4 ordered replicas, payloads of one integer: M elements/s", tuple(plain), [list(plain.values())])
    for name, value in plain.items():
        report.figures[f"{plain_name(name)}_ordered_melements_per_s"] = round(value, 2)
    report.series["ordered"] = {"inputs": inputs, "speed": speed, "memory": memory}


# ---- figures 4 and 5 -------------------------------------------------------------------------------------------------


def _chattiness(report: Report, generator: Generator, disorders: Sequence[float]) -> None:
    """How many adjusts replicas tell that revise as many events as they disorder, and how many the merge does."""
    rows = []
    for disorder in disorders:
        batches = batches_of(replace(generator, disorder=disorder, revised=disorder, revisions=3), 3)
        told = []
        for agreement in (Agreement.first(), Agreement.first().revising(Revise.ALWAYS)):
            merge = MergeRevisedWithKey(3, empty_like(batches[0][0]), agreement=agreement)
            outs = (out for port, batch in turns_of(batches) for out in merge.on_batch(port, batch).batches)
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
        turns = turns_of(batches)
        for name, value in speeds(variants, batches, repeats).items():
            speed[name].append(value)
            memory[name].append(peak_mib(variants[name], 3, turns))
    tables(report, "by StableFreq (figure 5)", ("frequency", frequencies), speed, memory)
    report.series["stable_freq"] = {"frequencies": frequencies, "speed": speed, "memory": memory}


def _lag(report: Report, generator: Generator, seconds: Sequence[int], repeats: int) -> None:
    """Three replicas of which two are behind by so many seconds, at 5,000 elements per second."""
    batches = batches_of(generator, 3)
    per_second = 5_000 / BATCH
    speeds = []
    for lag in seconds:
        behind = round(lag * per_second)
        lagging = [batches[0], *([None] * behind + list(replica) for replica in batches[1:])]
        turns = turns_of(lagging)  # type: ignore[arg-type]
        taken = medians(interleaved({"R3": partial(merge_all, MergeRevisedWithKey, 3, turns)}, repeats))["R3"]
        speeds.append(elements_in(batches) / taken / 1e6)
    rows = [list(pair) for pair in zip(seconds, speeds, strict=True)]
    report.table("two of three replicas behind (the report's figure 5): M elements/s", ("seconds", "R3"), rows)
    report.figures["r3_lagging_over_even_throughput"] = round(speeds[-1] / speeds[0], 2)
    report.series["lag"] = {"seconds": seconds, "speed": speeds}


# ---- figure 6 --------------------------------------------------------------------------------------------------------


def _cleansed(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """R3 on revised replicas, beside putting each in order first."""
    told = [generator.aggregated(seed, BATCH) for seed in range(1, max(inputs) + 1)]
    adjusts = sum(map(_adjusts, told[0])) / sum(map(len, told[0]))
    speed, memory = by_inputs(REVISED, lambda count: told[:count], inputs, repeats)
    title = f"counts over windows, 50 % disorder, {adjusts:.0%} adjusts (figure 6)"
    tables(report, title, ("inputs", inputs), speed, memory)
    report.figures["cleanse_over_r3_held_bytes_10_inputs"] = round(memory["C+R1"][-1] / memory["R3"][-1], 2)
    report.figures["r3_over_cleanse_throughput_10_inputs"] = round(speed["R3"][-1] / speed["C+R1"][-1], 2)
    report.figures["r3_over_r3_minus_throughput_10_inputs"] = round(speed["R3"][-1] / speed["R3-"][-1], 2)
    report.series["cleansed"] = {"inputs": inputs, "speed": speed, "memory": memory}


# ---- what a punctuation costs ----------------------------------------------------------------------------------------


def _live_doubled(report: Report, generator: Generator, repeats: int) -> None:
    """R3 with twice the living events and the same rate of freezing: it should hardly notice."""
    work = {}
    for name, alive in (("alive", generator.alive), ("doubled", 2 * generator.alive)):
        turns = turns_of(batches_of(replace(generator, alive=alive), 2))
        work[name] = partial(merge_all, MergeRevisedWithKey, 2, turns)
    seconds = medians(interleaved(work, repeats))
    slower = seconds["doubled"] / seconds["alive"]
    report.table("R3, seconds by the events alive", ("10,000", "20,000", "ratio"), [[*seconds.values(), slower]])
    report.figures["r3_time_with_doubled_live_events"] = round(slower, 2)
