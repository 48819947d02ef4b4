"""Steps over whole windows: what the node of a user's function says of itself, refuses, and does only once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError
from slackwater.operators.aggregate.map_windows import MapWindowsOperator
from slackwater.plan.nodes.aggregating import AggregateStep, MapWindows
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node

_NUMBERED = sw.stream([{"at": 1, "v": 5}], time="at").node


@dataclass(frozen=True, eq=False)
class _Known(UnaryNode):
    """A stream of which the given facts are known."""

    facts: Properties
    verb = "known"
    traits = Traits()

    @property
    def properties(self) -> Properties:
        return self.facts

    def details(self) -> str:
        return ""

    def reason(self) -> str:
        return "for the test"

    def build(self, step: str, resume: object = None) -> Operator[object]:
        raise NotImplementedError(step, resume)


def _count(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": [rows.num_rows]})


_OVER_WINDOWS: dict[str, Callable[[Node], Node]] = {
    "aggregate": lambda node: AggregateStep(node, (), {"n": sw.count()}),
    "map_windows": lambda node: MapWindows(node, _count),
}


@pytest.mark.parametrize("verb", _OVER_WINDOWS)
def test_a_step_over_windows_needs_progress_and_no_order(verb: str) -> None:
    """Punctuations do; without either the stream is refused, and so is one that revises its events."""
    make = _OVER_WINDOWS[verb]
    assert make(_Known(_NUMBERED, Properties(punctuated=True))).properties.ordered
    with pytest.raises(NeedsOrder, match=rf"(?s){verb} needs an ordered or punctuated stream.*stream  known"):
        make(_Known(_NUMBERED, Properties()))
    with pytest.raises(PlanError, match=rf"(?s){verb} takes inserts only.*stream  known"):
        make(_Known(_NUMBERED, Properties(order=Order.TIES, insert_only=False)))


def test_map_windows_knows_the_order_of_its_answers_and_no_key() -> None:
    """Stamps and extent are those of the windows."""
    facts = Properties(order=Order.STRICT, stamps=Stamps.INTERNAL, extent=Extent.WINDOWS, punctuated=True, keyed=True)
    answers = MapWindows(_Known(_NUMBERED, facts), _count).properties
    assert answers == Properties(order=Order.TIES, stamps=Stamps.INTERNAL, extent=Extent.WINDOWS)


def test_map_windows_is_shown_with_the_name_of_its_function() -> None:
    """Whatever kind of function it is."""
    node = _Known(_NUMBERED, Properties(order=Order.TIES))
    assert MapWindows(node, _count).line == "map_windows _count"
    assert MapWindows(node, lambda rows: rows.select(["v"])).line == "map_windows <lambda>"
    assert MapWindows(node, partial(_count)).line == "map_windows partial"


def test_a_function_is_tried_once_for_each_step_that_is_written_and_not_where_its_columns_are_named() -> None:
    """Planning it on another input, and building its operator, try nothing."""
    tried = 0

    def counted(rows: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal tried
        tried += 1
        return _count(rows)

    node = _Known(_NUMBERED, Properties(order=Order.TIES))
    step = MapWindows(node, counted)
    assert isinstance(step.with_inputs(node).build("map_windows#1"), MapWindowsOperator)
    assert tried == 1
    assert MapWindows(node, counted, pa.schema({"n": pa.int64()})).schema.shown.names == ["at", "n"]
    assert tried == 1
