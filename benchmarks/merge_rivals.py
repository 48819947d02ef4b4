"""R3 beside others: plain Python, and Polars dropping duplicates, by the number of replicas and the size of batches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from measure import interleaved, medians
from merge_feeding import BATCH, batches_of, elements_in, merge_all, speeds, turns_of
from python_merge import PythonMerge
from replicated import Generator
from slackwater.events.elements import elements_of
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from measure import Report
    from merge_feeding import Turns

SIZES = (64, 256, 1_024, 4_096, 16_384, 65_536)
"""Elements of a batch."""


def run(report: Report, few: int, many: int, inputs: Sequence[int], repeats: int, *, quick: bool) -> None:
    """Measure everything.

    Plain Python merges the first batches of each replica: its time for an element is taken for all, which flatters it.
    """
    revised = Generator(many, stable_freq=0.001, revised=0.2)
    _revised(report, revised, inputs, repeats, prefix=4 if quick else 12)
    _batch_sizes(report, revised, repeats, most=100 if quick else 400)
    _long_payloads(report, Generator(few, stable_freq=0.001, alive=2_000, word_bytes=1_000), repeats)


def _revised(report: Report, generator: Generator, inputs: Sequence[int], repeats: int, prefix: int) -> None:
    """R3 and R4 on disordered, revised replicas, beside plain Python and Polars (which only drops doubled inserts)."""
    rows = []
    ratios: dict[str, list[float]] = {"pure_python": [], "polars_unique": []}
    for count in inputs:
        batches = batches_of(generator, count)
        turns, part = turns_of(batches), turns_of([replica[:prefix] for replica in batches])
        spelled_out = [(port, list(elements_of(batch))) for port, batch in part]
        work: dict[str, Callable[[], int]] = {
            "R3": partial(merge_all, MergeRevisedWithKey, count, turns),
            "R4": partial(merge_all, MergeMultiset, count, turns),
            "polars": partial(_unique, _frames(turns)),
            "Python": partial(_in_python, spelled_out, count),
        }
        seconds = medians(interleaved(work, repeats))
        total, in_part = elements_in(batches), sum(len(elements) for _, elements in spelled_out)
        speed = {name: (in_part if name == "Python" else total) / taken / 1e6 for name, taken in seconds.items()}
        ratios["pure_python"].append(speed["R3"] / speed["Python"])
        ratios["polars_unique"].append(speed["R3"] / speed["polars"])
        rows.append([count, *speed.values(), speed["R3"] / speed["Python"], speed["R3"] / speed["polars"]])
    columns = ("inputs", "R3 M/s", "R4 M/s", "polars M/s", "Python M/s", "R3 / Python", "R3 / polars")
    report.table(f"20 % disordered, 20 % revised, batches of {BATCH:,}, payloads of one integer", columns, rows)
    for rival, found in ratios.items():
        report.figures[f"r3_over_{rival}_batches_{BATCH}_least"] = round(min(found), 1)
        report.figures[f"r3_over_{rival}_batches_{BATCH}_most"] = round(max(found), 1)


def _batch_sizes(report: Report, generator: Generator, repeats: int, most: int) -> None:
    """R3 and Polars by the size of batches: what either spends on a batch before it looks at a row weighs on both."""
    rows = []
    for size in SIZES:
        # Of small batches some hundreds are enough to know what one costs; the events alive are as many all the same.
        batches = [replica[:most] for replica in batches_of(generator, 2, rows=size)]
        turns = turns_of(batches)
        work = {"R3": partial(merge_all, MergeRevisedWithKey, 2, turns), "polars": partial(_unique, _frames(turns))}
        seconds = medians(interleaved(work, repeats))
        speed = {name: elements_in(batches) / taken / 1e6 for name, taken in seconds.items()}
        rows.append([f"{size:,}", *speed.values(), speed["R3"] / speed["polars"]])
        report.figures[f"r3_over_polars_unique_batches_{size}"] = round(speed["R3"] / speed["polars"], 1)
        report.figures[f"r3_melements_per_s_batches_{size}"] = round(speed["R3"], 2)
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
    merge, told = PythonMerge(inputs), 0
    for port, elements in turns:
        for element in elements:
            told += len(merge.take(port, element))
    return told


def _long_payloads(report: Report, generator: Generator, repeats: int) -> None:
    """R3 with words of 1,000 bytes, compared to the last byte."""
    batches = batches_of(generator, 4, generator.words())
    speed = speeds({"R3": MergeRevisedWithKey}, batches, repeats)["R3"]
    report.table("4 disordered replicas, payloads of an integer and 1,000 bytes: M elements/s", ("R3",), [[speed]])
    report.figures["r3_1kb_melements_per_s"] = round(speed, 2)
