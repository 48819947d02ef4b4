"""The memory of an index of events: nodes, words of payloads, hash table and bounds, which grow as they are needed.

See kernels.replicas.event_index for what is in them. Who uses an index keeps its own columns behind those of each node.

Cost: room is made by moving what lives into memory twice as large as needed: O(1) per node, on average. At most about
as many nodes as live, or as a batch brings, and a thousand, are kept that are done with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.columns.row_codec import WORD, RowBytes
from slackwater.events.kinds import Kind
from slackwater.kernels.replicas import event_index as kernel
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.kernels.replicas.event_index import Column, Table
    from slackwater.progress.instants import Instant

_LEAST_NODES: Final = 1_024


@dataclass(frozen=True)
class EventIndexState:
    """What an index remembers; the hash table follows from it, and bounds are for who uses it to remember."""

    nodes: NDArray[np.int64]
    held: NDArray[np.int64]
    counters: NDArray[np.int64]


class EventIndex:
    """Nodes of events. `columns` and `counters` are how many there are of each, those of the user included.

    `bounds` are those of the blocks of nodes, a column for each; without them there are none.

    >>> index = EventIndex(kernel.FIELDS, kernel.COUNTERS)
    >>> index.make_room(nodes=10, words=20).tolist(), len(index)
    ([], 0)
    """

    __slots__ = ("bounds", "counters", "held", "nodes", "table")

    def __init__(
        self, columns: int, counters: int, resume: EventIndexState | None = None, bounds: Column | None = None
    ) -> None:
        self.nodes: Column = np.empty((0, columns), dtype=np.int64) if resume is None else resume.nodes.copy()
        self.held: Column = np.empty(0, dtype=np.int64) if resume is None else resume.held.copy()
        self.counters: Column = np.zeros(counters, dtype=np.int64) if resume is None else resume.counters.copy()
        self.bounds: Column = no_bounds(0) if bounds is None else bounds.copy()
        self._fill_table()

    def __len__(self) -> int:
        return int(self.counters[kernel.LIVE])

    def arrays(self) -> tuple[Column, Table, Column, Column]:
        """What kernels take."""
        return self.nodes, self.table, self.held, self.counters

    def has_room(self, nodes: int, words: int) -> bool:
        """Whether so many more nodes and words fit, and not too many are kept that are done with."""
        used, held = int(self.counters[kernel.NODES]), int(self.counters[kernel.WORDS])
        fits = used + nodes <= len(self.nodes) and held + words <= len(self.held)
        return fits and used + nodes <= 2 * (len(self) + nodes) + _LEAST_NODES

    def make_room(self, nodes: int, words: int) -> Column:
        """Move what lives into memory where so many more nodes and words fit; return where each node has gone."""
        used = int(self.counters[kernel.NODES])
        lengths = self.nodes[:used, kernel.LENGTH]
        kept = int(lengths[lengths != kernel.GONE].sum())
        room = max(_LEAST_NODES, 2 * (len(self) + nodes))
        before, bounds = (self.nodes, self.held, self.counters), self.bounds
        self.nodes = np.empty((room, self.nodes.shape[1]), dtype=np.int64)
        self.held = np.empty(2 * (kept + words), dtype=np.int64)
        moved_to = np.empty(used, dtype=np.int64)
        kernel.move_together(*before, self.nodes, self.held, moved_to)
        self.bounds = np.empty((_blocks(room), bounds.shape[1]), dtype=np.int64)
        kernel.move_bounds(bounds, self.bounds, moved_to)
        self._fill_table()
        return moved_to

    def _fill_table(self) -> None:
        # Half of it at least stays free, so that a search is short, and ends.
        self.table: Table = np.empty(1 << (2 * len(self.nodes)).bit_length(), dtype=np.int32)
        kernel.fill_table(self.nodes, self.counters, self.table)

    def payloads(self, begins: Column, lengths: Column) -> RowBytes:
        """The bytes of some payloads, given by where their words are held and how many they are."""
        return RowBytes.of(self.held.view(np.uint8), WORD * begins, WORD * lengths)

    def alive(self) -> Column:
        """The nodes that are not done with. Cost: O(nodes), for checks."""
        return np.flatnonzero(self.nodes[: int(self.counters[kernel.NODES]), kernel.LENGTH] != kernel.GONE)

    def used_bounds(self) -> Column:
        """The bounds of those blocks that have nodes."""
        return self.bounds[: _blocks(int(self.counters[kernel.NODES]))]

    def snapshot(self) -> EventIndexState:
        """Return nodes and words. Cost: a copy of all."""
        used, words = int(self.counters[kernel.NODES]), int(self.counters[kernel.WORDS])
        return EventIndexState(self.nodes[:used].copy(), self.held[:words].copy(), self.counters.copy())

    def check(self) -> None:
        """Assert that what lives is counted, and that the table finds every node that it should know."""
        alive = self.alive()
        assert len(alive) == len(self), (len(alive), len(self))
        for node in alive.tolist():
            start, begin, length, hashed = self.nodes[node][: kernel.FIELDS].tolist()
            if hashed != kernel.UNLISTED:
                found = kernel.find_event(self.nodes, self.table, self.held, hashed, start, self.held, begin, length)
                assert found == node, (found, node)


def no_bounds(columns: int) -> Column:
    """The bounds of no block, so many for each."""
    return np.empty((0, columns), dtype=np.int64)


def _blocks(nodes: int) -> int:
    return -(-nodes // kernel.BLOCK)


def most_at_once(batch: EventBatch, since: Instant = BEGINNING) -> int:
    """How many more events there are, at most, after some of the elements of a batch than before it.

    Events that start before an instant are not counted. Cost: none worth noting where nothing is removed.
    """
    if batch.kind is None:
        return int(np.count_nonzero(batch.start >= since))
    removed = (batch.kind == Kind.ADJUST) & (batch.ends() == batch.start)
    more = (batch.kind == Kind.INSERT).astype(np.int64) - removed
    return int(np.cumsum(more[batch.start >= since]).max(initial=0))
