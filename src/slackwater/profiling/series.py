"""What a profile draws: lateness over time, by source, and between sources; a few numbers, however many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.progress.recorded_rows import greatest_skews
from slackwater.progress.instants import BEGINNING, Duration

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from slackwater.profiling.recording import Recording

    Column = NDArray[np.int64]

_SPANS: Final = 200
"""So many parts of the recording have a point each."""

HEAT_SOURCES: Final = 30
"""So many sources, those with the most rows, have a line of classes of lateness."""

SKEW_SOURCES: Final = 12
"""So many are compared with each other."""


@dataclass(frozen=True)
class SpanOfRows:
    """Some rows that came one after the other."""

    first: int
    """The place of its first row."""

    arrived: int | None
    """When that one arrived, by the clock of arrival."""

    rows: int
    median: Duration
    """How far half of the rows are behind the newest, at most."""

    greatest: Duration
    silence: Duration | None
    """The longest time without any row, up to the first row of the next span."""


def spans_of(recording: Recording) -> tuple[SpanOfRows, ...]:
    """The recording in parts of about as many rows."""
    count = len(recording.times)
    begins = span_begins(count)
    arrived = recording.arrived
    gaps = None if arrived is None else np.append(np.diff(arrived), 0)
    found = []
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        late = recording.lateness[begin:end]
        found.append(
            SpanOfRows(
                first=begin,
                arrived=None if arrived is None else int(arrived[begin]),
                rows=end - begin,
                median=int(np.partition(late, (len(late) - 1) // 2)[(len(late) - 1) // 2]),
                greatest=int(late.max()),
                silence=None if gaps is None else int(gaps[begin:end].max()),
            )
        )
    return tuple(found)


def span_begins(count: int) -> Column:
    """Where parts of the recording begin, and the end of the last one."""
    return np.unique(np.linspace(0, count, min(_SPANS, count) + 1).astype(np.int64))


@dataclass(frozen=True)
class Heat:
    """How many rows of a source are how late: a count for each power of two, the first for rows that are not late."""

    name: Hashable
    rows: tuple[int, ...]


def heat_of(recording: Recording) -> tuple[Heat, ...]:
    """The sources with the most rows, and how late these are. Class n > 0 has lateness from 2**(n - 1) on."""
    codes = recording.codes
    if codes is None:
        return ()
    classes = class_of(recording.lateness)
    width = int(classes.max()) + 1
    counts = np.bincount(codes * width + classes, minlength=len(recording.names) * width).reshape(-1, width)
    rows = counts.sum(axis=1)  # none for a source all of whose rows were without a time
    most = [code for code in np.argsort(-rows, kind="stable").tolist() if rows[code]][:HEAT_SOURCES]
    return tuple(Heat(recording.names[code], tuple(counts[code].tolist())) for code in most)


def class_of(lateness: NDArray[np.uint64]) -> Column:
    """The power of two that each lateness has passed; 0 for a row that is not late."""
    classes: Column = np.ceil(np.log2(lateness.astype(np.float64) + 1)).astype(np.int64)
    classes[(lateness > 0) & (classes == 0)] = 1
    return classes


@dataclass(frozen=True)
class Skew:
    """How far rows of one source are behind the newest row of another, at most."""

    ahead: Hashable
    behind: Hashable
    by: Duration


def skews_of(recording: Recording) -> tuple[Skew, ...]:
    """Of the sources with the most rows, each with each; itself included."""
    codes = recording.codes
    if codes is None:
        return ()
    rows = np.bincount(codes, minlength=len(recording.names))
    most = np.argsort(-rows, kind="stable")[:SKEW_SOURCES]
    most = most[rows[most] > 0]
    numbers = np.full(len(recording.names), -1)
    numbers[most] = np.arange(len(most))
    found = np.zeros((len(most), len(most)), dtype=np.int64)
    greatest_skews(numbers[codes], recording.times, np.full(len(most), BEGINNING), found)
    names = [recording.names[code] for code in most.tolist()]
    return tuple(
        Skew(ahead, behind, by)
        for ahead, row in zip(names, found.tolist(), strict=True)
        for behind, by in zip(names, row, strict=True)
    )
