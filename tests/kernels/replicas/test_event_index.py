"""The index of events against a dictionary: what is found, forgotten and moved, and what bounds hide."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.replicas import event_index as kernel
from slackwater.operators.replicas.event_index import EventIndex, no_bounds
from slackwater.progress.instants import BEGINNING, FOREVER

_DUE = kernel.FIELDS
"""Column of a node that is the test's own: when it needs attention."""

_starts = st.sampled_from([BEGINNING, 7, FOREVER])
_payloads = st.sampled_from([(), (0,), (1,), (0, 0), (-(2**63), 2**63 - 1), (*range(12),), (*range(11), 0)])
_steps = st.lists(st.tuples(st.sampled_from(["take", "take", "forget", "move"]), _starts, _payloads), max_size=40)


def _find(index: EventIndex, start: int, payload: tuple[int, ...]) -> tuple[int, int, np.ndarray]:
    words = np.array(payload, dtype=np.int64)
    hashed = hash_event(start, words, 0, len(words))
    found = kernel.find_event(index.nodes, index.table, index.held, hashed, start, words, 0, len(words))
    return found, hashed, words


@given(_steps)
@example([("take", 7, (0,)), ("take", 7, (*range(12),)), ("forget", 7, (0,)), ("move", 7, ()), ("take", 7, (1,))])
def test_an_index_finds_what_was_added_and_not_forgotten(steps: list[tuple[str, int, tuple[int, ...]]]) -> None:
    """Wherever its nodes were moved; events that differ in a word, or in how many there are, are not confused."""
    index = EventIndex(kernel.FIELDS + 1, kernel.COUNTERS, bounds=no_bounds(1))
    alive: set[tuple[int, tuple[int, ...]]] = set()
    for step, start, payload in steps:
        if step == "move" or not index.has_room(1, len(payload)):
            index.make_room(1, len(payload))
        found, hashed, words = _find(index, start, payload)
        known = (start, payload) in alive
        assert known == (found >= 0)
        if step == "take" and not known:
            node = kernel.add_event(*index.arrays(), -1 - found, hashed, start, words, 0, len(words))
            index.nodes[node, _DUE] = start
            index.bounds[node // kernel.BLOCK, 0] = min(index.bounds[node // kernel.BLOCK, 0], start)
            alive.add((start, payload))
        elif step == "forget" and known:
            kernel.forget_event(index.nodes, index.counters, found)
            alive.remove((start, payload))
        index.check()
        assert len(index) == len(alive)
        assert all(_find(index, *event)[0] >= 0 for event in alive)
        nodes = index.alive()
        assert (index.bounds[nodes // kernel.BLOCK, 0] <= index.nodes[nodes, _DUE]).all()


def test_nodes_that_are_done_with_are_kept_for_a_while_only() -> None:
    """At most about as many as live, or as a batch brings, and a thousand; blocks keep the bounds that nodes bring."""
    index, batch = EventIndex(kernel.FIELDS, kernel.COUNTERS, bounds=no_bounds(2)), 500
    for number in range(40_000):
        if number % batch == 0 and not index.has_room(batch, 0):
            index.make_room(batch, 0)
        found, hashed, words = _find(index, number, ())
        node = kernel.add_event(*index.arrays(), -1 - found, hashed, number, words, 0, 0)
        for which in range(2):
            kernel.lower_bound(index.bounds, node, which, number + which)
        if number >= 100:
            forgotten, _, _ = _find(index, number - 100, ())
            kernel.forget_event(index.nodes, index.counters, forgotten)
    assert len(index) == 100
    assert index.counters[kernel.NODES] <= 2 * (100 + batch) + 1_024
    index.make_room(0, 0)
    [[first, second]] = index.used_bounds().tolist()
    assert 39_900 - kernel.BLOCK < first <= 39_900
    assert second == first + 1
