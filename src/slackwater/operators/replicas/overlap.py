"""How much the replicas of a merge share, as far as a merge can know: streams that share little are no replicas.

Rows whose event was held when they came are known: duplicates are shared, and what was contradicted only some had. A
row that is passed over came when the merge had forgotten its time. So some recent times are remembered of what went
out: a row at a time at which nothing went out is one that others lack, for sure; one at a time at which something did
is taken as shared. That is a sample, no part of the state, and ends when enough rows were compared.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from slackwater.errors import message
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.events.batch import Times
    from slackwater.progress.instants import Instant

LEAST_COMPARED: Final = 1_000
"""How many rows must be known before it is reported. docs/decisions/0035 has the reason for this and the share."""

_REMEMBERED: Final = 1 << 16
_COMPARED_AT_ONCE: Final = 1_024
_ENOUGH: Final = LEAST_COMPARED
_WORTH_LOOKING: Final = 250

_NO_TIMES: Times = np.empty(0, dtype=np.int64)


class Overlap(NamedTuple):
    """How many rows of replicas others have, too, and how many only some have.

    >>> Overlap(shared=300, alone=800).is_small, Overlap(shared=3, alone=8).is_small, Overlap(900, 800).is_small
    (True, False, False)
    """

    shared: int = 0
    alone: int = 0

    def __add__(self, other: object) -> Overlap:
        assert isinstance(other, Overlap)
        return Overlap(self.shared + other.shared, self.alone + other.alone)

    @property
    def is_small(self) -> bool:
        """Whether enough is known, and most rows are not shared."""
        return self.shared + self.alone >= LEAST_COMPARED and self.alone > self.shared

    def warning(self, where: str) -> str:
        """The text of the warning where the overlap is small.

        >>> print(Overlap(shared=250, alone=750).warning("merge_replicas#1"))
        merge_replicas#1 merges streams that hardly share any rows: probably they are not replicas of one stream
            compared   1000 rows
            shared     250
            only some  750 (75 %), of which the output lacks those that the replica in front has not
            hint: to keep every row once, unite them: sw.union(a, b).deduplicate(on=..., within=...), or, where a column names the replicas, stream.deduplicate(on=..., within=..., patience=...); left_out=sw.LeftOutRows.divert() shows the rows that are left out
        """  # noqa: E501 - as it is printed
        compared = self.shared + self.alone
        facts = {
            "compared": f"{compared} rows",
            "shared": self.shared,
            "only some": f"{self.alone} ({100 * self.alone // compared} %), of which the output lacks those that the "
            "replica in front has not",
        }
        hint = (
            "to keep every row once, unite them: sw.union(a, b).deduplicate(on=..., within=...), or, where a column "
            "names the replicas, stream.deduplicate(on=..., within=..., patience=...); "
            "left_out=sw.LeftOutRows.divert() shows the rows that are left out"
        )
        what = f"{where} merges streams that hardly share any rows: probably they are not replicas of one stream"
        return message(what, facts, hint)


class OverlapSample:
    """Compares some rows that come after their time was passed with what went out at that time.

    For merges that emit events in order of punctuations: what goes out later is not before what went out earlier.

    >>> sample = OverlapSample()
    >>> sample.remember(np.array([3, 5, 7]))
    >>> sample.compare(np.array([1, 3, 4, 7, 9] * 100), before=8)
    >>> sample.found
    Overlap(shared=200, alone=100)
    """

    __slots__ = ("_emitted", "_pending", "_remembered", "_wanted_from", "found")

    def __init__(self) -> None:
        self._emitted: deque[Times] = deque()
        self._remembered = 0
        self._pending = _NO_TIMES
        self._wanted_from: Instant = BEGINNING
        self.found = Overlap()

    @property
    def is_enough(self) -> bool:
        """Whether enough rows were compared."""
        return sum(self.found) >= _ENOUGH

    def wanted_from(self, bound: Instant) -> Instant:
        """Rows from which time on are to be compared, where the merge needs none before a bound; it never goes back.

        Feedback would leave out rows of a replica that lags where they are read, and there would be nothing to compare.
        """
        if self._remembered >= LEAST_COMPARED and not self.is_enough:
            bound = min(bound, int(self._emitted[0].min()))
        self._wanted_from = max(self._wanted_from, bound)
        return self._wanted_from

    def remember(self, starts: Times) -> None:
        """Take the times of events that went out. Cost: none but the memory."""
        if self.is_enough or not len(starts):
            return
        self._emitted.append(starts)
        self._remembered += len(starts)
        while self._remembered - len(self._emitted[0]) >= _REMEMBERED:
            self._remembered -= len(self._emitted.popleft())

    def compare(self, starts: Times, before: Instant) -> None:
        """Take rows, to look for some of those before a time up to which the output was complete when they came.

        They are looked for when there are some hundreds of them: to look for one would cost nearly as much.
        """
        if self.is_enough or not self._emitted:
            return
        passed = starts[starts < before]
        some = passed[:: max(1, len(passed) // _COMPARED_AT_ONCE)]
        self._pending = np.concatenate([self._pending, some]) if len(some) else self._pending
        if len(self._pending) >= _WORTH_LOOKING:
            emitted = self._latest()
            looked_for = self._pending[self._pending >= emitted.min()]
            shared = int(np.count_nonzero(np.isin(looked_for, emitted)))
            self.found += Overlap(shared, len(looked_for) - shared)
            self._pending = _NO_TIMES

    def _latest(self) -> Times:
        """The latest times at which something went out: all of them, from the first of these on."""
        emitted = np.concatenate(self._emitted)
        if len(emitted) > _REMEMBERED:
            emitted = np.partition(emitted, -_REMEMBERED)[-_REMEMBERED:]
        self._emitted, self._remembered = deque([emitted]), len(emitted)
        return emitted
