"""What is known of replicas that a column distinguishes, what explain() says, and what is refused when written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import BadDuration, PlanError, SchemaMismatch
from slackwater.operators.emission import LATE
from slackwater.plan.node import walk
from slackwater.plan.nodes.replicas import Case
from slackwater.plan.nodes.replicas_by_column import MergeByColumn
from slackwater.plan.nodes.revisions import AssumeKeyed
from slackwater.plan.properties import Extent, Order
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.policies.lateness import Lateness
from slackwater.testing.change_rows import change_schema

if TYPE_CHECKING:
    from slackwater.streams.stream import Stream

_ROWS = pa.schema(
    {"at": pa.timestamp("us", "UTC"), "until": pa.timestamp("us", "UTC"), "k": pa.string(), "replica": pa.string()}
)


def _stream(**options: Any) -> sw.DisorderedStream:
    return sw.stream(_ROWS.empty_table(), time="at", until="until", name="gauges", **options)


def _node(stream: Stream) -> MergeByColumn:
    (found,) = [node for node in walk(stream.node) if isinstance(node, MergeByColumn)]
    return found


def test_the_plan_says_the_column_the_case_and_why() -> None:
    """In order behind a sort; late rows have an output of their own."""
    lines = [
        tuple(re.split(" {2,}", line.strip(" │├└─")))
        for line in _stream().merge_replicas(by="replica", patience="10s").explain().splitlines()
    ]
    why = f"{Case.R4.value}; each replica is late by its own rows, and whoever is furthest leads"
    assert lines == [
        ("sort#1", "ordered, intervals", "sends what is complete, in order; equal times as they came"),
        (
            "merge_replicas#1 by replica, case R4, patience=10s every 1s, late rows diverted",
            "disordered, intervals, punctuated",
            why,
        ),
        ("source#1 gauges time=at until=until", "disordered, intervals", "times are the source's own"),
    ]


def test_the_column_is_in_the_late_output_alone() -> None:
    """With the bound that was missed, behind all columns."""
    merged = _stream().merge_replicas("replica", "10s")
    assert merged.schema.names == ["at", "until", "k"]
    assert merged.late.schema.names == ["at", "until", "k", "replica", "late_bound", "late_by"]
    assert list(_node(_stream().merge_replicas("replica", "10s", late=sw.Late.drop())).side_outputs()) == []
    assert list(_node(merged).side_outputs()) == [LATE]


def test_a_key_of_the_stream_is_one_of_every_replica() -> None:
    """Unless late rows are moved, which may make two events one."""
    keyed = sw.DisorderedStream(AssumeKeyed(_stream().node))
    for late, case in ((sw.Late.drop(), Case.R3), (sw.Late.adjust(), Case.R4)):
        node = _node(keyed.merge_replicas("replica", "10s", late=late))
        assert node.case is case
        assert node.properties.keyed is (case is Case.R3)
        assert (node.properties.order, node.properties.extent) == (Order.NONE, Extent.INTERVALS)


def test_all_columns_are_read_by_the_merge_and_only_some_behind_it() -> None:
    """Where only counts are read, two events may differ in nothing but a column that nobody reads."""
    counts = _stream().merge_replicas("replica", "10s").tumbling("1h").group_by().aggregate(n=sw.count())
    (run,) = optimized_in_process(counts.node)
    merge = next(node for node in walk(run) if isinstance(node, MergeByColumn))
    assert merge.input.schema.columns == ("at", "until", "k", "replica")
    assert not any(node.verb == "sort" for node in walk(run)), "what is only counted is not sorted"


def test_what_goes_before_the_merge_stays_there() -> None:
    """Steps that treat each row by itself may read the column."""
    rows = [{"at": at, "replica": name} for at in range(9) for name in ("a", "b", "test")]
    stream = sw.stream(rows, time="at").where(nw.col("replica") != "test").select("replica", twice=nw.col("at") * 2)
    assert stream.merge_replicas("replica", 3).run().table["twice"].to_pylist() == list(range(0, 18, 2))


# ---- refusals -------------------------------------------------------------------------------------------------------


def _refused(stream: sw.DisorderedStream, error: type[PlanError] = PlanError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        stream.merge_replicas(**{"by": "replica", "patience": "10s", **options})
    return str(caught.value)


def test_a_column_that_is_not_there_is_refused() -> None:
    """With those that are."""
    refusal = _refused(_stream(), SchemaMismatch, by="source")
    assert refusal.splitlines() == [
        "merge_replicas names a column that is not there",
        "    asked for  source",
        "    there are  at, until, k, replica",
    ]


@pytest.mark.parametrize("by", ["at", "until"])
def test_a_time_is_no_replica(by: str) -> None:
    """Neither the start nor the end."""
    refusal = _refused(_stream(), SchemaMismatch, by=by)
    assert refusal.splitlines() == [
        "merge_replicas cannot use a time column to name replicas",
        f"    by  {by}",
        "    hint: name the column that says which replica a row is from",
    ]


def test_values_that_cannot_be_distinguished_are_refused() -> None:
    """Lists and the like."""
    table = pa.schema({"at": pa.int64(), "replica": pa.list_(pa.int64())}).empty_table()
    refusal = _refused(sw.stream(table, time="at"), SchemaMismatch, patience=3)
    assert refusal.startswith("merge_replicas cannot use the type of a column")
    assert refusal.endswith("hint: compute a name for each replica with select()")


def test_times_that_are_given_here_are_refused() -> None:
    """By the clock on arrival, or where a step needs them."""
    source = sw.PushSource({"replica": pa.string()}, name="live")
    for stream in (sw.arrivals(source), sw.unstamped(source)):
        refusal = _refused(sw.DisorderedStream(stream.node))
        assert refusal.startswith(
            "merge_replicas needs event times from the source, and these rows are stamped on arrival"
        )


def test_guarantees_by_the_clock_are_refused() -> None:
    """A replica that has died would make them, too."""
    source = sw.PushSource({"at": pa.timestamp("us", "UTC"), "replica": pa.string()}, name="live")
    refusal = _refused(sw.stream(source, time="at", punctuations=sw.Punctuations.on_demand(skew="1s")))
    assert refusal.startswith("a dead replica would keep advancing by the clock, and make the rows of the others late")


def test_revised_streams_are_refused() -> None:
    """Their events cannot be checked by when they come."""
    changes = sw.changes(change_schema(_ROWS.remove(0).remove(0)).empty_table(), time="at", until="until")
    refusal = _refused(sw.DisorderedStream(changes.node), patience=3)
    assert refusal.splitlines() == [
        "a patience cannot follow a stream whose events are revised",
        "    hint: apply the revisions first",
    ]


def test_windows_come_after_the_merge() -> None:
    """Patience is meant for the times that rows came with."""
    refusal = _refused(_stream().tumbling("1h").where(nw.col("k") == "a"))
    assert refusal.splitlines() == [
        "merge_replicas(by=...) must come before windows are assigned",
        "    stream  tumbling size=1h",
        "    hint: merge_replicas(by=..., patience=...) first, then assign windows",
    ]


def test_what_was_chosen_wrongly_is_refused_as_by_sort() -> None:
    """Patience, cadence, policy, and columns that would clash with those of late rows."""
    _refused(_stream(), BadDuration, patience=5)  # a number is no length of calendar time
    assert _refused(_stream(), every="1s").startswith("every= takes an Every cadence")
    assert _refused(_stream(), late="drop").startswith("late= takes a Late policy")
    clashing = sw.stream(pa.table({"at": [1], "late_by": [1], "replica": ["a"]}), time="at")
    assert "two columns of one name" in _refused(clashing, SchemaMismatch, patience=3)
    with pytest.raises(BadDuration, match="merge_replicas needs patiences in rising order, none negative"):
        MergeByColumn(_stream().node, Lateness((-1,), sw.Every.batch(), sw.Late.drop()), "replica")
