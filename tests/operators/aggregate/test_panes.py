"""Windows made of panes, some at a time: all of them, each once, and never more groups at once than there is room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.operators.aggregate import panes as module
from slackwater.operators.aggregate.panes import Panes
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.policies.aggregates import count
from slackwater.policies.windows import Hopping

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PANE, _HOP, _SIZE, _ROOM = 5, 10, 30, 6
"""Two panes to a hop, six to a window; room for the groups of one full window of one key."""


@given(
    st.lists(st.integers(-10, 10).map(lambda pane: pane * _PANE), min_size=1, max_size=25).map(sorted),
    st.integers(-6, 6).map(lambda window: window * _HOP),
    st.integers(0, 12).map(lambda window: window * _HOP),
)
def test_windows_are_made_some_at_a_time(starts: list[int], since: int, length: int) -> None:
    """Each window from `since` to the bound counts the events of its panes, and comes once, in order of its start."""
    bound = since + length
    events = EventBatch.inserts(
        pa.record_batch({"k": ["a"] * len(starts)}), start=starts, end=[start + _PANE for start in starts]
    )
    panes = Partial.of(events, Grouping.of(events.payload.schema, [], {"n": count()}, "test"))
    laid_out: list[int] = []
    moved = Partial.moved

    def watched(self: Partial, groups: NDArray[np.int64], starts: NDArray[np.int64], size: int) -> Partial:
        laid_out.append(len(groups))
        return moved(self, groups, starts, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", _ROOM)
        patch.setattr(Partial, "moved", watched)
        made = list(Panes(Hopping(_SIZE, _HOP)).windows(panes, since, bound))
    assert max(laid_out, default=0) <= _ROOM
    found = [
        (start, n)
        for part in made
        for start, n in zip(part.starts.tolist(), part.finish().payload.column("n").to_pylist(), strict=True)
    ]
    expected = Counter(
        window for start in starts for window in range(since, bound, _HOP) if window <= start < window + _SIZE
    )
    assert found == sorted(expected.items())


def test_one_window_is_made_whole_though_it_needs_more_than_there_is_room_for() -> None:
    """What starts at one time cannot be parted: it must not be tried again and again."""
    events = EventBatch.inserts(pa.record_batch({"k": ["a", "b", "c"]}), start=[0] * 3, end=[_PANE] * 3)
    panes = Partial.of(events, Grouping.of(events.payload.schema, ["k"], {"n": count()}, "test"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_AT_ONCE", 2)
        (window,) = Panes(Hopping(_SIZE, _HOP)).windows(panes, 0, _HOP)
    assert window.starts.tolist() == [0, 0, 0]
