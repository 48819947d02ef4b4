"""Ordered union of two long streams against the NumPy way: concatenate, stable argsort, take every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import slackwater as sw
from measure import interleaved, medians

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from measure import Report

EVENTS = 10_000_000
"""Events of each of the two streams."""


def run(report: Report, *, quick: bool) -> None:
    """Time both on the same columns: a time, a float and an integer key."""
    columns = [_columns(seed) for seed in range(2)]
    tables = [pa.table(dict(column)) for column in columns]
    streams = [sw.stream(table, time="at").assume_ordered() for table in tables]
    ours = sw.union(*streams)

    def slackwater_union() -> pa.Table:
        return ours.run().table

    def numpy_union() -> dict[str, NDArray[np.generic]]:
        whole = {name: np.concatenate([columns[0][name], columns[1][name]]) for name in columns[0]}
        order = np.argsort(whole["at"], kind="stable")
        return {name: column.take(order) for name, column in whole.items()}

    made, expected = slackwater_union(), numpy_union()
    assert np.array_equal(made.column("at").to_numpy(), expected["at"]), "the two disagree"
    del made, expected
    seconds = medians(
        interleaved({"slackwater": slackwater_union, "numpy": numpy_union}, repeats=3 if quick else 7, warm_up=0)
    )
    rows = [(name, taken, 2 * EVENTS / taken / 1e6) for name, taken in seconds.items()]
    report.table(f"ordered union of two streams of {EVENTS:,} events", ("", "seconds", "M events/s"), rows)
    report.figures["union_over_numpy"] = round(seconds["numpy"] / seconds["slackwater"], 2)
    report.figures["union_mevents_per_s"] = round(2 * EVENTS / seconds["slackwater"] / 1e6, 1)


def _columns(seed: int) -> dict[str, NDArray[np.generic]]:
    rng = np.random.default_rng(seed)
    return {
        "at": np.sort(rng.integers(0, 10 * EVENTS, EVENTS)),
        "value": rng.random(EVENTS),
        "key": rng.integers(0, 1_000, EVENTS),
    }
