"""Plan nodes of the Impatience framework: where rows are split, what a banded aggregate says of itself and refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.aggregate.banded import banded_schema
from slackwater.operators.emission import LATE, band_output
from slackwater.plan.node import Node, SideOutput, walk
from slackwater.plan.nodes.bands import BandedAggregate, outputs_of, split_by_lateness
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.rows import AssignWindow, AssumeOrdered
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.policies.lateness import Lateness

if TYPE_CHECKING:
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.late import Late

_ROWS = sw.stream(pa.table({"at": [1, 2], "k": ["a", "b"], "v": [3, 4]}), time="at")
_COUNT: dict[str, Aggregate] = {"n": sw.count()}
_EVERY = sw.Every.rows(5)
_DIVERT = sw.Late.divert()


@dataclass(frozen=True, eq=False)
class _Known(AssumeOrdered):
    """A step of which anything may be known."""

    facts: Properties

    @property
    def properties(self) -> Properties:
        return self.facts


def _sorted_bands(stream: sw.DisorderedStream, *patiences: int, late: Late = _DIVERT) -> list[Node]:
    return split_by_lateness(stream.node, Lateness(patiences or (5,), _EVERY, late), in_order=True)


def _verbs(node: Node) -> list[str]:
    chain = [node.verb]
    while node.inputs:
        node = node.inputs[0]
        chain.append(node.verb)
    return chain


# ---- where rows are checked ------------------------------------------------------------------------------------------


def test_rows_without_windows_are_checked_last() -> None:
    """Filters before the bands stay before them: what is filtered out is not checked."""
    (band,) = _sorted_bands(_ROWS.where(nw.col("v") > 3).select("v"))
    assert _verbs(band) == ["sort", "punctuate", "select", "where", "source"]


def test_rows_are_checked_and_sorted_before_the_first_window() -> None:
    """By the times that they came with; the window and all that was written behind it follow, in every band."""
    stream = _ROWS.where(nw.col("v") > 3).tumbling(10).select("v").sliding(40).where(nw.col("v") < 9)
    bands = _sorted_bands(stream, 1, 5, 9)
    behind = ["where", "sliding", "select", "tumbling", "sort"]
    assert _verbs(bands[0]) == [*behind, "punctuate", "where", "source"]
    for band in bands[1:]:
        assert _verbs(band) == [*behind, "output", "punctuate", "where", "source"]
    assert len({node for node in walk(*bands) if isinstance(node, Punctuate)}) == 1
    assert all(band.schema == stream.node.schema for band in bands)


def test_windows_that_lose_the_order_come_before_the_sort() -> None:
    """Rows are checked before them all the same."""
    stream = _ROWS.tumbling(10).select("v").hopping(40, 20).where(nw.col("v") < 9)
    for band, checked in zip(_sorted_bands(stream, 1, 5), (["punctuate"], ["output", "punctuate"]), strict=True):
        assert _verbs(band) == ["sort", "where", "hopping", "select", "tumbling", *checked, "source"]


@pytest.mark.parametrize(
    "stream",
    [_ROWS, _ROWS.tumbling(10), _ROWS.hopping(10, 5), _ROWS.sliding(10).select("v")],
    ids=["points", "tumbling", "hopping", "sliding"],
)
def test_every_band_is_what_was_written_in_order(stream: sw.DisorderedStream) -> None:
    """The same columns, and as much is known, and that it is ordered and says what is complete."""
    for band in _sorted_bands(stream, 1, 5, 9):
        assert band.schema == stream.node.schema
        assert band.properties == stream.properties.replace(order=Order.TIES, punctuated=True)


def test_windows_behind_a_step_of_another_kind_are_windows_of_its_own_times() -> None:
    """What an aggregate says happens at the starts of its windows; nobody remembers the times before."""
    stream = _ROWS.assume_ordered().tumbling(10).aggregate(n=sw.count()).hopping(40, 20)
    (band,) = _sorted_bands(stream)
    assert _verbs(band)[:4] == ["sort", "hopping", "punctuate", "aggregate"]


def test_late_rows_have_the_columns_of_the_rows_that_were_checked() -> None:
    """Those before the window."""
    (band,) = _sorted_bands(_ROWS.select("v").tumbling(10))
    (step,) = (node for node in walk(band) if isinstance(node, Punctuate))
    assert step.side_outputs()[LATE][0].columns == ("at", "v", "late_bound", "late_by")


def test_the_first_band_is_the_main_output() -> None:
    """The others are side outputs, in order."""
    checked, *others = (band.inputs[0] for band in _sorted_bands(_ROWS, 1, 5, 9))
    assert isinstance(checked, Punctuate)
    assert outputs_of(checked, 1) == [checked]
    for number, band in enumerate(others, 1):
        assert isinstance(band, SideOutput)
        assert (band.step, band.output) == (checked, band_output(number))


# ---- the banded aggregate -------------------------------------------------------------------------------------------


def _banded(
    stream: sw.DisorderedStream,
    keys: tuple[str, ...] = (),
    aggregates: dict[str, Aggregate] | None = None,
    bands: int = 3,
) -> BandedAggregate:
    inputs = tuple(_sorted_bands(stream, *range(1, bands + 1)))
    return BandedAggregate(inputs, keys, _COUNT if aggregates is None else aggregates)


def test_it_says_what_it_does() -> None:
    """The aggregates, the keys, and what is held."""
    step = _banded(_ROWS.tumbling(10), ("k", "v"), {"n": sw.count(), "top": sw.top_k("v", 2)})
    assert step.line == "in_bands n=count(), top=top_k(v, 2) by k, v"
    assert _banded(_ROWS.tumbling(10)).line == "in_bands n=count()"
    assert "partial results are held" in step.reason()


def test_it_reads_every_band_and_has_an_output_for_each() -> None:
    """All of the same columns, and as much is known of each."""
    step = _banded(_ROWS.tumbling(10), ("k",))
    assert step.inputs == step.bands
    assert step.schema == banded_schema(step.bands[0].schema, ("k",), _COUNT)
    assert step.schema.columns == ("window_start", "window_end", "k", "n", "band")
    assert step.side_outputs() == {band_output(band): (step.schema, step.properties) for band in (1, 2)}
    assert [output.schema for output in outputs_of(step, 3)] == [step.schema] * 3
    assert _banded(_ROWS, bands=1).side_outputs() == {}


def test_answers_are_ordered_and_keyed() -> None:
    """One row per window makes the order strict; with keys there may be several."""
    facts = Properties(extent=Extent.WINDOWS, keyed=True)
    assert _banded(_ROWS.tumbling(10)).properties == facts.replace(order=Order.STRICT)
    assert _banded(_ROWS.tumbling(10), ("k",)).properties == facts.replace(order=Order.TIES)
    assert _banded(_ROWS).properties.extent is Extent.POINTS
    stamped = _Known(_ROWS.node, Properties(order=Order.TIES, stamps=Stamps.PROCESSED))
    assert BandedAggregate((stamped,), (), _COUNT).properties.stamps is Stamps.PROCESSED


def test_it_builds_an_operator_of_as_many_bands_that_goes_on_from_a_snapshot() -> None:
    """With its name in messages."""
    step = _banded(_ROWS, bands=2)
    operator = step.build("in_bands#1")
    rows = EventBatch.inserts(pa.record_batch({"k": ["a"], "v": [1]}), [5])
    operator.on_batch(0, rows)
    operator.on_batch(1, rows)
    resumed = step.build("in_bands#1", operator.snapshot())
    no_rows = step.bands[0].schema.no_rows
    assert resumed.buffered() == 2
    (early, _) = resumed.on_batch(0, punctuation_like(no_rows, 6)).batches
    assert early.payload.to_pylist() == [{"n": 1, "band": 0}]
    ((output, final), _) = resumed.on_batch(1, punctuation_like(no_rows, 6)).side
    assert (output, final.payload.to_pylist()) == ("band 1", [{"n": 2, "band": 1}])


@pytest.mark.parametrize(
    "stream",
    [
        _ROWS.sliding(5),
        sw.stream(pa.table({"at": [1], "to": [5]}), time="at", until="to"),
    ],
    ids=["sliding", "lifetimes"],
)
def test_lifetimes_that_overlap_freely_are_refused(stream: sw.DisorderedStream) -> None:
    """When the node is made, with the line at fault and another way."""
    with pytest.raises(PlanError, match=r"(?s)lifetimes overlap.*stream  s\w+.*hint: assign windows before in_bands"):
        _banded(stream)


def test_columns_that_are_not_there_or_clash_are_refused() -> None:
    """When the node is made."""
    with pytest.raises(SchemaMismatch, match=r"(?s)in_bands names a column that is not there.*asked for  x"):
        _banded(_ROWS, ("x",))
    with pytest.raises(SchemaMismatch, match=r"(?s)in_bands would make two columns of one name.*band"):
        _banded(_ROWS, (), {"band": sw.count()})
    with pytest.raises(SchemaMismatch, match=r"in_bands .*"):
        _banded(_ROWS.tumbling(10), (), {"window_start": sw.count()})


def test_windows_of_bands_share_nothing_but_their_choice() -> None:
    """Each band has its own window step, so that each can be sorted as needed by itself."""
    bands = _sorted_bands(_ROWS.tumbling(10), 1, 5)
    windows = [node for node in walk(*bands) if isinstance(node, AssignWindow)]
    assert len(windows) == 2
    assert windows[0].window == windows[1].window
