"""How each aggregate is computed in parts: what one row becomes, how two parts merge, what the whole gives.

A fold keeps its state in one of two forms. A ColumnFold has one value per group, a column beside the group's keys. A
MemberFold has any number of members per group, in a flat table with the number of the group in front.

Law: merging is associative and independent of how rows were split into parts, so the answer is, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.events.gather import gather_column
from slackwater.kernels.columns.number_pairs import add_by_number, keep_greatest
from slackwater.operators.aggregate.exact_sum import digits_of, sums_of
from slackwater.operators.aggregate.group_keys import comparable, in_own_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.batch import Times

_PLACES_PER_MEMBER = 4
"""Where the greatest values of all groups need more room than this, it is not worth having."""


@dataclass(frozen=True)
class ColumnFold(ABC):
    """A state of one value per group."""

    column: str | None

    @abstractmethod
    def lift(self, payload: pa.RecordBatch) -> pa.Array:
        """Return the state of each single row."""

    @abstractmethod
    def merged(self, states: pa.Array, numbers: NDArray[np.int64], groups: int) -> pa.Array:
        """Put together the states that have the number of the same group; no group is without one."""


@dataclass(frozen=True)
class CountFold(ColumnFold):
    """Counts rows, or the non-null values of a column."""

    def lift(self, payload: pa.RecordBatch) -> pa.Array:
        """One for each row that counts."""
        if self.column is None:
            return pa.array(np.ones(payload.num_rows, dtype=np.int64))
        return payload.column(self.column).is_valid().cast(pa.int64())

    def merged(self, states: pa.Array, numbers: NDArray[np.int64], groups: int) -> pa.Array:
        """Add the counts."""
        sums = np.zeros(groups, dtype=np.int64)
        add_by_number(states.to_numpy(), numbers, sums)
        return pa.array(sums)


@dataclass(frozen=True)
class ValueFold(ColumnFold):
    """Folds the values themselves by a function of Arrow: sums of integers and decimals, least and greatest values."""

    function: str
    state: pa.DataType

    def lift(self, payload: pa.RecordBatch) -> pa.Array:
        """The value, in a type wide enough for every sum."""
        return comparable(payload.column(self.column)).cast(self.state)

    def merged(self, states: pa.Array, numbers: NDArray[np.int64], groups: int) -> pa.Array:
        """Fold the values of each group."""
        table = pa.table({"group": numbers, "state": states})
        grouped = table.group_by("group", use_threads=False).aggregate([("state", self.function)])
        place = np.empty(groups, dtype=np.int64)
        place[grouped.column("group").to_numpy()] = np.arange(groups)
        return _one_chunk(grouped.column(f"state_{self.function}")).take(pa.array(place))


@dataclass(frozen=True)
class MemberFold(ABC):
    """A state of several members per group: a table with a column `group` and columns of its own, sorted by group."""

    column: str

    @abstractmethod
    def lift(self, payload: pa.RecordBatch) -> pa.Table:
        """Return the members of each single row; the row's number is its group."""

    @abstractmethod
    def merged(self, members: pa.Table) -> pa.Table:
        """Put together the members that have come into one group."""

    @abstractmethod
    def finish(self, members: pa.Table, groups: int) -> pa.Array:
        """Return the answer of each of the groups, numbered from 0."""

    def _present(self, payload: pa.RecordBatch) -> tuple[NDArray[np.int64], pa.Array]:
        values = comparable(payload.column(self.column))
        rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        return rows, values if len(rows) == len(values) else gather_column([values], pa.array(rows))


@dataclass(frozen=True)
class FloatSumFold(MemberFold):
    """Adds floats exactly; the members of a group are the digits of its sum."""

    def lift(self, payload: pa.RecordBatch) -> pa.Table:
        """The digits of each value."""
        rows, values = self._present(payload)
        number, place, digit = digits_of(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
        return pa.table({"group": rows[number], "place": place, "digit": digit})

    def merged(self, members: pa.Table) -> pa.Table:
        """Add the digits of one place."""
        grouped = members.group_by(["group", "place"], use_threads=False).aggregate([("digit", "sum")])
        return _by_group(grouped.select(["group", "place", "digit_sum"]).rename_columns(["group", "place", "digit"]))

    def finish(self, members: pa.Table, groups: int) -> pa.Array:
        """Round each sum to a float; null where there was no value."""
        group = _group(members)
        sums = sums_of(group, members.column("place").to_numpy(), members.column("digit").to_numpy(), groups)
        empty = np.ones(groups, dtype=bool)
        empty[group] = False
        return pa.array(sums, mask=empty)


@dataclass(frozen=True)
class DistinctFold(MemberFold):
    """Counts different values; the members of a group are those values."""

    def lift(self, payload: pa.RecordBatch) -> pa.Table:
        """The value of each row, unless it is null."""
        rows, values = self._present(payload)
        return pa.table({"group": rows, "value": values})

    def merged(self, members: pa.Table) -> pa.Table:
        """Keep each value once."""
        return _by_group(members.group_by(["group", "value"], use_threads=False).aggregate([]))

    def finish(self, members: pa.Table, groups: int) -> pa.Array:
        """Count the values."""
        return pa.array(np.bincount(_group(members), minlength=groups).astype(np.int64))


@dataclass(frozen=True)
class TopFold(MemberFold):
    """Keeps the k largest values; the members of a group are those, greatest first."""

    k: int
    value: pa.DataType

    def lift(self, payload: pa.RecordBatch) -> pa.Table:
        """The value of each row, unless it is null."""
        rows, values = self._present(payload)
        return pa.table({"group": rows, "value": values})

    def merged(self, members: pa.Table) -> pa.Table:
        """Keep the k greatest of each group."""
        group, values = _group(members), members.column("value")
        groups = int(group.max(initial=-1)) + 1
        if pa.types.is_signed_integer(values.type) and groups * self.k <= _PLACES_PER_MEMBER * len(members):
            kept = np.empty((groups, self.k), dtype=np.int64)
            counts = keep_greatest(values.to_numpy().astype(np.int64, copy=False), group, self.k, kept)
            greatest = pa.array(kept[np.arange(self.k) < counts[:, None]]).cast(values.type)
            return pa.table({"group": np.repeat(np.arange(groups), counts), "value": greatest})
        ordered = members.take(pc.sort_indices(members, sort_keys=[("group", "ascending"), ("value", "descending")]))
        group = _group(ordered)
        firsts = np.flatnonzero(np.diff(group, prepend=-1))
        rank = np.arange(len(group)) - np.repeat(firsts, np.diff(firsts, append=len(group)))
        return ordered.filter(pa.array(rank < self.k)).combine_chunks()

    def finish(self, members: pa.Table, groups: int) -> pa.Array:
        """One list per group; it is empty where there was no value."""
        ends = np.searchsorted(_group(members), np.arange(groups + 1)).astype(np.int32)
        values = in_own_type(_one_chunk(members.column("value")), self.value)
        return pa.ListArray.from_arrays(pa.array(ends), values)


Fold = ColumnFold | MemberFold
"""The state of an aggregate, in either form."""


def _group(members: pa.Table) -> Times:
    return members.column("group").to_numpy()


def _by_group(members: pa.Table) -> pa.Table:
    """Sort members by group; those of one group keep their order."""
    group = _group(members)
    if (group[1:] < group[:-1]).any():
        members = members.take(pa.array(np.argsort(group, kind="stable")))
    return members.combine_chunks()


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
