"""The rows of one input that may still find a partner, chained by key, with their columns kept beside.

Rows are numbered in the order they come, which is the order of their starts; the number of a row is the number of its
node in the kernels' chains. A row that can match no more is unlinked when a partner passes by, and its columns are
dropped by the next sweep, which numbers the rest anew.

Invariant: every row that lives is in the chain of its key.
Invariant: each stored chunk has more rows than all later ones together, so there are O(log rows) of them.
Cost: O(log rows) copies per row over its life; gathering rows costs nothing for the rows not gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import gather
from slackwater.kernels.match.chains import (
    CHAIN_COLUMNS,
    CODE,
    EMPTY_CHAIN,
    HEAD,
    LENGTH,
    LINKED,
    NEXT,
    NOBODY,
    NODE_COLUMNS,
    START,
    TAIL,
    UNTIL,
    VISITED,
    Table,
    append_nodes,
)
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import Times
    from slackwater.operators.match.key_codes import Codes
    from slackwater.progress.instants import Duration, Instant


def first_instant_beyond(start: Times, distance: Duration) -> Times:
    """The first instants that are more than `distance` after `start`, FOREVER where int64 has none.

    >>> first_instant_beyond(np.array([5]), 10).tolist()
    [16]
    """
    # No event starts at FOREVER, so one that is there means never.
    return later(later(start, distance), 1)


class AliveRows:
    """The window of one input. The kernels work on `nodes`, `chains` and `tally` directly."""

    __slots__ = ("_chunks", "chains", "nodes", "rows", "tally")

    def __init__(self, no_rows: pa.RecordBatch) -> None:
        self._chunks = [no_rows]
        self.rows = 0
        self.nodes: Table = np.empty((0, NODE_COLUMNS), dtype=np.int64)
        self.chains: Table = np.empty((0, CHAIN_COLUMNS), dtype=np.int64)
        self.tally: Table = np.zeros(2, dtype=np.int64)

    @property
    def linked(self) -> int:
        """How many rows are in chains."""
        return int(self.tally[LINKED])

    @property
    def visited(self) -> int:
        """How many visits to rows there ever were: what matching has cost so far."""
        return int(self.tally[VISITED])

    @property
    def codes(self) -> Codes:
        """The key code of each row."""
        return self.nodes[: self.rows, CODE]

    @property
    def until(self) -> Times:
        """The first instant at which a partner of each row can no longer start."""
        return self.nodes[: self.rows, UNTIL]

    def add(self, rows: EventBatch, codes: Codes, known: int) -> None:
        """Store rows whose lifetime is when partners may start, without chaining them yet: kernels do that.

        `codes` are below `known`.
        """
        self.reserve_chains(known)
        if not len(rows):
            return
        first, stop = self.rows, self.rows + len(rows)
        self.nodes = _with_room(self.nodes, stop, NOBODY)
        self.nodes[first:stop, START] = rows.start
        self.nodes[first:stop, UNTIL] = rows.ends()
        self.nodes[first:stop, CODE] = codes
        self.rows = stop
        self._chunks = [*self._chunks, rows.payload] if first else [rows.payload]
        self._merge_small_chunks()

    def reserve_chains(self, known: int) -> None:
        """Make room for the chains of all key codes below `known`."""
        self.chains = _with_room(self.chains, known, EMPTY_CHAIN)

    def _merge_small_chunks(self) -> None:
        """Restore the invariant after a chunk was appended. Each copy of a row lands in a chunk of twice the size."""
        sizes = np.array([chunk.num_rows for chunk in self._chunks])
        later = np.cumsum(sizes[::-1])[::-1] - sizes
        too_small = np.flatnonzero(sizes[:-1] <= later[:-1])
        if len(too_small):
            first = int(too_small[0])
            self._chunks[first:] = [pa.concat_batches(self._chunks[first:])]

    def gather(self, rows: Table, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return the named columns of the given rows. Cost: O(rows given * log rows stored)."""
        if len(rows) == 1:
            return self._one_row(int(rows[0]), columns)
        return self._gather(rows, columns)

    def _one_row(self, row: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        """A live stream matches row by row; a slice of the chunk is ten times cheaper than taking from it."""
        for chunk in self._chunks:
            if row < chunk.num_rows:
                break
            row -= chunk.num_rows
        return (chunk if columns is None else chunk.select(columns)).slice(row, 1)

    def _gather(self, rows: Table, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Copy rows out of their chunks, so that what is dropped can be freed."""
        chunks = self._chunks if columns is None else [chunk.select(columns) for chunk in self._chunks]
        bounds = np.cumsum([0, *(chunk.num_rows for chunk in chunks)])
        which = (np.searchsorted(bounds, rows, side="right") - 1).astype(np.uint8)
        if not len(rows) or (which == which[0]).all():
            chunk = int(which[0]) if len(rows) else 0
            return gather(chunks[chunk], rows - bounds[chunk])
        # Arrow takes from a chunked column by joining all its chunks first, so each chunk is asked for its own rows.
        by_chunk = np.argsort(which, kind="stable")
        asked, firsts = np.unique(which[by_chunk], return_index=True)
        parts = [
            gather(chunks[chunk], rows[places] - bounds[chunk])
            for chunk, places in zip(asked, np.split(by_chunk, firsts[1:]), strict=True)
        ]
        place = np.empty(len(rows), dtype=np.int64)
        place[by_chunk] = np.arange(len(rows))
        return gather(pa.concat_batches(parts), place)

    def alive(self, now: Instant) -> EventBatch:
        """Return the rows that a partner starting now or later may match. Cost: O(rows stored)."""
        keep = np.flatnonzero(self.until > now)
        nodes = self.nodes[keep]
        return EventBatch(self._gather(keep), nodes[:, START].copy(), nodes[:, UNTIL].copy())

    def drop_expired(self, now: Instant) -> None:
        """Keep only the rows that live, and leave them without chains until `link_all`. Cost: O(rows stored)."""
        keep = np.flatnonzero(self.until > now)
        self._chunks = [self._gather(keep)]
        self.nodes = self.nodes[keep]
        self.rows = len(keep)

    def link_all(self, numbering: Codes, known: int) -> None:
        """Chain all rows, under new key codes that are below `known`. Cost: O(rows stored + known)."""
        self.nodes[: self.rows, CODE] = numbering[self.codes]
        self.chains = _with_room(self.chains[:0], known, EMPTY_CHAIN)
        self.tally[LINKED] = 0
        append_nodes(self.nodes, self.chains, self.tally, 0, self.rows)

    def check(self, now: Instant, swept_at: Instant) -> None:
        """Assert that chains are in order and reach exactly what lives, apart from dead rows not passed by yet."""
        linked = [node for code in range(len(self.chains)) for node in self._chain(code)]
        assert len(linked) == len(set(linked)) == self.linked, (linked, self.tally)
        assert set(np.flatnonzero(self.until > now)) <= set(linked), (now, self.until, linked)
        assert (self.until > swept_at).all(), (swept_at, self.until)
        start = self.nodes[: self.rows, START]
        assert (start[:-1] <= start[1:]).all(), start
        sizes = [chunk.num_rows for chunk in self._chunks]
        assert sum(sizes) == self.rows, (sizes, self.rows)
        assert all(size > sum(sizes[i + 1 :]) for i, size in enumerate(sizes[:-1])), sizes

    def _chain(self, code: int) -> list[int]:
        """Walk one chain, asserting that it is well made."""
        walked: list[int] = []
        node = int(self.chains[code, HEAD])
        while node != NOBODY:
            assert self.nodes[node, CODE] == code, (code, node)
            assert not walked or walked[-1] < node < self.rows, (walked, node)
            walked.append(node)
            node = int(self.nodes[node, NEXT])
        assert self.chains[code, TAIL] == (walked[-1] if walked else NOBODY), (code, walked)
        assert self.chains[code, LENGTH] == len(walked), (code, walked)
        return walked


def _with_room(table: Table, lines: int, new: int | tuple[int, ...]) -> Table:
    """The table, at least twice as long if it had to grow, filled up with new lines. Cost: amortised O(new lines)."""
    if lines <= len(table):
        return table
    larger = np.empty((max(lines, 2 * len(table)), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    larger[len(table) :] = new
    return larger
