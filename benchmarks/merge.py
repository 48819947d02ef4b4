"""Merging replicas: throughput and memory by the number of inputs, beside plain Python and dropping duplicates.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-C, figures 2 and 3.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from held import held_bytes
from measure import interleaved, medians
from replicated import Generator
from slackwater.events.elements import elements_of
from slackwater.operators.merging.ordered_alike import MergeOrderedAlike
from slackwater.operators.merging.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.merging.revised import MergeRevised
from slackwater.operators.merging.revised_with_key import MergeRevisedWithKey
from slackwater.operators.merging.strictly_ordered import MergeStrictlyOrdered
from slackwater.testing.oracles.merging import R3

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from measure import Report
    from slackwater.events.batch import EventBatch

    Batches = Sequence[Sequence[EventBatch]]

BATCH = 4_096
VARIANTS: dict[str, Any] = {
    "R0": MergeStrictlyOrdered,
    "R1": MergeOrderedAlike,
    "R2": MergeOrderedWithKey,
    "R3": MergeRevisedWithKey,
    "R4": MergeRevised,
}
PREFIX = 12
"""Batches of each replica that plain Python merges: its time for an element is taken for all, which flatters it."""


def run(report: Report, *, quick: bool) -> None:
    """Measure everything."""
    events, inputs, repeats = (60_000, (2, 4, 10), 3) if quick else (200_000, (2, 4, 6, 8, 10), 5)
    _ordered(report, Generator(events, stable_freq=0.001, disorder=0), inputs, repeats)
    _revised(report, Generator(events, stable_freq=0.001, revised=0.2), inputs, repeats)
    _long_payloads(report, Generator(events // 4, stable_freq=0.001, alive=2_000, word_bytes=1_000))


def _batches(generator: Generator, inputs: int, words: pa.Array | None = None) -> Batches:
    return [generator.replica(seed).batches(BATCH, words) for seed in range(1, inputs + 1)]


def _elements(batches: Batches) -> int:
    return sum(len(batch) for replica in batches for batch in replica)


def _turns(batches: Batches) -> list[tuple[int, EventBatch]]:
    """Replicas in turn, batch by batch: the first leads, the others tell the same a little later."""
    longest = max(map(len, batches))
    return [(port, replica[i]) for i in range(longest) for port, replica in enumerate(batches) if i < len(replica)]


def _merge(variant: Any, batches: Batches, peaks: list[int] | None = None) -> int:
    """Merge all; return how many elements went out, and note what was held on the way."""
    merge = variant(len(batches), batches[0][0].payload.slice(0, 0))
    told = 0
    for turn, (port, batch) in enumerate(_turns(batches)):
        told += sum(len(out) for out in merge.on_batch(port, batch).batches)
        if peaks is not None and turn % 8 == 0:
            peaks.append(held_bytes(merge.snapshot()))
    return told


def _ordered(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """All variants on ordered replicas without adjusts (figures 2 and 3)."""
    rows = []
    memory: dict[str, dict[int, float]] = {name: {} for name in VARIANTS}
    speed: dict[str, dict[int, float]] = {name: {} for name in VARIANTS}
    for count in inputs:
        batches = _batches(generator, count)
        seconds = medians(interleaved({name: partial(_merge, one, batches) for name, one in VARIANTS.items()}, repeats))
        for name, variant in VARIANTS.items():
            peaks: list[int] = []
            _merge(variant, batches, peaks)
            speed[name][count] = _elements(batches) / seconds[name] / 1e6
            memory[name][count] = max(peaks) / 2**20
        rows.append([count, *(speed[name][count] for name in VARIANTS), *(memory[name][count] for name in VARIANTS)])
    columns = ("inputs", *(f"{name} M/s" for name in VARIANTS), *(f"{name} MiB" for name in VARIANTS))
    report.table("ordered replicas without adjusts: elements per second, and the most that was held", columns, rows)
    report.figures["r3_memory_10_over_2_inputs"] = round(memory["R3"][10] / memory["R3"][2], 2)
    report.series["ordered"] = {"speed": speed, "memory": memory}


def _revised(report: Report, generator: Generator, inputs: Sequence[int], repeats: int) -> None:
    """R3 and R4 on disordered, revised replicas, beside plain Python and Polars (which only drops doubled inserts)."""
    rows, ratios = [], {"pure_python": [], "polars_unique": []}  # type: ignore[var-annotated]
    for count in inputs:
        batches = _batches(generator, count)
        part = [replica[:PREFIX] for replica in batches]
        spelled_out = [(port, list(elements_of(batch))) for port, batch in _turns(part)]
        work = {
            "R3": partial(_merge, MergeRevisedWithKey, batches),
            "R4": partial(_merge, MergeRevised, batches),
            "polars": partial(_unique, _frames(batches)),
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


def _frames(batches: Batches) -> list[pl.DataFrame]:
    """The inserts of each batch as a frame, made beforehand."""
    frames = []
    for _, batch in _turns(batches):
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


def _long_payloads(report: Report, generator: Generator) -> None:
    """R3 with words of 1,000 bytes, compared to the last byte."""
    batches = _batches(generator, 4, generator.words())
    seconds = medians(interleaved({"R3": partial(_merge, MergeRevisedWithKey, batches)}, repeats=3))["R3"]
    speed = _elements(batches) / seconds / 1e6
    report.table("payloads of an integer and 1,000 bytes", ("inputs", "R3 M/s"), [[4, speed]])
    report.figures["r3_1kb_melements_per_s"] = round(speed, 2)
