"""The plan node of early answers: what it knows of them, and what it refuses."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch
from slackwater.operators.aggregate.early import EarlyAggregateOperator
from slackwater.plan.nodes.early_aggregate import EarlyAggregate
from slackwater.plan.properties import Extent, Properties, Stamps

_ROWS = sw.stream([{"at": 1, "k": "a", "v": 5}], time="at")
_COUNT = {"n": sw.count()}


def test_answers_are_revised_in_no_order_and_have_a_key() -> None:
    """Whatever is known of the rows."""
    expected = Properties(extent=Extent.WINDOWS, punctuated=True, insert_only=False, keyed=True)
    ordered = _ROWS.assume_ordered().tumbling(10)
    assert EarlyAggregate(ordered.node, ("k",), _COUNT).properties == expected
    assert ordered.group_by("k").aggregate_early(n=sw.count()).properties == expected
    assert _ROWS.hopping(10, 5).group_by().aggregate_early(patience=5, n=sw.count()).properties == expected
    stamped = sw.unstamped([{"k": "a"}]).tumbling("1s").group_by().aggregate_early(n=sw.count())
    assert stamped.properties == expected.replace(stamps=Stamps.PROCESSED)


def test_windows_of_several_lengths_that_start_together_have_no_key() -> None:
    """Two streams may have windows of different lengths; one window after a union has one length."""
    ordered = _ROWS.assume_ordered()
    several = ordered.tumbling(10).union(ordered.tumbling(20))
    assert not EarlyAggregate(several.node, ("k",), _COUNT).properties.keyed
    assert EarlyAggregate(ordered.union(ordered).tumbling(10).node, ("k",), _COUNT).properties.keyed


def test_the_step_is_shown_and_built_as_what_it_is() -> None:
    """With its own name in messages."""
    step = EarlyAggregate(_ROWS.assume_ordered().tumbling(10).node, ("k",), _COUNT)
    assert step.line == "aggregate_early n=count() by k"
    assert step.schema.shown.names == ["window_start", "window_end", "k", "n"]
    assert isinstance(step.build("aggregate_early#1"), EarlyAggregateOperator)
    with pytest.raises(SchemaMismatch, match="aggregate_early names a column that is not there"):
        EarlyAggregate(step.input, ("missing",), _COUNT)


def test_events_without_windows_are_refused() -> None:
    """Points, lifetimes, and pieces of windows that late rows were moved into."""
    ordered = _ROWS.assume_ordered()
    for stream in (ordered, ordered.sliding(5)):
        with pytest.raises(PlanError, match=r"(?s)aggregate_early needs windows.*hint: assign windows"):
            EarlyAggregate(stream.node, (), _COUNT)


def test_a_stream_that_never_says_what_is_complete_is_refused() -> None:
    """It would have to remember every group for ever."""
    with pytest.raises(
        NeedsOrder, match=r'(?s)the answers of this step would never become final.*aggregate_early\(patience="1h"'
    ):
        EarlyAggregate(_ROWS.tumbling(10).node, (), _COUNT)
