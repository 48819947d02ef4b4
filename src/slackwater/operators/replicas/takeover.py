"""When replicas that a column distinguishes lead, and when one takes over because those that lead have fallen silent.

A replica that appears has everything from a time on, its *first row plus the patience and one tick*: what it sent
before, unseen, is no later than a patience past that row, or the row itself would have been late. From there follow
three rules. They go by the times of rows and the order in which rows came, so that every shard and every replay finds
the same.

    leads       one that has everything from the beginning; and one that has everything from a time that another
                leader is complete up to, and a tick more. Its punctuations count from then on.
    silent      the leaders are silent for a replica that does not lead when its own high water has risen by more than
                two patiences since its first row behind the last row of any leader. How far it is ahead does not
                matter: a leader that lags is alive as long as rows of it come. Nor does a pause of all: it takes two
                rows at least.
    takes over  then it leads. What anybody has of the time before the one from which it has everything goes out, for
                nobody is known to have all of it, and nobody is left to send more.

So a leader that dies while another replica goes on holds up the output for two patiences, by the rows of the one that
goes on, and no longer. None of this is needed where the two overlap until the leader is two patiences (and two ticks)
past the other's first row: then that one leads before the leader dies, and nothing is missing.
Cost: O(replicas) for each call, O(rows) while some replica does not lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import Times
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant

NOBODY: int = -1
"""The place of a row that there is not."""


class ReplicaRows(NamedTuple):
    """Rows of a replica in a batch that does not lead, and what was known of it before."""

    numbers: NDArray[np.int64]
    """Their places in the batch."""

    times: Times
    high_water: Instant
    """The greatest time of rows that came before; BEGINNING if there were none."""

    alone_from: Instant
    """Its high water after its first row since the last row of a leader; BEGINNING if it had none since."""

    def high_waters(self) -> Times:
        """Its high water after each of the rows."""
        return np.maximum(np.maximum.accumulate(self.times), self.high_water)

    def alone_from_at(self, leading: NDArray[np.int64]) -> Times:
        """For each of the rows, its high water after its first row since the last row of a leader."""
        reached = self.high_waters()
        _, first, run = np.unique(np.searchsorted(leading, self.numbers), return_index=True, return_inverse=True)
        since = reached[first[run]]
        if self.alone_from > BEGINNING and len(since):
            since[self.numbers < (leading[0] if len(leading) else FOREVER)] = self.alone_from
        return since

    def alone_from_after(self, leading: NDArray[np.int64]) -> Instant:
        """The same, after the batch."""
        if len(self.numbers) and not (len(leading) and leading[-1] > self.numbers[-1]):
            return int(self.alone_from_at(leading)[-1])
        return BEGINNING if len(leading) else self.alone_from


def leaders_among(
    complete_from: Sequence[Instant], complete_before: Sequence[Instant], reached: Instant = BEGINNING
) -> list[Port]:
    """The replicas whose punctuations count, by the times from which they have everything and up to which they have it.

    `reached` is how far the output is complete whoever leads.

    >>> leaders_among([BEGINNING, 10, 30], [11, 31, 99])  # the first brings the second, the second the third
    [0, 1, 2]
    >>> leaders_among([BEGINNING, 10, 30], [10, 31, 99])
    [0]
    >>> leaders_among([BEGINNING, 10, 30], [10, 31, 99], reached=11)
    [0, 1, 2]
    """
    leaders: list[Port] = []
    for port in sorted(range(len(complete_from)), key=lambda port: (complete_from[port], port)):
        if complete_from[port] > BEGINNING and complete_from[port] >= reached:
            break
        leaders.append(port)
        reached = max(reached, complete_before[port])
    return sorted(leaders)


def is_due(alone_from: Instant, high_water: Instant, patience: Duration) -> bool:
    """Whether the leaders have been silent for long enough, for a replica that has come so far since.

    >>> is_due(20, 26, 3), is_due(20, 27, 3), is_due(BEGINNING, 27, 3)
    (False, True, False)
    """
    return alone_from > BEGINNING and high_water - alone_from > 2 * patience


def first_due(waiting: Iterable[ReplicaRows], leading: NDArray[np.int64], patience: Duration) -> int:
    """The place of the first row of a batch at which a replica takes over; NOBODY if none does.

    `leading` are the places of rows of leaders, in order.

    >>> rows = ReplicaRows(np.array([0, 1, 3]), np.array([20, 26, 27]), BEGINNING, BEGINNING)
    >>> first_due([rows], np.array([2]), 3), first_due([rows], np.array([], dtype=int), 3)
    (-1, 3)
    """
    found = [place for rows in waiting if (place := _due_in(rows, leading, patience)) != NOBODY]
    return min(found, default=NOBODY)


def _due_in(rows: ReplicaRows, leading: NDArray[np.int64], patience: Duration) -> int:
    # As unsigned numbers differences of any two times are true.
    rise = rows.high_waters().view(np.uint64) - rows.alone_from_at(leading).view(np.uint64)
    due = np.flatnonzero(rise > np.uint64(2 * patience))
    return int(rows.numbers[due[0]]) if len(due) else NOBODY
