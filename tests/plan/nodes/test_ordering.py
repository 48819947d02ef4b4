"""The punctuate and sort nodes: what they say of themselves, what they know of their outputs, and what they refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import BadDuration, NeedsOrder, PlanError, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.operators.emission import LATE, band_output
from slackwater.operators.late_rows import late_schema
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.rows import AssumeOrdered, UnaryNode
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.lateness import Lateness
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from slackwater.plan.node import Node

_NUMBERED = sw.stream(pa.table({"at": [1, 2], "x": ["a", "b"]}), time="at").node
_DATED = sw.stream(pa.table({"at": pa.array([1, 2], pa.timestamp("s")), "x": ["a", "b"]}), time="at").node

_FIVE_ROWS = Every.rows(5)
_DIVERT = Late.divert()


@dataclass(frozen=True, eq=False)
class _Known(AssumeOrdered):
    """A step of which anything may be known."""

    facts: Properties

    @property
    def properties(self) -> Properties:
        return self.facts


def _punctuate(node: Node = _NUMBERED, *patiences: int, every: Any = _FIVE_ROWS, late: Any = _DIVERT) -> Punctuate:
    return Punctuate(node, Lateness(patiences or (5,), every, late))


def test_it_shows_patience_cadence_and_what_becomes_of_late_rows() -> None:
    """In the units of the stream."""
    assert _punctuate(_DATED, 5_000_000, every=Every.time("0.5s")).line == (
        "punctuate patience=5s every 500ms, late rows diverted"
    )
    bands = _punctuate(_DATED, 1_000_000, 60_000_000, 3_600_000_000, every=Every.batch(), late=Late.drop())
    assert bands.details() == "patience=1s, 1m, 1h every batch, late rows dropped"
    assert _punctuate(_NUMBERED, 0, 5, late=Late.raise_error()).details() == (
        "patience=0, 5 every 5 rows, late rows refused"
    )
    assert "first band" in bands.reason()
    assert "band" not in _punctuate().reason()


def test_the_main_output_is_the_input_punctuated() -> None:
    """Same columns, and nothing else that was known is lost."""
    facts = Properties(order=Order.STRICT, extent=Extent.WINDOWS, keyed=True)
    step = _punctuate(_Known(_NUMBERED, facts))
    assert step.properties == facts.replace(punctuated=True)
    assert step.schema is _NUMBERED.schema


def test_moving_late_rows_makes_less_known() -> None:
    """Two events may become one, equal times may follow each other, and part of a window is none."""
    facts = Properties(order=Order.STRICT, extent=Extent.WINDOWS, keyed=True)
    moved = _punctuate(_Known(_NUMBERED, facts), late=Late.adjust()).properties
    assert moved == Properties(order=Order.TIES, extent=Extent.INTERVALS, punctuated=True)
    assert _punctuate(late=Late.adjust()).properties == _NUMBERED.properties.replace(punctuated=True)


def test_bands_and_diverted_rows_are_side_outputs() -> None:
    """Bands are like the main output; late rows have their own columns and guarantee nothing."""
    step = _punctuate(_NUMBERED, 1, 2, 3)
    band = (step.schema, step.properties)
    late = (late_schema(_NUMBERED.schema), _NUMBERED.properties.replace(punctuated=False))
    assert step.side_outputs() == {band_output(1): band, band_output(2): band, LATE: late}
    assert _punctuate(late=Late.drop()).side_outputs() == {}


def test_it_builds_an_operator_that_goes_on_from_a_snapshot() -> None:
    """With the cadence in the units of the stream."""
    step = _punctuate(_DATED, 1, every=Every.time("1s"))
    rows = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), [1_500_000, 2_000_000])
    operator = step.build("punctuate#1")
    operator.on_batch(0, rows.slice(0, 1))
    (emitted,) = step.build("punctuate#1", operator.snapshot()).on_batch(0, rows.slice(1, 2)).batches
    assert emitted.punctuations().tolist() == [1_999_999]


@pytest.mark.parametrize("patiences", [(), (-1,), (5, 5), (5, 3), (0, FOREVER + 1)])
def test_patiences_must_rise(patiences: tuple[int, ...]) -> None:
    """One clear message."""
    with pytest.raises(BadDuration, match="patiences in rising order, none negative"):
        Punctuate(_NUMBERED, Lateness(patiences, Every.rows(5), Late.divert()))


@pytest.mark.parametrize("late", ["drop", None, Late])
def test_a_late_policy_is_one_of_those_there_are(late: Any) -> None:
    """Not a word, and not a class."""
    with pytest.raises(PlanError, match=r"late= takes a Late policy[\s\S]*Late\.divert\(\)"):
        _punctuate(late=late)


@pytest.mark.parametrize("every", ["1s", 5, None])
def test_a_cadence_is_one_of_those_there_are(every: Any) -> None:
    """Not a bare length: of what?"""
    with pytest.raises(PlanError, match=r"every= takes an Every cadence[\s\S]*Every\.batch\(\)"):
        _punctuate(every=every)


def test_a_cadence_of_the_other_kind_of_time_is_refused() -> None:
    """When the node is made."""
    with pytest.raises(BadDuration, match="does not fit a stream of calendar time"):
        _punctuate(_DATED, every=Every.time(5))


def test_events_without_times_or_with_revisions_are_refused() -> None:
    """There is nothing to check them by, or no end of checking."""
    with pytest.raises(PlanError, match="punctuate needs times"):
        _punctuate(sw.unstamped([{"x": "a"}]).node)
    with pytest.raises(PlanError, match="events are revised"):
        _punctuate(_Known(_NUMBERED, Properties(insert_only=False)))


def test_a_column_that_the_late_output_needs_is_refused() -> None:
    """When the node is made, and only if rows are diverted."""
    clashing: UnaryNode = AssumeOrdered(sw.stream(pa.table({"at": [1], "late_by": [2]}), time="at").node)
    with pytest.raises(SchemaMismatch, match="late_by"):
        _punctuate(clashing)
    _punctuate(clashing, late=Late.drop())


# ---- sort -----------------------------------------------------------------------------------------------------------


def test_a_sorted_stream_is_its_input_in_order() -> None:
    """Same columns; what was known stays known, and punctuations pass."""
    facts = Properties(extent=Extent.WINDOWS, keyed=True, punctuated=True)
    step = Sort(_Known(_NUMBERED, facts))
    assert step.properties == facts.replace(order=Order.TIES)
    assert step.schema is _NUMBERED.schema
    assert step.side_outputs() == {}
    assert step.line == "sort"


def test_a_sort_says_what_was_moved_before_it() -> None:
    """Each kind of step once, in the order of the plan."""
    assert "equal times as they came" in Sort(_NUMBERED).reason()
    assert Sort(_NUMBERED, ("where", "select", "where")).reason().startswith("moved behind where, select: ")


def test_it_builds_a_sort_that_goes_on_from_a_snapshot() -> None:
    """Rows that wait are in the state."""
    step = Sort(_NUMBERED)
    operator = step.build("sort#1")
    operator.on_batch(0, EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), [5, 3]))
    rows, _ = step.build("sort#1", operator.snapshot()).on_end(0).batches
    assert (rows.start.tolist(), rows.payload.column("x").to_pylist()) == ([3, 5], ["b", "a"])


def test_a_sort_of_what_is_never_complete_or_revised_is_refused() -> None:
    """A live source must punctuate, be ordered, or be given a patience; a table has an end."""
    live = sw.stream(sw.PushSource({"at": pa.int64()}, name="clicks"), time="at").node
    with pytest.raises(NeedsOrder, match=r"(?s)would never emit a row.*stream  source clicks.*patience="):
        Sort(live)
    Sort(_punctuate(live))
    Sort(AssumeOrdered(live))
    Sort(_NUMBERED)
    with pytest.raises(PlanError, match="this stream revises them"):
        Sort(_Known(_NUMBERED, Properties(insert_only=False)))


def test_late_rows_are_not_adjusted_to_times_that_their_column_cannot_know() -> None:
    """Two bounds within a day would be shown as the same date."""
    days = sw.stream(pa.table({"at": pa.array([1, 2], pa.date32())}), time="at")
    with pytest.raises(BadDuration, match="whole 1d"):
        days.sort("36h", late=sw.Late.adjust())
    days.sort("2d", late=sw.Late.adjust())
    days.sort("36h")
