"""Holds the one current partial result of each open group, found by interval and keys, and replaced when rows come.

Partials never change, and lie as they were made: each update puts the touched groups, as they are now, into a new one.
What the older ones have of these groups is out of date from then on. A number for each group names in which partial it
is current, and where. Eight partials of one size class are put together, of what is current in them, and so is a
partial of which more than half is out of date; so they are O(log n), and hold at most twice what is open.

Invariants: of a group that is in several partials the newest is current, so partials in their order are the whole
state; all groups of all partials start at or after the last bound.
Cost: an update costs what the touched groups hold, their look-up, and amortised O(log n) moves of each; a release costs
what it releases and O(log n) for each partial. What else is open is neither read nor copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowBytes, RowCodec
from slackwater.columns.row_numbers import RowNumbers
from slackwater.events.gather import gather
from slackwater.operators.aggregate.group_keys import comparable_type
from slackwater.operators.aggregate.partials import Partial

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.aggregate.recipes import Grouping
    from slackwater.progress.instants import Instant

    Column = NDArray[np.int64]

_TOGETHER: Final = 8
"""How many partials of one size class are put together into one of the next."""

_NOWHERE: Final = -1
"""The place of a group that is not open."""

_FEW: Final = 64
"""Numbers of closed groups that are not worth forgetting."""

_NO_ROWS: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Update:
    """What some rows have made of the groups that they touch."""

    now: Partial
    """The touched groups as they are now, in order of (start, end)."""

    before: Partial
    """Those of them that were open before, as they were, in any order."""

    places: Column
    """Where in `now` each group of `before` is."""


@dataclass
class _Chunk:
    """A partial, the numbers of its groups, and how many of them are current."""

    partial: Partial
    numbers: Column
    current: int


class CurrentGroups:
    """The open groups. Partials given at first are taken as the state of another one.

    >>> from slackwater.events.batch import EventBatch
    >>> from slackwater.operators.aggregate.recipes import Grouping
    >>> from slackwater.policies.aggregates import count
    >>> rows = EventBatch.inserts(pa.record_batch({"k": ["a", "b", "a"]}), start=[0, 0, 0], end=[10, 10, 10])
    >>> grouping = Grouping.of(rows.payload.schema, ["k"], {"n": count()}, "example")
    >>> groups = CurrentGroups(identity_codec(grouping))
    >>> for _ in range(2):
    ...     update = groups.update(Partial.of(rows, grouping))
    ...     print(update.before.finish().payload.to_pydict(), update.now.finish().payload.to_pydict())
    {'k': [], 'n': []} {'k': ['a', 'b'], 'n': [2, 1]}
    {'k': ['a', 'b'], 'n': [2, 1]} {'k': ['a', 'b'], 'n': [4, 2]}
    """

    __slots__ = ("_chunk_of", "_chunks", "_codec", "_next", "_numbers", "_open", "_row_of")

    def __init__(self, codec: RowCodec, partials: Iterable[Partial] = ()) -> None:
        self._codec = codec
        self._numbers = RowNumbers()
        self._chunk_of, self._row_of = _NO_ROWS, _NO_ROWS
        self._chunks: dict[int, _Chunk] = {}
        self._next = 0
        self._open = 0
        for partial in partials:
            self._put(partial, self._numbered(partial))

    def __len__(self) -> int:
        return self._open

    def update(self, new: Partial) -> Update:
        """Take a partial of new rows into the groups that it has; return how these were before, and are now."""
        numbers = self._numbered(new)
        chunks = self._chunk_of[numbers]
        places = np.flatnonzero(chunks != _NOWHERE)
        places = places[np.argsort(chunks[places], kind="stable")]
        before = self._gathered(numbers[places]) if len(places) else take_groups(new, _NO_ROWS)
        now = _absorbed(before, places, new)
        self._put(now, numbers)
        self._tidy()
        return Update(now, before, places)

    def release(self, bound: Instant) -> None:
        """Forget the groups that start before the bound: nothing more will come into them."""
        touched = [item for item in self._chunks.items() if item[1].partial.starts[0] < bound]
        if not touched:
            return
        for name, chunk in touched:
            done, chunk.partial = chunk.partial.split(bound)
            numbers, chunk.numbers = chunk.numbers[: len(done)], chunk.numbers[len(done) :]
            closed = numbers[self._chunk_of[numbers] == name]
            chunk.current -= len(closed)
            self._open -= len(closed)
            self._chunk_of[closed] = _NOWHERE
        self._tidy()
        if len(self._numbers) > 2 * self._open + _FEW:
            self._forget_closed_groups()

    def snapshot(self) -> tuple[Partial, ...]:
        """Return the partials, oldest first. Cost: O(log n); no row is copied."""
        return tuple(chunk.partial for chunk in self._chunks.values())

    # ---- where groups are ------------------------------------------------------------------------------------------

    def _numbered(self, partial: Partial) -> Column:
        numbers = self._numbers.number(_identities(partial, self._codec))
        room = len(self._numbers)
        if room > len(self._chunk_of):
            places = np.full((2, 2 * room), _NOWHERE, dtype=np.int64)
            places[:, : len(self._chunk_of)] = self._chunk_of, self._row_of
            self._chunk_of, self._row_of = places
        return numbers

    def _gathered(self, numbers: Column) -> Partial:
        """Groups by number, in order of their chunks, as they are now."""
        chunks, firsts = np.unique(self._chunk_of[numbers], return_index=True)
        parts = []
        for name, found in zip(chunks.tolist(), np.split(numbers, firsts[1:]), strict=True):
            partial = self._chunks[name].partial
            parts.append(take_groups(partial, self._row_of[found] - partial.origin))
        return lay_end_to_end(parts)

    def _put(self, partial: Partial, numbers: Column) -> None:
        """Make a partial the newest."""
        names, counts = np.unique(self._chunk_of[numbers], return_counts=True)
        for name, count in zip(names.tolist(), counts.tolist(), strict=True):
            if name == _NOWHERE:
                self._open += count
            else:
                self._chunks[name].current -= count
        self._chunks[self._next] = _Chunk(partial, numbers, len(partial))
        self._chunk_of[numbers] = self._next
        self._row_of[numbers] = partial.origin + np.arange(len(partial))
        self._next += 1

    # ---- keeping partials few and current --------------------------------------------------------------------------

    def _tidy(self) -> None:
        self._chunks = {name: chunk for name, chunk in self._chunks.items() if chunk.current}
        while together := self._worth_rewriting():
            self._rewrite(together)

    def _worth_rewriting(self) -> list[int]:
        """A chunk that is out of date for the most part, or enough chunks of one size class."""
        alike: dict[int, list[int]] = {}
        for name, chunk in self._chunks.items():
            if 2 * chunk.current < len(chunk.partial):
                return [name]
            alike.setdefault(_size_class(chunk.current), []).append(name)
        return next((names for names in alike.values() if len(names) >= _TOGETHER), [])

    def _rewrite(self, names: list[int]) -> None:
        """Put what is current in some chunks into one that is newer than all."""
        numbers = np.concatenate([self._chunks[name].numbers[self._current_rows(name)] for name in names])
        groups = lay_end_to_end([take_groups(self._chunks[name].partial, self._current_rows(name)) for name in names])
        in_order = np.lexsort((groups.ends, groups.starts))
        self._put(take_groups(groups, in_order), numbers[in_order])
        for name in names:
            del self._chunks[name]

    def _current_rows(self, name: int) -> Column:
        return np.flatnonzero(self._chunk_of[self._chunks[name].numbers] == name)

    def _forget_closed_groups(self) -> None:
        """Number the open groups anew. They are all that chunks still have, current or not."""
        left = np.flatnonzero(self._chunk_of[: len(self._numbers)] != _NOWHERE)
        renumbered = np.empty(len(self._numbers), dtype=np.int64)
        renumbered[left] = np.arange(len(left))
        self._numbers = self._numbers.only(left)
        self._chunk_of, self._row_of = self._chunk_of[left], self._row_of[left]
        for chunk in self._chunks.values():
            chunk.numbers = renumbered[chunk.numbers]

    def check(self) -> None:
        """Assert the invariants."""
        self._numbers.check()
        newest: dict[int, tuple[int, int]] = {}
        for name, chunk in self._chunks.items():
            chunk.partial.check()
            assert self._numbered(chunk.partial).tolist() == chunk.numbers.tolist()
            assert chunk.current == len(self._current_rows(name)) > 0, (name, chunk)
            assert 2 * chunk.current >= len(chunk.partial), (name, chunk)
            first = chunk.partial.origin
            newest |= {number: (name, first + row) for row, number in enumerate(chunk.numbers.tolist())}
        is_open = np.flatnonzero(self._chunk_of != _NOWHERE)
        places = zip(self._chunk_of[is_open].tolist(), self._row_of[is_open].tolist(), strict=True)
        assert newest == dict(zip(is_open.tolist(), places, strict=True))
        assert len(newest) == self._open
        assert len(self._numbers) <= 2 * self._open + _FEW or not self._chunks
        classes = [_size_class(chunk.current) for chunk in self._chunks.values()]
        assert all(classes.count(one) < _TOGETHER for one in classes), classes


def identity_codec(grouping: Grouping, step: str = "aggregate_early") -> RowCodec:
    """What distinguishes groups, as bytes: their interval and their keys."""
    times = [pa.field("start", pa.int64()), pa.field("end", pa.int64())]
    return RowCodec(pa.schema([*times, *(key.with_type(comparable_type(key.type)) for key in grouping.keys)]), step)


def _identities(partial: Partial, codec: RowCodec) -> RowBytes:
    columns = [pa.array(partial.starts), pa.array(partial.ends), *partial.keys]
    return codec.encode(pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))]))


def take_groups(partial: Partial, rows: Column) -> Partial:
    """Return some groups of a partial by their place, in the order given. Cost: O(groups and members taken)."""
    columns = [*partial.keys, *partial.states]
    if columns:
        named = pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])
        columns = gather(named, rows).columns
    return Partial(
        partial.grouping,
        partial.starts[rows],
        partial.ends[rows],
        tuple(columns[: len(partial.keys)]),
        tuple(columns[len(partial.keys) :]),
        tuple(_members_of(table, partial.origin + rows) for table in partial.members),
    )


def _members_of(members: pa.Table, groups: Column) -> pa.Table:
    """The members of some groups, which are numbered from 0 then."""
    group = members.column("group").to_numpy()
    begins = np.searchsorted(group, groups)
    counts = np.searchsorted(group, groups, side="right") - begins
    before = np.cumsum(counts) - counts
    rows = np.arange(int(counts.sum())) + np.repeat(begins - before, counts)
    taken = gather(_one_batch(members), rows)
    return _with_groups(pa.Table.from_batches([taken]), np.repeat(np.arange(len(groups)), counts))


def lay_end_to_end(partials: Sequence[Partial]) -> Partial:
    """Return the groups of all partials, one after the other; groups that are equal are not put together."""
    if len(partials) == 1:
        return partials[0]
    firsts = np.cumsum([0, *(len(partial) for partial in partials[:-1])]).tolist()
    return Partial(
        partials[0].grouping,
        np.concatenate([partial.starts for partial in partials]),
        np.concatenate([partial.ends for partial in partials]),
        tuple(map(pa.concat_arrays, zip(*(partial.keys for partial in partials), strict=True))),
        tuple(map(pa.concat_arrays, zip(*(partial.states for partial in partials), strict=True))),
        tuple(
            pa.concat_tables(
                _with_groups(partial.members[i], _group(partial, i) + first)
                for partial, first in zip(partials, firsts, strict=True)
            ).combine_chunks()
            for i in range(len(partials[0].members))
        ),
    )


def _absorbed(before: Partial, places: Column, new: Partial) -> Partial:
    """The groups of a new partial, with what was there before at some places folded in."""
    if not len(before):
        return new
    grouping, groups = new.grouping, np.concatenate([places, np.arange(len(new))])
    states = zip(grouping.column_folds, before.states, new.states, strict=True)
    members = (
        pa.concat_tables(
            [
                _with_groups(before.members[i], places[_group(before, i)]),
                _with_groups(new.members[i], _group(new, i)),
            ]
        )
        for i in range(len(new.members))
    )
    return Partial(
        grouping,
        new.starts,
        new.ends,
        new.keys,
        tuple(fold.merged(pa.concat_arrays([was, came]), groups, len(new)) for fold, was, came in states),
        tuple(fold.merged(table) for fold, table in zip(grouping.member_folds, members, strict=True)),
    )


def _group(partial: Partial, i: int) -> Column:
    """For the i-th member table the place of each member's group in the partial."""
    return partial.members[i].column("group").to_numpy() - partial.origin


def _with_groups(members: pa.Table, groups: Column) -> pa.Table:
    return members.set_column(0, "group", pa.array(groups))


def _one_batch(members: pa.Table) -> pa.RecordBatch:
    """A table as one batch; nothing is copied where it lies in one chunk, as merged members do."""
    return pa.RecordBatch.from_arrays(
        [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in members.columns],
        members.column_names,
    )


def _size_class(groups: int) -> int:
    return (groups.bit_length() + 2) // 3
