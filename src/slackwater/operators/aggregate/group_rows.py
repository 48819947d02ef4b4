"""Partial results as rows of events, so that they travel like any: an interval, keys, and what was summed up.

    window_start  window_end  keys ...  states ...  members ...  how many events it stands for, if that is counted

Members, of which a group has several, are lists. Events that are summed up where they are read need not be moved: who
gets the groups makes partial results of them again, and merges these.

Cost: O(groups and members) both ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.events.batch import EventBatch
from slackwater.operators.aggregate.group_keys import comparable, in_own_type
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.policies.aggregates import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.policies.aggregates import Aggregate

_NO_TIMES: Final[NDArray[np.int64]] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class GroupRows:
    """How groups of events of a schema, by interval and keys, are written as rows and read again.

    >>> import slackwater as sw
    >>> windows = sw.stream([{"at": at, "k": "a"} for at in (1, 4, 12)], time="at").tumbling(10)
    >>> groups = GroupRows(windows.node.schema, ("k",), {"last": sw.max("at")}, "example")
    >>> payload = pa.record_batch({"at": [1, 4, 12], "k": ["a", "a", "a"]})
    >>> summed_up = groups.summed_up(EventBatch.inserts(payload, start=[0, 0, 10], end=[10, 10, 20]))
    >>> rows = groups.rows(summed_up)
    >>> rows.start.tolist(), rows.payload.column(groups.event_count_column).to_pylist()
    ([0, 10], [2, 1])
    >>> groups.partial(rows).finish().payload.to_pydict()
    {'k': ['a', 'a'], 'last': [4, 12]}
    """

    events: EventSchema
    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    step: str
    counted: bool = True
    """Whether rows have a count of the events they stand for."""

    @property
    def event_count_column(self) -> str:
        """The column with how many events a row stands for. No key or aggregate is called so: it is longer."""
        return "events" + "_" * max(map(len, (*self.keys, *self.aggregates)))

    @cached_property
    def schema(self) -> EventSchema:
        """The columns of the rows."""
        payload = self.rows(self.none).payload
        times = [column.name for column in self.events.time_columns()]
        return self.events.with_payload(payload.schema, (*times, *payload.schema.names))

    @property
    def none(self) -> Partial:
        """No groups."""
        return self.summed_up(EventBatch.inserts(self.events.no_rows, _NO_TIMES, _NO_TIMES))

    def summed_up(self, events: EventBatch) -> Partial:
        """Sum up events, among which are no punctuations."""
        return Partial.of(events, self._written)

    def summed_up_by_band(self, events: EventBatch, bands: NDArray[np.int64], number: int) -> list[Partial]:
        """Sum up the events of each of several bands, at once. Those of further bands are left out."""
        return Partial.of_bands(events, bands, number, self._written)

    def rows(self, summed_up: Partial) -> EventBatch:
        """Write what was summed up as rows, in order of interval."""
        keys = [in_own_type(*one) for one in zip(summed_up.keys, (key.type for key in self._written.keys), strict=True)]
        states, count = summed_up.states[: len(self._grouping.column_folds)], summed_up.states[-1:]
        members = [_as_lists(table, summed_up.origin, len(summed_up)) for table in summed_up.members]
        columns = dict(zip(self.keys, keys, strict=True))
        columns |= {f"{self.event_count_column}{number}": column for number, column in enumerate([*states, *members])}
        columns |= {self.event_count_column: count[0]} if self.counted else {}
        payload = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        return EventBatch.inserts(payload, summed_up.starts, summed_up.ends)

    def partial(self, rows: EventBatch) -> Partial:
        """The partial result that rows hold, however many they stand for; they must be in order of interval."""
        columns = rows.payload.columns
        keys, values = columns[: len(self.keys)], columns[len(self.keys) : len(columns) - self.counted]
        states = values[: len(self._grouping.column_folds)]
        return Partial(
            self._grouping,
            rows.start,
            rows.ends(),
            tuple(map(comparable, keys)),
            tuple(states),
            tuple(map(_as_members, values[len(states) :])),
        )

    @cached_property
    def _grouping(self) -> Grouping:
        return Grouping.of(self.events.payload, self.keys, self.aggregates, self.step)

    @cached_property
    def _written(self) -> Grouping:
        """What rows hold: the same, and how many events there are, if that is counted, last of all states."""
        if not self.counted:
            return self._grouping
        aggregates = {**self.aggregates, self.event_count_column: count()}
        return Grouping.of(self.events.payload, self.keys, aggregates, self.step)


def _as_lists(members: pa.Table, origin: int, groups: int) -> pa.Array:
    """The members of each group as a list; members are in order of group."""
    group, *columns = members.combine_chunks().columns
    offsets = np.searchsorted(group.to_numpy(), origin + np.arange(groups + 1)).astype(np.int32)
    values = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in columns]
    each = pa.StructArray.from_arrays(values, names=members.column_names[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), each)


def _as_members(lists: pa.Array) -> pa.Table:
    group = np.repeat(np.arange(len(lists)), pc.list_value_length(lists).to_numpy())
    each = lists.flatten()
    return pa.table([pa.array(group), *each.flatten()], names=["group", *(field.name for field in each.type)])
