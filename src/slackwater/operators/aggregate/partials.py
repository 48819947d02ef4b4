"""Partial results of a grouped aggregation: made from rows, merged with others, and finished into answers.

    Partial.of(rows)  ->  Partial.merge([older, newer])  ->  partial.split(bound)  ->  partial.finish()

A partial has columns of groups (interval, keys, states) and, for aggregates with more than one value per group, flat
tables of members. `of` is a merge as well: every row is lifted to a group of its own first.

Invariants: groups are sorted by (start, end), those of equal interval by first appearance; members are sorted by
group. So whatever lies before a bound is a prefix, and cutting it off copies nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.errors import RunError, message
from slackwater.events.batch import EventBatch
from slackwater.events.gather import gather_column, no_columns
from slackwater.events.shown_values import show_value
from slackwater.kernels.columns.number_pairs import Numbered, number_pairs
from slackwater.operators.aggregate.folds import MemberFold
from slackwater.operators.aggregate.group_keys import comparable, in_own_type, number_groups
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import Times
    from slackwater.operators.aggregate.recipes import Grouping, Recipe
    from slackwater.progress.instants import Duration, Instant


_FEW_INTERVALS: Final = 1 << 16
"""Intervals that can be numbered with 16 bits."""

_FIRST_LOOK: Final = 64
"""Groups whose ends are looked at at once; twice as many each time that all are before a bound."""


@dataclass(frozen=True)
class PartialState:
    """What is remembered of a partial: its groups and their members. What is computed of them is in the plan."""

    starts: Times
    ends: Times
    keys: tuple[pa.Array, ...]
    states: tuple[pa.Array, ...]
    members: tuple[pa.Table, ...]
    origin: int


@dataclass(frozen=True)
class Partial:
    """Groups (interval, keys, states), and the members of the groups.

    `origin` is the number by which the members know the first group: cutting groups off in front need not
    renumber the members.
    """

    grouping: Grouping
    starts: Times
    ends: Times
    keys: tuple[pa.Array, ...]
    states: tuple[pa.Array, ...]
    members: tuple[pa.Table, ...]
    origin: int = 0

    @classmethod
    def of(cls, rows: EventBatch, grouping: Grouping) -> Partial:
        """Group the rows of a batch without punctuations. Cost: O(n), and a sort of the groups.

        >>> from slackwater.operators.aggregate.recipes import Grouping
        >>> from slackwater.policies.aggregates import count
        >>> payload = pa.record_batch({"k": ["a", "b", "a"]})
        >>> grouping = Grouping.of(payload.schema, ["k"], {"n": count()}, "example")
        >>> rows = EventBatch.inserts(payload, start=[0, 0, 0], end=[10, 10, 10])
        >>> Partial.of(rows, grouping).finish().payload.to_pydict()
        {'k': ['a', 'b'], 'n': [2, 1]}
        """
        each = cls._each(rows, grouping)
        return each.folded(_numbered(each.starts, each.ends, each.keys))

    @classmethod
    def of_bands(cls, rows: EventBatch, bands: NDArray[np.int64], number: int, grouping: Grouping) -> list[Partial]:
        """Group the rows of several bands at once; return the groups of each, rows of further bands left out.

        >>> from slackwater.operators.aggregate.recipes import Grouping
        >>> from slackwater.policies.aggregates import count
        >>> payload = pa.record_batch({"k": ["a", "b", "a", "a"]})
        >>> grouping = Grouping.of(payload.schema, ["k"], {"n": count()}, "example")
        >>> rows = EventBatch.inserts(payload, start=[0, 0, 0, 0], end=[10, 10, 10, 10])
        >>> [one.finish().payload.to_pydict() for one in Partial.of_bands(rows, np.array([1, 0, 1, 2]), 2, grouping)]
        [{'k': ['b'], 'n': [1]}, {'k': ['a'], 'n': [2]}]
        """
        each = cls._each(rows, grouping)
        numbered = _numbered(each.starts, each.ends, each.keys, bands)
        left = each.folded(numbered)
        ends = np.searchsorted(bands[numbered.firsts], np.arange(number), side="right")
        of_bands = []
        for groups in np.diff(ends, prepend=0).tolist():
            of_band, left = left.cut(groups)
            of_bands.append(of_band)
        return of_bands

    @classmethod
    def _each(cls, rows: EventBatch, grouping: Grouping) -> Partial:
        """Every row as a group of its own."""
        return cls(
            grouping,
            rows.start,
            rows.ends(),
            tuple(comparable(rows.payload.column(key.name)) for key in grouping.keys),
            tuple(fold.lift(rows.payload) for fold in grouping.column_folds),
            tuple(fold.lift(rows.payload) for fold in grouping.member_folds),
        )

    @classmethod
    def merge(cls, partials: Sequence[Partial]) -> Partial:
        """Put partials together, oldest first. Cost: O(groups and members), and a sort of both."""
        if len(partials) == 1:
            return partials[0]
        firsts = np.cumsum([0, *(len(partial) for partial in partials[:-1])]).tolist()
        laid_out = cls(
            partials[0].grouping,
            np.concatenate([partial.starts for partial in partials]),
            np.concatenate([partial.ends for partial in partials]),
            tuple(map(pa.concat_arrays, zip(*(partial.keys for partial in partials), strict=True))),
            tuple(map(pa.concat_arrays, zip(*(partial.states for partial in partials), strict=True))),
            tuple(
                pa.concat_tables(
                    _renumbered(partial, i, first) for partial, first in zip(partials, firsts, strict=True)
                )
                for i in range(len(partials[0].members))
            ),
        )
        return laid_out.folded(_numbered(laid_out.starts, laid_out.ends, laid_out.keys))

    @classmethod
    def restored(cls, state: PartialState, grouping: Grouping) -> Partial:
        """Make a partial of its state again. Copies nothing."""
        return cls(grouping, state.starts, state.ends, state.keys, state.states, state.members, state.origin)

    def snapshot(self) -> PartialState:
        """Return what is to be remembered. Copies nothing."""
        return PartialState(self.starts, self.ends, self.keys, self.states, self.members, self.origin)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def rows(self) -> int:
        """How many rows the tables hold: what a merge costs."""
        return len(self) + sum(table.num_rows for table in self.members)

    def split(self, bound: Instant) -> tuple[Partial, Partial]:
        """Cut into the groups that start before the bound and the others. Cost: O(log n); nothing is copied."""
        return self.cut(int(np.searchsorted(self.starts, bound)))

    def cut(self, cut: int) -> tuple[Partial, Partial]:
        """Cut into the first groups, so many, and the others. Cost: O(log n); nothing is copied."""
        before, after = [], []
        for table in self.members:
            at = int(np.searchsorted(table.column("group").to_numpy(), self.origin + cut))
            before.append(table.slice(0, at))
            after.append(table.slice(at))
        return self._sliced(0, cut, before), self._sliced(cut, len(self), after)

    def parted(self, chosen: NDArray[np.bool_]) -> tuple[Partial, Partial]:
        """Part into the groups that are chosen and the others, both in their order. Cost: a copy of all."""
        return self._picked(np.flatnonzero(chosen)), self._picked(np.flatnonzero(~chosen))

    def spread(self, spread: RowSpread) -> list[Partial]:
        """Part into the groups of each place, by the keys that decide it. Cost: a copy of all."""
        if spread.places == 1:
            return [self]
        keys = [in_own_type(column, key.type) for column, key in zip(self.keys, self.grouping.keys, strict=True)]
        names = [key.name for key in self.grouping.keys]
        named = pa.RecordBatch.from_arrays(keys, names=names) if keys else no_columns(len(self))
        place = spread.of(EventBatch(named, self.starts, self.ends))
        return [self._picked(np.flatnonzero(place == number)) for number in range(spread.places)]

    def _picked(self, groups: NDArray[np.int64]) -> Partial:
        at = pa.array(groups)
        return Partial(
            self.grouping,
            self.starts[groups],
            self.ends[groups],
            tuple(gather_column([key], at) for key in self.keys),
            tuple(gather_column([state], at) for state in self.states),
            tuple(_members_of(_renumbered(self, i, 0), groups, len(self)) for i in range(len(self.members))),
        )

    def first_past(self, bound: Instant) -> int:
        """How many groups lie before the first that ends past the bound. Cost: O(that many)."""
        looked_at = _FIRST_LOOK
        while looked_at < len(self) and (self.ends[:looked_at] <= bound).all():
            looked_at *= 2
        past = self.ends[:looked_at] > bound
        return int(np.argmax(past)) if past.any() else len(self)

    def _sliced(self, first: int, stop: int, members: Sequence[pa.Table]) -> Partial:
        return Partial(
            self.grouping,
            self.starts[first:stop],
            self.ends[first:stop],
            tuple(key.slice(first, stop - first) for key in self.keys),
            tuple(state.slice(first, stop - first) for state in self.states),
            tuple(members),
            self.origin + first,
        )

    def moved(self, groups: NDArray[np.int64], starts: Times, size: Duration) -> Partial:
        """Take groups by number, any of them several times, to other intervals; bring together those of one interval.

        Cost: O(groups and members taken), and a sort of the intervals.
        """
        laid_out = replace(self._picked(groups), starts=starts, ends=later(starts, size))
        return laid_out.folded(_numbered(laid_out.starts, laid_out.ends, laid_out.keys))

    def folded(self, numbered: Numbered) -> Partial:
        """Bring groups of one number together: their states into one, their members under that number."""
        grouping, (numbers, firsts) = self.grouping, numbered
        moved = (part.set_column(0, "group", pa.array(numbers[_group(part)])) for part in self.members)
        return Partial(
            grouping,
            self.starts[firsts],
            self.ends[firsts],
            tuple(gather_column([key], pa.array(firsts)) for key in self.keys),
            tuple(
                fold.merged(state, numbers, len(firsts))
                for fold, state in zip(grouping.column_folds, self.states, strict=True)
            ),
            tuple(fold.merged(part) for fold, part in zip(grouping.member_folds, moved, strict=True)),
        )

    def finish(self, where: str = "aggregate") -> EventBatch:
        """Return one row per group: keys, then answers, in order of (start, end), then first appearance."""
        keys = [in_own_type(column, key.type) for column, key in zip(self.keys, self.grouping.keys, strict=True)]
        results = iter(self._results())
        answers = []
        for recipe in self.grouping.recipes:
            parts = [next(results) for _ in recipe.folds]
            try:
                answers.append(recipe.combine(parts))
            except pa.ArrowInvalid as error:
                raise self._too_large(recipe, parts, where) from error
        payload = pa.RecordBatch.from_arrays([*keys, *answers], schema=self.grouping.payload)
        return EventBatch.inserts(payload, self.starts, self.ends)

    def _results(self) -> list[pa.Array]:
        """The result of each fold, one value per group."""
        states = iter(self.states)
        members = (_renumbered(self, i, 0) for i in range(len(self.members)))
        return [
            fold.finish(next(members), len(self)) if isinstance(fold, MemberFold) else next(states)
            for fold in self.grouping.folds
        ]

    def _too_large(self, recipe: Recipe, parts: Sequence[pa.Array], where: str) -> RunError:
        """Find the first group whose answer does not fit its type."""
        group = next(i for i in range(len(self)) if not _fits(recipe, [part.slice(i, 1) for part in parts]))
        named = zip(self.grouping.keys, self.keys, strict=True)
        facts = {
            "aggregate": f"{recipe.answer.name} = {recipe.aggregate}",
            "interval": f"[{self.starts[group]}, {self.ends[group]})",
            "keys": ", ".join(f"{key.name}={show_value(column[group])}" for key, column in named) or "none",
            "answer": show_value(parts[0][group]),
            "type": recipe.answer.type,
        }
        return RunError(message(f"{where} got an answer too large for its type", facts, "cast the column to float64"))

    def check(self) -> None:
        """Assert the invariants."""
        intervals = list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))
        assert intervals == sorted(intervals), intervals
        for table in self.members:
            group = _group(table) - self.origin
            assert (np.diff(group) >= 0).all(), group
            assert ((group >= 0) & (group < len(self))).all(), (group, len(self))


def _numbered(start: Times, end: Times, keys: Sequence[pa.Array], bands: NDArray[np.int64] | None = None) -> Numbered:
    """Number the groups of rows by (start, end), those of one interval by first appearance; by band before that."""
    # Intervals are few, as a rule: once these are in order, the groups need no more than to be bucketed by them.
    intervals = number_pairs(start, end)
    order_by = [end, start]
    if bands is not None:
        intervals = number_pairs(intervals.numbers, bands)
        order_by.append(bands)
    in_order = np.lexsort([column[intervals.firsts] for column in order_by])
    if not keys:
        return _ranked(intervals, in_order)
    groups = number_groups(intervals.numbers, keys)
    of_group = _inverse(in_order)[intervals.numbers[groups.firsts]]
    if len(in_order) <= _FEW_INTERVALS:
        of_group = of_group.astype(np.uint16)  # NumPy sorts these by their digits
    return _ranked(groups, np.argsort(of_group, kind="stable"))


def _ranked(found: Numbered, order: Times) -> Numbered:
    """Number what was found anew, in the order given."""
    return Numbered(_inverse(order)[found.numbers], found.firsts[order])


def _inverse(order: Times) -> Times:
    """The place of each number in an order of all."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank


def _renumbered(partial: Partial, i: int, first: int) -> pa.Table:
    """The i-th member table, with the partial's first group numbered `first`."""
    table = partial.members[i]
    return table.set_column(0, "group", pa.array(_group(table) - partial.origin + first))


def _members_of(members: pa.Table, groups: NDArray[np.int64], number: int) -> pa.Table:
    """The members of some of so many groups, given by number, under the places that these have among the given."""
    begins = np.searchsorted(_group(members), np.arange(number + 1))
    counts = np.diff(begins)[groups]
    before = np.cumsum(counts) - counts
    rows = np.arange(counts.sum()) + np.repeat(begins[groups] - before, counts)
    place = pa.array(np.repeat(np.arange(len(groups)), counts))
    return members.take(pa.array(rows)).set_column(0, "group", place)


def _group(members: pa.Table) -> Times:
    return members.column("group").to_numpy()


def _fits(recipe: Recipe, parts: Sequence[pa.Array]) -> bool:
    try:
        recipe.combine(parts)
    except pa.ArrowInvalid:
        return False
    return True
