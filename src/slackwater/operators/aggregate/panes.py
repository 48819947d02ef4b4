"""Makes windows that overlap of panes that do not: events are summed up once, and what windows share is merged.

    events ──> panes of 1s ──partial results──> windows of 60s every 1s       each pane is in 60 windows

A pane is as long as the greatest length that divides size and hop, so every window is a row of whole panes. What is
merged for each window are groups, not events; all aggregates can be computed in parts, so the answers are the same.

Cost: O(events), and for each window that is answered O(groups in its panes). Windows are answered some at a time, so
that no more than a million groups are laid out at once, or those of one window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.operators.aggregate.partials import Partial
    from slackwater.policies.windows import Hopping
    from slackwater.progress.instants import Duration, Instant

_AT_ONCE: Final = 1 << 20
"""Groups that are laid out for windows at once."""

_FINE: Final = 16
"""A pane that is a lesser part of a hop than one in so many saves nothing: most events would have one to themselves."""


def pane_of(window: Hopping) -> Duration | None:
    """How long the panes of a window are; None where it is not worth having them.

    >>> from slackwater.policies.windows import Hopping
    >>> pane_of(Hopping(60, 10)), pane_of(Hopping(60, 25)), pane_of(Hopping(60, 37)), pane_of(Hopping(10, 10))
    (10, 5, None, None)
    """
    pane = math.gcd(window.size, window.hop)
    return pane if window.hop < window.size and pane * _FINE > window.hop else None


@dataclass(frozen=True)
class Panes:
    """Panes of a hopping window."""

    window: Hopping

    def punctuation(self, complete_before: Instant) -> Instant:
        """The start of the first window that is not complete, when all panes before an instant are."""
        return int(self.window.punctuations(np.array([complete_before]))[0])

    def needed_before(self, bound: Instant) -> Instant:
        """The end of the last window that starts before a bound, which is a start of windows."""
        return min(bound + self.window.size - self.window.hop, FOREVER)

    def windows(self, panes: Partial, since: Instant, bound: Instant) -> Iterator[Partial]:
        """Merge the panes of each window that starts at `since` or later, and before the bound; they must all be there.

        >>> from slackwater.events.batch import EventBatch
        >>> from slackwater.operators.aggregate.partials import Partial
        >>> from slackwater.operators.aggregate.recipes import Grouping
        >>> from slackwater.policies.aggregates import count
        >>> from slackwater.policies.windows import Hopping
        >>> import pyarrow as pa
        >>> events = EventBatch.inserts(pa.record_batch({"k": ["a"] * 3}), start=[0, 5, 5], end=[5, 10, 10])
        >>> panes = Partial.of(events, Grouping.of(events.payload.schema, [], {"n": count()}, "example"))
        >>> (windows,) = Panes(Hopping(10, 5)).windows(panes, -5, 10)
        >>> windows.starts.tolist(), windows.finish().payload.to_pydict()
        ([-5, 0, 5], {'n': [1, 3, 2]})
        """
        size, hop = self.window.size, self.window.hop
        first = panes.starts - self.window.back(panes.starts)
        last = panes.starts - self.window.back(panes.starts) % hop
        # From here on windows are counted from the first of each pane; neither difference leaves int64.
        begin = np.where(first >= since, 0, -((first - np.minimum(since, last)) // hop))
        begin += last < since
        stop = np.where(last < bound, (last - first) // hop + 1, -((first - np.minimum(bound, last)) // hop))
        copies = np.maximum(stop - begin, 0)
        total = int(copies.sum())
        if total > _AT_ONCE:
            at = int(np.searchsorted(np.cumsum(copies), total // 2))
            middle = int(first[at] + (begin[at] + copies[at] // 2) * hop)
            if int((first + begin * hop)[copies > 0].min()) < middle:
                yield from self.windows(panes, since, middle)
                yield from self.windows(panes, middle, bound)
                return
        pane = np.repeat(np.arange(len(panes)), copies)
        if len(pane):
            nth = np.arange(len(pane)) - np.repeat(np.cumsum(copies) - copies - begin, copies)
            yield panes.moved(pane, first[pane] + nth * hop, size)
