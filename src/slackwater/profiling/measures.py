"""What is measured of a recording, as frozen values: spreads, patiences, sources, copies.

Everything is exact, and comes from the rows: a quantile is a value that some row had. Copies alone are found by hashes
of 64 bits: of 20 million rows two that differ are taken for copies with a probability below 1 in 50,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.progress.recorded_rows import longest_silences, wait_by_patience
from slackwater.progress.instants import BEGINNING, FOREVER, Duration

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from slackwater.profiling.recording import Recording

    Column = NDArray[np.int64]

_FEW_SOURCES: Final = 1 << 16
"""So many sources have numbers that NumPy puts in order without comparing them."""

QUANTILES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
"""The quantiles that spreads have; 1.0 is the greatest."""


@dataclass(frozen=True)
class Spread:
    """Quantiles of a length over all rows, those included whose length is 0.

    >>> Spread.of(np.array([0, 0, 3, 9])).greatest
    9
    """

    at: tuple[tuple[float, Duration], ...]

    @classmethod
    def of(cls, lengths: NDArray[np.int64] | NDArray[np.uint64]) -> Spread:
        """Nearest ranks: no more than the rest of the rows has a greater length."""
        ranks = [len(lengths) - 1 - beyond(len(lengths), share) for share in QUANTILES]
        ordered = np.partition(lengths, sorted(set(ranks)))
        return cls(tuple((share, int(ordered[rank])) for share, rank in zip(QUANTILES, ranks, strict=True)))

    def __getitem__(self, share: float) -> Duration:
        return dict(self.at)[share]

    @property
    def greatest(self) -> Duration:
        """The greatest of all."""
        return self[1.0]


def beyond(rows: int, share: float) -> int:
    """How many rows may be left out so that at least a share of them is in.

    >>> beyond(1_000, 0.99), beyond(999, 0.999), beyond(7, 1.0)
    (10, 0, 0)
    """
    return min(int(round(rows * (1 - share), 9)), rows - 1)


@dataclass(frozen=True)
class PatienceOutcome:
    """What a sort with a patience does with the rows of a recording, punctuated at every row."""

    patience: Duration
    rows: int
    late: int
    most_held: int | None
    """The most rows that wait at a time; None where it was not measured, and so below."""

    median_delay: Duration | None
    """How long half of the rows wait, at most, from their arrival on; None where nobody says when they arrived."""

    delay: Duration | None
    """The same for 99 of a hundred."""

    waiting: int | None
    """How many rows wait at the end of the recording for a newer one."""

    @classmethod
    def of(cls, recording: Recording, patience: Duration) -> PatienceOutcome:
        """Follow all rows. Cost: O(n), and once a sort by time."""
        times, arrived = recording.times, recording.arrived
        released, waits = np.empty((2, len(times)), dtype=np.int64)
        late, waiting, most = wait_by_patience(
            recording.by_time,
            times,
            recording.newest,
            recording.lateness,
            np.zeros_like(times) if arrived is None else arrived,
            patience,
            released,
            waits,
        )
        waits = waits[: len(times) - late - waiting]
        delays = Spread.of(waits) if arrived is not None and len(waits) else None
        median, long = (None, None) if delays is None else (delays[0.5], delays[0.99])
        return cls(patience, len(times), late, most, median, long, waiting)

    @property
    def complete(self) -> float:
        """The part of the rows that is not late."""
        return 1 - self.late / self.rows


@dataclass(frozen=True)
class SourceProfile:
    """What the rows of one source show."""

    name: Hashable
    rows: int
    late: int
    """Those behind the newest row of all sources."""

    within: Duration
    """How far a row was behind the newest of this source, at most."""

    behind: Duration
    """How far a row was behind the newest of all sources, at most."""

    silence: Duration | None
    """The longest time between two of its rows, by the clock of arrival."""

    median_delay: Duration | None
    """How long half of its rows were under way, at most; below 0 where its clock is ahead."""

    least_delay: Duration | None
    shared: int | None
    """How many of its rows another source sent, too, the same in all columns but those of arrival and origin."""


def source_profiles(recording: Recording) -> tuple[SourceProfile, ...]:
    """All sources, those with the most rows first."""
    codes, own = recording.codes, recording.own_lateness
    if codes is None or own is None:
        return ()
    count = len(recording.names)
    rows = np.bincount(codes, minlength=count)
    late = np.bincount(codes[recording.lateness > 0], minlength=count)
    order = np.argsort(codes.astype(np.uint16) if count <= _FEW_SOURCES else codes, kind="stable")
    begins = np.concatenate([[0], np.cumsum(rows)])
    silences, shared = _silences(recording), _shared(recording)
    found = []
    for code in np.argsort(-rows, kind="stable").tolist():
        its = order[begins[code] : begins[code + 1]]
        if not len(its):
            continue  # all of its rows were without a time
        delays = None if recording.delays is None else np.sort(recording.delays[its])
        found.append(
            SourceProfile(
                name=recording.names[code],
                rows=len(its),
                late=int(late[code]),
                within=int(own[its].max()),
                behind=int(recording.lateness[its].max()),
                silence=None if silences is None else int(silences[code]),
                median_delay=None if delays is None else int(delays[(len(delays) - 1) // 2]),
                least_delay=None if delays is None else int(delays[0]),
                shared=None if shared is None else int(shared[code]),
            )
        )
    return tuple(found)


def _silences(recording: Recording) -> Column | None:
    if recording.codes is None or recording.arrived is None:
        return None
    longest = np.zeros(len(recording.names), dtype=np.int64)
    longest_silences(recording.codes, recording.arrived, np.full(len(longest), BEGINNING), longest)
    return longest


@dataclass(frozen=True)
class Copies:
    """Rows that came several times, the same in all columns but those of arrival and origin."""

    repeats: int
    """How many rows there would be less if each came once."""

    shared: int | None
    """How many rows came from several sources; None where rows do not say from which they are."""

    longest: Duration | None
    """How long after its first a row came again, at most, by the clock of arrival."""


def copies_of(recording: Recording) -> Copies | None:
    """Find copies; None where the contents of rows were not looked at."""
    if recording.contents is None:
        return None
    repeated, begins = recording.repeated
    repeats = len(repeated) - len(begins)
    if not repeats:
        return Copies(0, None if recording.codes is None else 0, None)
    longest, shared = None, _shared(recording)
    if recording.arrived is not None:
        arrived = recording.arrived[repeated]
        longest = int((np.maximum.reduceat(arrived, begins) - np.minimum.reduceat(arrived, begins)).max())
    return Copies(repeats, None if shared is None else int(shared.sum()), longest)


def _shared(recording: Recording) -> Column | None:
    """For each source, how many of its rows another one sent, too."""
    if recording.contents is None or recording.codes is None:
        return None
    repeated, begins = recording.repeated
    if not len(begins):
        return np.zeros(len(recording.names), dtype=np.int64)
    codes = recording.codes[repeated]
    several = np.minimum.reduceat(codes, begins) != np.maximum.reduceat(codes, begins)
    sizes = np.diff(np.append(begins, len(codes)))
    return np.bincount(codes[np.repeat(several, sizes)], minlength=len(recording.names))


@dataclass(frozen=True)
class Future:
    """Rows whose time is later than their arrival: a clock that runs ahead."""

    rows: int
    greatest: Duration
    sources: int | None
    """How many sources sent such rows."""


def rows_from_the_future(recording: Recording) -> Future | None:
    """Find them; None where times and arrivals cannot be compared."""
    if recording.delays is None:
        return None
    ahead = recording.delays < 0
    if not ahead.any():
        return Future(0, 0, None if recording.codes is None else 0)
    sources = None if recording.codes is None else len(np.unique(recording.codes[ahead]))
    return Future(int(np.count_nonzero(ahead)), min(-int(recording.delays.min()), FOREVER), sources)


def completeness(recording: Recording, points: int = 40) -> Iterator[tuple[Duration, float]]:
    """The part of the rows that is not late, by patience: from none to the greatest lateness, in even steps of logs."""
    ordered = np.sort(recording.lateness)
    for patience in steps_up_to(int(ordered[-1]), points):
        yield patience, int(np.searchsorted(ordered, np.uint64(patience), side="right")) / len(ordered)


def steps_up_to(greatest: Duration, points: int = 40) -> list[Duration]:
    """Lengths from none to the greatest, in even steps of logs.

    >>> steps_up_to(100, 5)
    [0, 1, 3, 10, 31, 100]
    """
    steps = (int(step) for step in np.geomspace(1, max(greatest, 1), points))
    return list(dict.fromkeys([0, *(step for step in steps if step < greatest), greatest]))
