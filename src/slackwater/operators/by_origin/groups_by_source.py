"""Holds groups of several sources until each source is complete past their start, as a few partial results.

The first key of every group is the place of its source. What lies before the furthest bound of all sources is cut off
each partial without a copy; of that, the groups of sources that are not as far are kept.

Cost of a release: as of OpenGroups; and O(groups before the furthest bound), which are those that go and those of
sources that lag behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.operators.aggregate.open_groups import OpenGroups

if TYPE_CHECKING:
    from slackwater.events.batch import Times
    from slackwater.operators.aggregate.partials import Partial


class GroupsBySource(OpenGroups):
    """Partial results by age, the oldest first, whose groups wait each for its own source."""

    __slots__ = ()

    def release_due(self, bounds: Times) -> list[Partial]:
        """Hand over all groups that start before the bound of their source, oldest partial first."""
        furthest = int(bounds.max())
        if all(partial.starts[0] >= furthest for partial in self._partials):
            return []
        done: list[Partial] = []
        left: list[Partial] = []
        for partial in self._partials:
            due, others = split_due(partial, bounds, furthest)
            done += [due] if len(due) else []
            left += others
        if done:
            self._stack_up(left)
        return done

    def waiting(self, places: int) -> Times:
        """How many groups wait of each of so many sources, counted once in each partial. Cost: O(groups)."""
        counts = [np.bincount(place_of(partial), minlength=places) for partial in self._partials]
        return np.add.reduce(counts) if counts else np.zeros(places, dtype=np.int64)


def place_of(partial: Partial) -> Times:
    """The place of the source of each group."""
    places: Times = partial.keys[0].to_numpy()
    return places


def split_due(partial: Partial, bounds: Times, furthest: int) -> tuple[Partial, list[Partial]]:
    """Part into the groups that start before the bound of their source, and the others, in pieces that are not empty.

    `furthest` is the furthest bound of all.
    """
    reached, later = partial.split(furthest)
    due = reached.starts < bounds[place_of(reached)]
    if not due.any():
        return reached.cut(0)[0], [partial] if len(partial) else []
    kept = []
    if not due.all():
        reached, put_off = reached.parted(due)
        kept.append(put_off)
    return reached, [*kept, *([later] if len(later) else [])]
