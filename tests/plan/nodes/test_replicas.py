"""How the case of a merge follows from what is known of its replicas: the six examples of the paper, and more.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-D.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.plan.node import walk
from slackwater.plan.nodes.replicas import Case, MergeReplicas, has_one_tie_order
from slackwater.plan.properties import Order
from slackwater.policies.agreement import Agreement, Revise
from slackwater.testing.change_rows import change_schema

if TYPE_CHECKING:
    from slackwater.streams.stream import Stream

_PAYLOAD = pa.schema({"user": pa.string(), "v": pa.int64()})
_ROWS = pa.schema([pa.field("at", pa.int64()), *_PAYLOAD])
_TOP = pa.schema({"user": pa.string()})
_UNTRUSTED = "a replica may have been cut off: that it ends does not mean that it is complete"


def _disordered(name: str) -> sw.DisorderedStream:
    return sw.stream(_ROWS.empty_table(), time="at", name=name)


def _ordered(name: str) -> sw.OrderedStream:
    return _disordered(name).assume_ordered()


def _changes(name: str, **options: Any) -> sw.RevisedStream:
    return sw.changes(change_schema(_PAYLOAD).empty_table(), time="at", until="until", name=name, **options)


def _counts(stream: sw.OrderedStream, *keys: str) -> sw.OrderedStream:
    return stream.tumbling(10).group_by(*keys).aggregate(n=sw.count())


def _two_best(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.sort_by([("v", "descending")]).slice(0, 2).select(["user"])


def _spread(rows: pa.RecordBatch) -> pa.RecordBatch:
    values = [v for v in rows["v"].to_pylist() if v is not None]
    return pa.record_batch({"spread": [max(values) - min(values)]})


def _all_true(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([True] * rows.num_rows)


def _case(stream: Stream) -> Case:
    (merge,) = [node for node in walk(stream.node) if isinstance(node, MergeReplicas)]
    return merge.case


def _explained(stream: Stream) -> list[tuple[str, ...]]:
    """The lines of the plan in three parts: the step, what is known of it, and why."""
    return [tuple(re.split(" {2,}", line.strip(" │├└─"))) for line in stream.explain().splitlines()]


# ---- the six examples ------------------------------------------------------------------------------------------------


def test_example_1_streams_publish_whether_they_are_ordered_revised_and_have_a_key() -> None:
    """Streams that are merged as they are: by what they say of themselves."""
    assert _case(sw.merge_replicas(_ordered("blue"), _ordered("green"))) is Case.R4
    assert _case(sw.merge_replicas(_ordered("blue"), _ordered("green"), same_tie_order=True)) is Case.R1
    assert _case(sw.merge_replicas(*(_ordered(name).assume_keyed() for name in ("blue", "green")))) is Case.R2
    assert _case(sw.merge_replicas(_ordered("blue").assume_keyed(), _ordered("green"))) is Case.R4
    assert _case(sw.merge_replicas(_changes("blue"), _changes("green"))) is Case.R4
    keyed = sw.merge_replicas(_changes("blue", keyed=True), _changes("green", keyed=True))
    assert _case(keyed) is Case.R3
    assert keyed.explain() == (
        "sort#1                                       ordered, intervals, keyed                          "
        "sends what is complete, in order; equal times as they came\n"
        "└─ merge_replicas#1 of 2, case R3            disordered, intervals, punctuated, keyed           "
        "disordered or revised, and start and payload are a key: one node for each event that is not frozen; an event "
        "without an end holds up all behind it; Agreement.half_frozen() does not wait\n"
        "   ├─ assume_keyed#1                         disordered, intervals, punctuated, keyed, revised  "
        "declared to have a key; the first event that comes twice is an error\n"
        "   │  └─ source#1 blue time=at until=until   disordered, intervals, punctuated, revised         "
        "times are the source's own\n"
        "   └─ assume_keyed#2                         disordered, intervals, punctuated, keyed, revised  "
        "declared to have a key; the first event that comes twice is an error\n"
        "      └─ source#2 green time=at until=until  disordered, intervals, punctuated, revised         "
        "times are the source's own"
    )


def test_example_2_operators_enforce_properties() -> None:
    """Settling gives an order, also to ties, that follows from the events; sorting gives ties as they came."""
    settled = sw.merge_replicas(_changes("blue").settle(), _changes("green").settle())
    goes = "an event goes out when its end cannot change any more, and all that began before it have gone"
    assert _explained(settled)[:4] == [
        ("merge_replicas#1 of 2, case R1", "ordered, intervals", Case.R1.value),
        ("untrusted_end#1", "ordered, intervals", _UNTRUSTED),
        ("settle#1", "ordered, intervals", goes),
        (
            "source#1 blue time=at until=until",
            "disordered, intervals, punctuated, revised",
            "times are the source's own",
        ),
    ]
    assert _case(sw.merge_replicas(*(_disordered(name).sort(patience=5) for name in ("blue", "green")))) is Case.R4


def test_example_3_windowed_aggregates_are_strictly_ordered() -> None:
    """One answer for each window: R0."""
    merged = sw.merge_replicas(_counts(_ordered("blue")), _counts(_ordered("green")))
    sent = "a window is sent when its start is complete; partial results are held, not events"
    assert _explained(merged)[:4] == [
        ("merge_replicas#1 of 2, case R0", "strictly ordered, windows, keyed", Case.R0.value),
        ("untrusted_end#1", "strictly ordered, windows, keyed", _UNTRUSTED),
        ("aggregate#1 n=count()", "strictly ordered, windows, keyed", sent),
        ("tumbling#1 size=10", "ordered, windows", "rewrites start and end, row by row: needs no order"),
    ]


def test_example_4_several_answers_for_each_window_of_an_ordered_stream_have_ties_in_one_order() -> None:
    """The best of each window, best first: R1, which follows where the rows of a window come in one order.

    Where rows of one time may come in any order, what a function answers for them may, too, unless the user says
    otherwise.
    """
    hourly = [_counts(_ordered(name)).select(user="n", v="n") for name in ("blue", "green")]
    best = [counts.hopping(20, 10).map_windows(_two_best) for counts in hourly]
    merged = sw.merge_replicas(*best)
    assert _case(merged) is Case.R1
    assert _explained(merged)[:5] == [
        ("merge_replicas#1 of 2, case R1", "ordered, windows", Case.R1.value),
        ("untrusted_end#1", "ordered, windows", _UNTRUSTED),
        ("map_windows#1 _two_best", "ordered, windows", best[0].node.reason()),
        ("hopping#1 size=20 hop=10", "disordered, windows, punctuated, keyed", best[0].node.inputs[0].reason()),
        ("select#1 user=n, v=n", "strictly ordered, windows, keyed", hourly[0].node.reason()),
    ]
    declared = [_ordered(name).hopping(10, 5).map_windows(_two_best, schema=_TOP) for name in ("blue", "green")]
    assert _case(sw.merge_replicas(*declared)) is Case.R4
    assert _case(sw.merge_replicas(*declared, same_tie_order=True)) is Case.R1


def test_example_4_top_rows_are_in_rank_order_whatever_the_order_of_the_rows() -> None:
    """Also over rows of which only the times are in order, or only what is complete is known."""
    for windows in ("tumbling", "hopping", "sliding"):
        lengths = (20, 10) if windows == "hopping" else (20,)
        best = [getattr(_ordered(name), windows)(*lengths).top_rows(2, by="v") for name in ("blue", "green")]
        merged = sw.merge_replicas(*best)
        assert _case(merged) is Case.R1
        assert _explained(merged)[2][0] == "top_rows#1 2 by v"
    checked = [_disordered(name).tumbling(10).sort(patience=5).top_rows(3, by="v") for name in ("blue", "green")]
    assert _case(sw.merge_replicas(*checked)) is Case.R1
    assert _case(sw.merge_replicas(*(one.select("user") for one in checked))) is Case.R1
    free = [_ordered(name).tumbling(10).map_windows(_spread, any_order=True) for name in ("blue", "green")]
    assert _case(sw.merge_replicas(*free)) is Case.R1
    assert _case(sw.merge_replicas(*(_ordered(n).tumbling(10).map_windows(_spread) for n in ("a", "b")))) is Case.R4
    assert free[0].node.reason().endswith("; in whatever order they come, it answers the same")


def test_example_5_grouped_aggregates_over_ordered_streams_have_a_key() -> None:
    """The groups of one window in any order: R2."""
    merged = sw.merge_replicas(_counts(_ordered("blue"), "user"), _counts(_ordered("green"), "user"))
    sent = "a window is sent when its start is complete; partial results are held, not events"
    assert _explained(merged)[:4] == [
        ("merge_replicas#1 of 2, case R2", "ordered, windows, keyed", Case.R2.value),
        ("untrusted_end#1", "ordered, windows, keyed", _UNTRUSTED),
        ("aggregate#1 n=count() by user", "ordered, windows, keyed", sent),
        ("tumbling#1 size=10", "ordered, windows", "rewrites start and end, row by row: needs no order"),
    ]


def test_example_6_grouped_aggregates_over_disordered_streams_are_revised() -> None:
    """Answers that do not wait: R3. Emitted as they come, and revised, or when they are final."""
    early = [
        _disordered(name).tumbling(10).group_by("user").aggregate_early(patience=5, n=sw.count())
        for name in ("blue", "green")
    ]
    merged = sw.merge_replicas(*early, agreement=sw.Agreement.first())
    facts = "disordered, windows, punctuated, keyed, revised"
    why = f"{Case.R3.value}; emitted when enough replicas have it (one of them), revisions: none"
    assert _explained(merged)[:3] == [
        ("merge_replicas#1 of 2, case R3, emit=by_quorum", facts, why),
        ("untrusted_end#1", facts, _UNTRUSTED),
        ("aggregate_early#1 n=count() by user", facts, early[0].node.reason()),
    ]
    assert _case(sw.merge_replicas(*early)) is Case.R3


def test_rows_that_are_declared_to_have_a_key_are_merged_by_it() -> None:
    """Sorted rows: R2. Where replicas come and go, or one is disordered but says what is complete: R3."""
    blue, green = (_disordered(name).sort(patience=5).assume_keyed() for name in ("blue", "green"))
    merged = sw.merge_replicas(blue, green)
    declared = "declared to have a key; the first event that comes twice is an error"
    assert _explained(merged)[:3] == [
        ("merge_replicas#1 of 2, case R2", "ordered, points, keyed", Case.R2.value),
        ("untrusted_end#1", "ordered, points, keyed", _UNTRUSTED),
        ("assume_keyed#1", "ordered, points, keyed", declared),
    ]
    assert merged.properties.keyed
    assert _case(sw.merge_replicas(blue, green, attachable=True)) is Case.R3
    hopping = [side.hopping(10, 5) for side in (blue, green)]
    assert _case(sw.merge_replicas(*hopping)) is Case.R3
    assert _case(sw.merge_replicas(*(side.where(_all_true) for side in (blue, green)))) is Case.R2
    assert _case(sw.merge_replicas(*(side.select("user") for side in (blue, green)))) is Case.R4
    by_column = _disordered("both").assume_keyed().merge_replicas(by="user", patience=5)
    assert "by user, case R3" in by_column.explain()


# ---- beyond them -----------------------------------------------------------------------------------------------------


def test_the_order_of_ties_is_kept_by_some_steps_and_lost_by_others() -> None:
    """Row by row and windows keep it; a union, groups and rows that merely come in order have none."""
    strict = _counts(_ordered("blue"))
    keeping = strict.where(_all_true).tumbling(100)
    assert keeping.properties.order is Order.TIES
    assert has_one_tie_order(keeping.node)
    assert has_one_tie_order(strict.sliding(50).select("n").node)
    assert has_one_tie_order(_changes("blue").settle().tumbling(10).node)
    assert not has_one_tie_order(strict.union(_counts(_ordered("green"))).node)
    assert not has_one_tie_order(_counts(_ordered("blue"), "user").node)
    assert not has_one_tie_order(_ordered("blue").node)


def test_replicas_that_come_and_go_are_merged_event_by_event() -> None:
    """Also those that are strictly ordered: what one sends beyond its time must not silence the others."""
    blue, green = _counts(_ordered("blue")), _counts(_ordered("green"))
    merged = sw.merge_replicas(blue, green, standby=[green])
    assert _case(merged) is Case.R3
    line = next(line for line in merged.explain().splitlines() if "merge_replicas" in line)
    assert "of 2, case R3, 1 on standby" in line
    assert line.endswith("one node for each event that is not frozen; replicas come and go")
    assert _case(sw.merge_replicas(blue, green, attachable=True)) is Case.R3
    assert "1 joining later" in sw.merge_replicas(blue, green, complete_from={green: 20}).explain()
    rows = _ordered("blue"), _ordered("green")
    assert _case(sw.merge_replicas(*rows, attachable=True)) is Case.R4


def test_what_a_merge_sends_depends_on_the_agreement() -> None:
    """Frozen events are final; others may be revised. Where replicas come in order there is nothing to choose."""
    replicas = _changes("blue", keyed=True), _changes("green", keyed=True)
    frozen = sw.merge_replicas(*replicas)
    assert isinstance(frozen, sw.OrderedStream)
    assert frozen.properties.insert_only
    late = sw.merge_replicas(*replicas, agreement=Agreement.frozen().lagging(5))
    assert isinstance(late, sw.OrderedStream)
    for agreement in (Agreement.first(), Agreement.half_frozen(), Agreement.quorum_of(1).revising(Revise.ALWAYS)):
        revised = sw.merge_replicas(*replicas, agreement=agreement)
        assert isinstance(revised, sw.RevisedStream)
        facts = revised.properties
        assert (facts.order, facts.insert_only, facts.punctuated, facts.keyed) == (Order.NONE, False, True, True)
    ordered = sw.merge_replicas(_counts(_ordered("blue")), _counts(_ordered("green")), agreement=Agreement.first())
    assert isinstance(ordered, sw.OrderedStream)


def test_what_was_chosen_stands_in_the_plan() -> None:
    """So that a snapshot is not resumed by a merge that would have sent other things."""
    agreement = Agreement.quorum_of(0.5).revising(Revise.LEADING).lagging(3)
    for keyed, case in ((True, "R3"), (False, "R4")):
        replicas = _changes("blue", keyed=keyed), _changes("green", keyed=keyed)
        line = sw.merge_replicas(*replicas, agreement=agreement).node.line
        assert line == f"merge_replicas of 2, case {case}, emit=by_quorum quorum=0.5 revise=leading lag=3"


def test_a_key_outlives_the_widening_of_dictionaries() -> None:
    """Columns of words are numbered anew before they are merged; their words stay."""
    rows = change_schema(pa.schema({"user": pa.dictionary(pa.int8(), pa.string())})).empty_table()
    replicas = [sw.changes(rows, time="at", until="until", name=name, keyed=True) for name in ("blue", "green")]
    assert _case(sw.merge_replicas(*replicas)) is Case.R3


def test_plans_that_could_not_work_are_refused_when_they_are_written() -> None:
    """Ties where there is no order, nobody to begin with, strangers."""
    blue, green = _changes("blue"), _changes("green")
    with pytest.raises(PlanError, match="same_tie_order is about replicas that come in order of time"):
        sw.merge_replicas(blue, green, same_tie_order=True)
    with pytest.raises(PlanError, match="same_tie_order does not work where replicas may be attached"):
        sw.merge_replicas(_ordered("blue"), _ordered("green"), same_tie_order=True, attachable=True)
    with pytest.raises(PlanError, match="all are on standby"):
        sw.merge_replicas(blue, green, standby=[blue, green])
    with pytest.raises(PlanError, match="standby names a stream that is not one of the replicas"):
        sw.merge_replicas(blue, green, standby=[_changes("red")])
    with pytest.raises(PlanError, match="complete_from names a stream that is not one of the replicas"):
        sw.merge_replicas(blue, green, complete_from={_changes("red"): 3})
    with pytest.raises(PlanError, match="complete_from does not fit a stream of sequence numbers"):
        sw.merge_replicas(blue, green, complete_from={green: "soon"})  # type: ignore[dict-item]
