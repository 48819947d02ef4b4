"""The streams that sorts are measured on, and what they are like."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import disordered
from slackwater.disorder.profile import DisorderProfile
from slackwater.kernels.sorting.measure_disorder import append_to_runs, count_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from numpy.typing import NDArray

    from measure import Report

    Column = NDArray[np.int64]

NEARLY_ORDERED: dict[str, Callable[[int], Column]] = {
    "s0": partial(disordered.synthetic, percent=0, spread=64),
    **{f"s{p}_64": partial(disordered.synthetic, percent=p, spread=64) for p in (0.01, 0.1, 0.4)},
}
"""Streams with less than 1 % out of order; s0 has nothing out of order."""

GENERATORS: dict[str, Callable[[int], Column]] = {
    **NEARLY_ORDERED,
    **{
        f"s{percent}_{spread}": partial(disordered.synthetic, percent=percent, spread=spread)
        for percent in (1, 10, 30, 100)
        for spread in (16, 64, 1024)
    },
    "cloud_like": disordered.cloud_like,
    "android_like": disordered.android_like,
}
"""All generated streams, the paper's among them: s30_64 has 30 % of its events moved back by |N(0, 64)|."""

CHOSEN = ("s30_64", "cloud_like", "android_like")
"""The streams of figure 8, and of all that is too slow to be measured on every stream."""

QUICKLY = (*NEARLY_ORDERED, "s1_64", *CHOSEN)
"""The streams of a short run."""

ONE_PERCENT = ("s1_16", "s1_64", "s1_1024")
"""The streams with 1 % out of order."""

SHAPE = ("data", "events", "natural run", "interleaved", "distance", "late", "greatest lateness")


def real_streams() -> dict[str, Column]:
    """The real files, if they are there, and the flights."""
    departures, left_out = disordered.flights()
    print(f"flights: {len(departures):,} landed, {left_out:,} without departure or time in the air left out")
    return {**disordered.real_streams(), "flights": departures}


def latency_of(times: Column) -> int:
    """The greatest lateness: with this latency no event is late, and all contenders hand out all events."""
    return int((np.maximum.accumulate(times) - times).max())


def is_disordered(name: str) -> bool:
    """Whether at least a tenth of a generated stream is out of order."""
    return name not in NEARLY_ORDERED and name not in ONE_PERCENT


def describe(report: Report, title: str, streams: Iterable[tuple[str, Column]], whole: Container[str]) -> None:
    """What streams look like. Distance and lateness cost more to know: only of those in `whole`."""
    report.table(title, SHAPE, [_shape(name, times, whole=name in whole) for name, times in streams])


def _shape(name: str, times: Column, *, whole: bool) -> list[Any]:
    shape: list[Any] = [name, f"{len(times):,}", len(times) / count_runs(times), len(append_to_runs(times))]
    if not whole:
        return [*shape, "-", "-", "-"]
    profile = DisorderProfile.of(times)
    return [*shape, f"{profile.distance:,}", f"{profile.late_fraction:.1%}", f"{profile.lateness[1.0]:,}"]
