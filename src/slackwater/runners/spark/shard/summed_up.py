"""Takes sums of rows to the aggregate of a shard, past the steps before it: they were made where rows are read.

Rule: no sum may have a row that is late, which is to be seen, or one that breaks a bound of its source, which is to be
counted: nobody can take it out of a sum again. So it is checked before a sum is taken. Where late rows are dropped, and
whole windows are late, sums are late themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.aggregate.aggregate import AggregateOperator
from slackwater.operators.emission import NOTHING
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.plan.rewrites.sums_beside_rows import SumsBesideRows
    from slackwater.progress.instants import Instant
    from slackwater.runners.operator_graph import OperatorGraph
    from slackwater.runners.spark.wire.packed_rows import PackedRow


class SummedUpRows:
    """The way of sums into the operators of a shard."""

    def __init__(self, sums: SumsBesideRows, graph: OperatorGraph) -> None:
        self._sums, self._graph = sums, graph
        self._aggregate = graph.step_of(sums.aggregate)
        self._punctuate = graph.step_of(sums.punctuate).operator
        self._entry = graph.step_of(sums.entry).operator

    def in_time_from(self) -> Instant:
        """The time from which on no row is late that comes now, nor breaks a bound."""
        assert isinstance(self._punctuate, PunctuateOperator)
        beats = self._entry
        unbroken = beats.unbroken_from() if isinstance(beats, DrivenHeartbeatsOperator) else BEGINNING
        return max(self._punctuate.in_time_from(), unbroken)

    def take(self, row: PackedRow) -> None:
        """Take groups that came as one chunk. Nothing goes out before the aggregate is punctuated again."""
        punctuate, aggregate, form = self._punctuate, self._aggregate.operator, self._sums.groups
        assert isinstance(punctuate, PunctuateOperator)
        assert isinstance(aggregate, AggregateOperator)
        groups = row.events(form.schema.no_rows)
        if self._sums.of_late_rows:
            groups = punctuate.groups_in_time(groups, form.event_count_column)
        elif row.since < self.in_time_from():
            raise punctuate.summed_up_late(row.since, self.in_time_from())
        aggregate.add_groups(groups, form)
        self._graph.release(self._aggregate, NOTHING)
