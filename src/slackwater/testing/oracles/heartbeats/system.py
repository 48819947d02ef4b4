"""Sources whose times are bounded against each other, and rows of theirs as they arrive: the terms of the paper.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 2 and 3.1.

The wall clock counts ticks, application time is a whole number, sources are numbered from 0. All rows of one tick
arrive (or are emitted) together: none of them comes after another. The paper's n counts *further* rows, those that come
at a later tick than the row that set the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Tick: TypeAlias = int
"""An instant of the wall clock, or a number of them."""

Time: TypeAlias = int
"""A time that a source gave a row, or a difference of such times."""

Source: TypeAlias = int
"""The number of a source."""

Arrival: TypeAlias = tuple[Tick, Source, Time]
"""A row as the receiver sees it."""

NOTHING_YET: Time = BEGINNING - 1
"""The heartbeat of a source of which nothing is known: the least time there is, less one."""


@dataclass(frozen=True, order=True, repr=False)
class Skew:
    """One bound (t, delta): rows that come more than `wait` after a row of time x are newer than x - `delta`.

    The wait is counted in ticks, or, `by_rows`, in further rows of the source that is bounded.

    >>> Skew(10, 5), Skew.rows(3, 0)
    (Skew(10, 5), Skew.rows(3, 0))
    """

    wait: int
    delta: Time
    by_rows: bool = False

    def __post_init__(self) -> None:
        if self.wait < 0 or self.delta < 0:
            raise ValueError(f"a wait and a difference of times are not negative: {self}")

    def __repr__(self) -> str:
        return f"{'Skew.rows' if self.by_rows else 'Skew'}({self.wait}, {self.delta})"

    @classmethod
    def rows(cls, further: int, delta: Time) -> Skew:
        """The tuple-based bound (n, delta)."""
        return cls(further, delta, by_rows=True)

    @property
    def ticks(self) -> Tick | None:
        """The wait on the wall clock; no further rows are no ticks, and some rows are no number of ticks at all.

        >>> Skew(10, 5).ticks, Skew.rows(0, 1).ticks, Skew.rows(3, 0).ticks
        (10, 0, None)
        """
        if not self.by_rows:
            return self.wait
        return 0 if self.wait == 0 else None


@dataclass(frozen=True)
class System:
    """Some sources: all bounds of each on each, the missing ones left out, and the greatest latency of each.

    >>> system = System(latency=(0, 4), bounds={(0, 1): (Skew(1, 1),), (1, 1): (Skew(0, 1),)})
    >>> system.sources, system.entry(0, 1), system.entry(1, 0)
    (range(0, 2), (Skew(1, 1),), ())
    """

    latency: tuple[Tick, ...]
    bounds: Mapping[tuple[Source, Source], tuple[Skew, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(latency < 0 for latency in self.latency):
            raise ValueError(f"a latency is not negative: {self.latency}")
        for entry in self.bounds:
            if not all(source in self.sources for source in entry):
                raise ValueError(f"there are {len(self.latency)} sources, so there is no entry {entry}")

    @property
    def sources(self) -> range:
        """The numbers of the sources."""
        return range(len(self.latency))

    def entry(self, i: Source, j: Source) -> tuple[Skew, ...]:
        """All that rows of i say about rows of j."""
        return tuple(self.bounds.get((i, j), ()))

    def is_time_based(self) -> bool:
        """Whether no bound counts rows.

        >>> System((0,), {(0, 0): (Skew(3, 0), Skew.rows(0, 1))}).is_time_based()
        True
        """
        return all(skew.ticks is not None for entry in self.bounds.values() for skew in entry)


class Emitted(NamedTuple):
    """A row with what its receiver cannot see: when it was emitted."""

    emitted: Tick
    source: Source
    time: Time


def obeys(system: System, rows: Sequence[Emitted]) -> bool:
    """Whether emitted rows keep to every bound, by the definitions of sections 2 and 3.1 word for word.

    If i emits a row of time x at tick c, rows that j emits after c + t have times > x - delta; or those that j emits
    after it has emitted n rows after c.

    >>> in_order = System((0,), {(0, 0): (Skew(0, 1),)})
    >>> obeys(in_order, [Emitted(0, 0, 7), Emitted(1, 0, 7)]), obeys(in_order, [Emitted(0, 0, 7), Emitted(1, 0, 6)])
    (True, False)
    """
    return not any(_breaks_a_bound(system, first, row, rows) for first in rows for row in rows)


def _breaks_a_bound(system: System, first: Emitted, row: Emitted, rows: Sequence[Emitted]) -> bool:
    if row.emitted <= first.emitted:
        return False  # no bound concerns what does not come after
    for skew in system.bounds.get((first.source, row.source), ()):
        if row.time <= first.time - skew.delta and _is_bound(skew, first, row, rows):
            return True
    return False


def _is_bound(skew: Skew, first: Emitted, row: Emitted, rows: Sequence[Emitted]) -> bool:
    """Whether a row comes late enough after another for a bound to hold of it."""
    if skew.ticks is not None:
        return row.emitted > first.emitted + skew.ticks
    between = [one for one in rows if one.source == row.source and first.emitted < one.emitted < row.emitted]
    return len(between) >= skew.wait


def check_arrivals(system: System, arrivals: Sequence[Arrival]) -> None:
    """Refuse arrivals that are not in the order of their ticks, or of a source there is not.

    >>> check_arrivals(System((0,)), [(3, 0, 10), (2, 0, 11)])
    Traceback (most recent call last):
    ...
    ValueError: arrivals come in the order of their ticks, from 0 on: [3, 2]
    """
    ticks = [tick for tick, _, _ in arrivals]
    if ticks != sorted(ticks) or (ticks and ticks[0] < 0):
        raise ValueError(f"arrivals come in the order of their ticks, from 0 on: {ticks}")
    if not all(source in system.sources for _, source, _ in arrivals):
        raise ValueError(f"there are {len(system.sources)} sources, numbered from 0: {arrivals}")
