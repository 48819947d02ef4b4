"""Feedback: whatever is declared to be of no interest, whenever, changes nothing of what is; and no punctuation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.aggregate.aggregate import AggregateOperator
from slackwater.operators.aggregate.map_windows import MapWindowsOperator
from slackwater.operators.interest import Interest
from slackwater.operators.map_batches import MapBatchesOperator, without_ends
from slackwater.operators.operator import Operator
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.select import SelectOperator
from slackwater.operators.sort import SortOperator
from slackwater.operators.where import WhereOperator
from slackwater.operators.window import WindowOperator
from slackwater.policies.aggregates import count
from slackwater.policies.agreement import Agreement, Revise
from slackwater.policies.windows import Hopping, Sliding, Tumbling, Window
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.compatibility import check_compatible, check_compatible_multiset
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.cases import CASES, INTERVALS, PAYLOAD, POINTS
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.strategies import element_streams
from slackwater.testing.torture import Cut, TortureCase, assert_lawful, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from slackwater.events.elements import Element
    from slackwater.operators.emission import Emission
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_HEEDING = [case for case in CASES if case.operator.ignore_before is not Operator.ignore_before and case.output is None]
_MERGING = [case for case in CASES if issubclass(case.operator, ReplicaMerge)]

_LEAVE_OUT = (
    *(WhereOperator, SelectOperator, MapBatchesOperator, WindowOperator),
    *(AggregateOperator, SortOperator, MapWindowsOperator),
)
"""Operators that leave out rows themselves. The others inform their inputs, and let pass what comes all the same."""

_BOUNDS = st.dictionaries(st.integers(0, 60), st.integers(-3, 55), max_size=5)
"""Feedback: before which call what is declared. Bounds may go back, which says nothing."""


def _end_of(element: Element) -> Instant:
    """Up to when an element concerns anything."""
    assert not isinstance(element, Punctuate)
    return max(element.prior_end, element.end) if isinstance(element, Adjust) else element.end


@dataclass
class _Emitted:
    """What an operator emitted in one call, and what was of interest then."""

    bound: Instant
    batches: list[EventBatch]
    elements: list[Element] = field(init=False)

    def __post_init__(self) -> None:
        self.elements = [element for batch in self.batches for element in elements_of(batch)]

    @property
    def punctuations(self) -> list[Instant]:
        return [element.complete_before for element in self.elements if isinstance(element, Punctuate)]

    @property
    def events(self) -> Counter[Element]:
        return Counter(element for element in self.elements if not isinstance(element, Punctuate))


def _drive(
    case: TortureCase,
    calls: Iterable[tuple[Port, EventBatch | None]],
    bounds: dict[int, Instant],
    *,
    restored_at: Iterable[int] = (),
    left_out: Random | None = None,
) -> list[_Emitted]:
    """Feed an operator, with feedback before some calls; leave out, by chance, what it says is of no interest."""
    operator, bound, restored_at = case.build(None), BEGINNING, set(restored_at)
    emitted: list[_Emitted] = []
    for number, (port, came) in enumerate(calls):
        if number in restored_at:
            operator = case.build(operator.snapshot())
        if number in bounds:
            bound = max(bound, bounds[number])
            operator.ignore_before(bounds[number])
            operator.check()
        batch = came if came is None or left_out is None else _without_some(operator, port, came, left_out)
        emission = operator.on_end(port) if batch is None else operator.on_batch(port, batch)
        operator.check()
        emitted.append(_Emitted(bound, list(emission.batches)))
    assert operator.buffered() == 0
    return emitted


def _without_some(operator: Operator[Any], port: Port, batch: EventBatch, rng: Random) -> EventBatch:
    """Leave out any of the elements that are of no interest to an operator."""
    since = operator.of_interest_from(port)
    rows = [element for element in elements_of(batch) if not isinstance(element, Punctuate)]
    keep = [_end_of(element) > since or rng.random() < 0.3 for element in rows]
    return batch.keep_rows(np.array(keep, dtype=bool)) if rows else batch


def _past(emitted: Iterable[_Emitted], bound: Instant) -> Counter[Element]:
    return Counter(event for one in emitted for event in one.events.elements() if _end_of(event) > bound)


# ---- the laws of operators that heed it -----------------------------------------------------------------------------


def test_the_operators_that_heed_feedback_are_found() -> None:
    """A law over no operators would hold, too."""
    heeding = {case.operator.__name__ for case in _HEEDING}
    assert heeding >= {
        *("WhereOperator", "SelectOperator", "MapBatchesOperator", "WindowOperator", "AggregateOperator"),
        *("SortOperator", "UnionOperator", "AssumeOrderedOperator", "MapWindowsOperator"),
    }
    assert len(_MERGING) >= 5


@pytest.mark.parametrize("case", _HEEDING, ids=lambda case: case.name)
@FEWER
@given(data=st.data(), seed=st.integers(0, 10**6), cut=st.sampled_from(Cut), bounds=_BOUNDS)
def test_feedback_at_any_moment_takes_away_only_what_is_of_no_interest(
    case: TortureCase, data: st.DataObject, seed: int, cut: Cut, bounds: dict[int, Instant]
) -> None:
    """Call by call: the same punctuations, no other events, and all those that reach past the bound."""
    calls = schedule(data.draw(case.streams), cut, Random(seed))
    for quiet, heeding in zip(_drive(case, calls, {}), _drive(case, calls, bounds), strict=True):
        assert heeding.punctuations == quiet.punctuations
        assert not heeding.events - quiet.events
        assert all(_end_of(event) <= heeding.bound for event in quiet.events - heeding.events)
        # Of an event that is in several windows all go out as long as one is of interest.
        if case.operator in _LEAVE_OUT and "Hopping" not in case.name:
            assert all(_end_of(event) > heeding.bound for event in heeding.events)


@pytest.mark.parametrize("case", _HEEDING, ids=lambda case: case.name)
@FEWER
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    cut=st.sampled_from(Cut),
    bounds=_BOUNDS,
    restored_at=st.sets(st.integers(0, 60), max_size=4),
)
def test_feedback_that_is_lost_changes_nothing_past_its_bound(
    case: TortureCase, data: st.DataObject, seed: int, cut: Cut, bounds: dict[int, Instant], restored_at: set[int]
) -> None:
    """An operator that is restored has not heard of it, and may have forgotten what nobody wanted."""
    calls = schedule(data.draw(case.streams), cut, Random(seed))
    quiet = _drive(case, calls, {})
    heeding = _drive(case, calls, bounds, restored_at=restored_at)
    assert [one.punctuations for one in heeding] == [one.punctuations for one in quiet]
    assert_lawful((batch for one in heeding for batch in one.batches), ordered=case.ordered)
    bound = heeding[-1].bound
    assert _past(heeding, bound) == _past(quiet, bound)


@pytest.mark.parametrize("case", _HEEDING, ids=lambda case: case.name)
@FEWER
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    cut=st.sampled_from(Cut),
    bounds=_BOUNDS,
    restored_at=st.sets(st.integers(0, 60), max_size=2),
)
def test_producers_may_leave_out_what_is_of_no_interest_to_an_operator(
    case: TortureCase, data: st.DataObject, seed: int, cut: Cut, bounds: dict[int, Instant], restored_at: set[int]
) -> None:
    """All of it or some. An event that is left out does not say any more how far an ordered input is; its end does."""
    rng = Random(seed)
    calls = schedule(data.draw(case.streams), cut, rng)
    quiet = _drive(case, calls, {})
    spared = _drive(case, calls, bounds, restored_at=restored_at, left_out=rng)
    assert_lawful((batch for one in spared for batch in one.batches), ordered=case.ordered)
    bound = spared[-1].bound
    assert _past(spared, bound) == _past(quiet, bound)


# ---- what is spared -------------------------------------------------------------------------------------------------


def _rows(*starts: int, length: int = 1) -> EventBatch:
    payload = pa.record_batch({"k": ["a"] * len(starts), "v": list(range(len(starts)))}, schema=PAYLOAD)
    return EventBatch.inserts(payload, list(starts), [start + length for start in starts] if length > 1 else None)


def _starts(emission: Emission) -> list[int]:
    return [start for batch in emission.batches for start in batch.data().start.tolist()]


def _counting(seen: list[int]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(rows.column("at").to_pylist())
        return rows

    return function


def test_a_function_sees_only_rows_of_interest_and_none_where_there_are_none() -> None:
    """Of where, select and map_batches."""
    seen: list[int] = []
    function = _counting(seen)
    for operator in (
        WhereOperator(POINTS, lambda rows: pa.array([True] * function(rows).num_rows)),
        SelectOperator(POINTS, {"v": lambda rows: function(rows).column("v")}),
        MapBatchesOperator(POINTS, function, PAYLOAD, ("at",), "map_batches"),
    ):
        seen.clear()
        operator.ignore_before(5)
        operator.ignore_before(2)  # says nothing new
        assert _starts(operator.on_batch(0, _rows(3, 4, 5, 6))) == [5, 6]
        operator.on_batch(0, _rows(1, 4))
        assert seen == [5, 6]
        assert operator.ignored_rows() == 4
        assert operator.of_interest_from(0) == 5


def test_an_aggregate_forgets_windows_that_ended_and_answers_the_others() -> None:
    """All of their rows are of no interest, those that came and those that come."""
    operator = AggregateOperator(INTERVALS, (), {"n": count()}, ordered=False)
    operator.on_batch(0, _rows(0, 0, 10, 20, length=10))
    assert operator.buffered() == 3
    operator.ignore_before(20)
    assert operator.buffered() == 1
    operator.on_batch(0, _rows(0, 10, 20, length=10))
    assert (operator.buffered(), operator.ignored_rows()) == (2, 2)
    (answers, _) = operator.on_end(0).batches
    assert answers.payload.to_pydict() == {"n": [2]}


def test_an_aggregate_does_not_answer_for_a_group_that_ended_behind_one_that_lasts() -> None:
    """It is not looked for when the operator is informed, and left out when it would be answered."""
    operator = AggregateOperator(INTERVALS, (), {"n": count()}, ordered=False)
    operator.on_batch(0, EventBatch.concat([_rows(0, length=20), _rows(1, length=2), _rows(2, length=20)]))
    operator.ignore_before(5)
    assert operator.buffered() == 3
    assert _starts(operator.on_end(0)) == [0, 2]


def test_an_aggregate_looks_at_the_ends_of_those_groups_only_that_it_forgets() -> None:
    """And of a few more: what waits behind them is not read, however much it is."""
    operator = AggregateOperator(INTERVALS, (), {"n": count()}, ordered=False)
    operator.on_batch(0, _rows(*range(0, 100_000, 10), length=10))
    (partial,) = operator._open.snapshot()
    assert partial.first_past(995 * 10) == 995
    looked_at = _Watched(partial.ends)
    object.__setattr__(partial, "ends", looked_at)
    assert partial.first_past(3) == 0
    assert partial.first_past(1_000) == 100
    assert looked_at.most <= 256


class _Watched:
    """A column that notes how far into it somebody looked."""

    def __init__(self, column: Any) -> None:
        self._column = column
        self.most = 0

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, places: slice) -> Any:
        self.most = max(self.most, min(places.stop, len(self)))
        return self._column[places]


def test_a_sort_lets_go_of_points_that_became_of_no_interest() -> None:
    """Rows with lifetimes stay until they would go out; then those that ended do not."""
    points = SortOperator(POINTS)
    points.on_batch(0, _rows(7, 3, 9, 1))
    points.ignore_before(5)
    assert (points.buffered(), points.ignored_rows()) == (2, 2)
    points.check()
    assert _starts(points.on_batch(0, _rows(4, 8).punctuation(20))) == [7, 9]
    lasting = SortOperator(INTERVALS)
    lasting.on_batch(0, _rows(7, 3, 9, 1, length=5))
    lasting.ignore_before(8)
    assert lasting.buffered() == 4
    assert _starts(lasting.on_end(0)) == [7, 9]
    assert lasting.ignored_rows() == 2


_WINDOWS = [Tumbling(5, 2), Hopping(7, 3), Hopping(2, 5, 1), Sliding(4)]


@pytest.mark.parametrize("window", _WINDOWS, ids=str)
def test_a_window_knows_from_when_on_events_have_windows_that_reach_past_a_bound(window: Window) -> None:
    """Exactly, whatever the offset, before and after 1970, against all windows there are."""
    for bound in range(-25, 25):
        for start in range(-50, 50):
            times = np.array([start])
            many = window.count(times)
            first = start - int(window.back(times)[0])
            ends = [first + n * window.apart + window.size for n in range(1 if many is None else int(many[0]))]
            reaches_past = any(end > bound for end in ends)
            assert not (reaches_past and start < window.done_before(bound)), (bound, start)
            assert reaches_past or not ends or start < window.done_before(bound), (bound, start)


def test_an_event_of_no_length_may_fall_into_a_window_that_starts_where_it_ends() -> None:
    """So a producer must not leave it out, though it ends where windows of interest begin."""
    operator = WindowOperator(Tumbling(10), INTERVALS, ordered=False)
    operator.ignore_before(25)
    assert operator.of_interest_from(0) < 20
    payload = pa.record_batch({"k": ["a", "b"], "v": [1, 2]}, schema=PAYLOAD)
    assert _starts(operator.on_batch(0, EventBatch.inserts(payload, [19, 20], [21, 20]))) == [20]


@pytest.mark.parametrize("window", _WINDOWS, ids=str)
def test_bounds_at_the_ends_of_time_stay_in_int64(window: Window) -> None:
    """Neither says more than it may."""
    operator = WindowOperator(window, POINTS, ordered=False)
    for bound in (BEGINNING, BEGINNING + 1, FOREVER - 1, FOREVER):
        operator.ignore_before(bound)
        assert BEGINNING <= operator.of_interest_from(0) <= FOREVER
        assert operator.of_interest_from(0) < bound or isinstance(window, Hopping) or bound < BEGINNING + 2


# ---- revised streams ------------------------------------------------------------------------------------------------


def _lasting(stream: Iterable[Element], bound: Instant) -> Counter[TemporalEvent]:
    """The events that reach past a bound, as somebody sees them who has not heard of those that did not."""
    events: Counter[TemporalEvent] = Counter()
    for element in stream:
        match element:
            case Insert(payload, start, end):
                events[TemporalEvent(payload, start, end)] += 1
            case Adjust(payload, start, prior_end, end):
                before = TemporalEvent(payload, start, prior_end)
                assert events[before] or prior_end <= bound, f"{element} of an event of interest that was never sent"
                events[before] -= bool(events[before])
                events[TemporalEvent(payload, start, end)] += end > start
    return Counter({event: n for event, n in events.items() if n and event.end > bound})


_WORDS = pa.schema({"w": pa.string()})
_WORD_STREAM = type(POINTS)(_WORDS, INTERVALS.time, INTERVALS.until, ("at", "until", "w"))


@pytest.mark.parametrize(
    "build",
    [
        lambda: WhereOperator(_WORD_STREAM, nw.col("w") != "B"),
        lambda: SelectOperator(_WORD_STREAM, {"w": "w"}),
        lambda: MapBatchesOperator(
            without_ends(_WORD_STREAM), lambda rows: rows.select(["w"]), _WORDS, ("at", "until"), "map_batches"
        ),
    ],
    ids=["where", "select", "map_batches"],
)
@given(stream=element_streams(), bounds=_BOUNDS, seed=st.integers(0, 10**6))
def test_of_a_revised_stream_an_element_goes_when_all_its_ends_are_of_no_interest(
    build: Callable[[], Operator[Any]], stream: list[Element], bounds: dict[int, Instant], seed: int
) -> None:
    """An adjust that takes an event past the bound stays, though its insert may have gone."""
    calls = schedule((batch_of(stream, _WORDS),), Cut.RANDOM, Random(seed))
    emitted, bound = [], BEGINNING
    operator, quiet = build(), build()
    expected: list[Element] = []
    for number, (port, batch) in enumerate(calls):
        if batch is None:
            continue
        if number in bounds:
            bound = max(bound, bounds[number])
            operator.ignore_before(bound)
        emitted += [one for out in operator.on_batch(port, batch).batches for one in elements_of(out)]
        expected += [one for out in quiet.on_batch(port, batch).batches for one in elements_of(out)]
    assert _lasting(emitted, bound) == _lasting(expected, bound)
    punctuations, expected_to_say = (
        [one for one in elements if isinstance(one, Punctuate)] for elements in (emitted, expected)
    )
    assert punctuations == expected_to_say


# ---- merges, where it begins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", _MERGING, ids=lambda case: case.name)
@FEWER
@given(data=st.data(), seed=st.integers(0, 10**6), cut=st.sampled_from(Cut), restored_at=st.sets(st.integers(0, 60)))
def test_what_a_merge_says_is_of_no_interest_changes_nothing_of_it(
    case: TortureCase, data: st.DataObject, seed: int, cut: Cut, restored_at: set[int]
) -> None:
    """Call by call the same elements, whether it is left out or not."""
    rng = Random(seed)
    calls = schedule(data.draw(case.streams), cut, rng)
    spared = _drive(case, calls, {}, restored_at=restored_at, left_out=rng)
    for one, other in zip(_drive(case, calls, {}), spared, strict=True):
        assert other.events == one.events
        assert other.punctuations == one.punctuations


_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)
_AGREEMENTS = [
    agreement.revising(revise).lagging(lag)
    for agreement in (
        Agreement.first(),
        Agreement.quorum_of(0.5),
        Agreement.leading(),
        Agreement.newest(),
        Agreement.fullest(),
        Agreement.half_frozen(),
        Agreement.frozen(),
    )
    for revise, lag in ((Revise.WHEN_FROZEN, 0), (Revise.ALWAYS, 0), (Revise.LEADING, 3))
]


def _merge_with_gaps(
    merge: ReplicaMerge[Any],
    table: TemporalTable,
    replicas: int,
    rng: Random,
    compatible: Callable[[TemporalTable, Sequence[TemporalTable]], None],
) -> tuple[TemporalTable, int]:
    """Merge replicas of a table that leave out what is of no interest, by chance; return what was emitted, and not.

    At every moment the output must be able to follow what the replicas would have sent.
    """
    streams = [present(table, rng.randrange(10**6), _REVISED) for _ in range(replicas)]
    waiting = [list(stream) for stream in streams]
    inputs, output, spared = [TableBuilder() for _ in streams], TableBuilder(), 0
    # One replica is far behind the others, as a rule: chosen seldom.
    weights = [rng.choice([1, 4]) for _ in streams]
    while any(waiting):
        ports = [port for port, left in enumerate(waiting) if left]
        (port,) = rng.choices(ports, [weights[port] for port in ports])
        size = rng.randint(1, 4)
        elements, waiting[port] = waiting[port][:size], waiting[port][size:]
        for element in elements:
            inputs[port].add(element)
        batch = batch_of(elements, PAYLOAD)
        left = _without_some(merge, port, batch, rng)
        spared += batch.rows - left.rows
        for out in merge.on_batch(port, left).batches:
            for element in elements_of(out):
                output.add(element)
        merge.check()
        compatible(output.table(), [one.table() for one in inputs])
    return output.table(), spared


@given(
    table=keyed_tables(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), agreement=st.sampled_from(_AGREEMENTS)
)
def test_under_every_agreement_the_output_follows_replicas_that_leave_out_what_is_of_no_interest(
    table: TemporalTable, seed: int, replicas: int, agreement: Agreement
) -> None:
    """C1 to C3 after every batch; in the end the table."""
    merge = MergeRevisedWithKey(replicas, pa.RecordBatch.from_pylist([], PAYLOAD), agreement=agreement)
    emitted, _ = _merge_with_gaps(merge, table, replicas, Random(seed), check_compatible)
    assert list(emitted) == list(table)


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), frozen=st.booleans())
def test_equal_events_are_counted_right_though_replicas_leave_some_out(
    table: TemporalTable, seed: int, replicas: int, frozen: bool
) -> None:
    """Emitted when they are frozen, or at once; then nothing may be left out."""
    agreement = Agreement.frozen() if frozen else Agreement.first()
    merge = MergeMultiset(replicas, pa.RecordBatch.from_pylist([], PAYLOAD), agreement=agreement)
    emitted, spared = _merge_with_gaps(merge, table, replicas, Random(seed), check_compatible_multiset)
    assert list(emitted) == list(table)
    assert frozen or not spared


def test_of_equal_events_that_are_emitted_at_once_all_are_of_interest() -> None:
    """Three that end at 7, 20 and 30: a replica that left the first out would have the output moved from 7 to 30."""
    merge = MergeMultiset(3, pa.RecordBatch.from_pylist([], PAYLOAD))
    ends = {0: (7, 20), 1: (7, 30, 20), 2: (7, 20, 30)}
    punctuations = {0: [], 1: [Punctuate(10)], 2: [Punctuate(40)]}
    emitted: list[EventBatch] = []
    for port in range(3):
        since = merge.of_interest_from(port)
        inserts = [Insert(("a", 1), 5, end) for end in ends[port] if end > since]
        emitted += merge.on_batch(port, batch_of([*inserts, *punctuations[port]], PAYLOAD)).batches
    assert sorted(event.end for event in temporal_table_of(emitted)) == [7, 20, 30]


def test_a_merge_is_interested_from_just_before_it_is_complete() -> None:
    """An event that ends exactly there may still be revised."""
    merge = MergeRevisedWithKey(2, pa.RecordBatch.from_pylist([], PAYLOAD))
    assert [merge.of_interest_from(port) for port in (0, 1)] == [BEGINNING, BEGINNING]
    emitted = list(merge.on_batch(0, batch_of([Insert(("a", 1), 5, 30), Punctuate(10)], PAYLOAD)).batches)
    assert [merge.of_interest_from(port) for port in (0, 1)] == [9, 9]
    emitted += merge.on_batch(1, batch_of([Insert(("a", 1), 5, 10), Punctuate(11)], PAYLOAD)).batches
    assert set(temporal_table_of(emitted)) == {TemporalEvent(("a", 1), 5, 10)}


# ---- the bound itself -----------------------------------------------------------------------------------------------


@given(stream=element_streams(), bound=st.integers(-3, 55))
def test_rows_stay_that_have_an_end_past_the_bound(stream: list[Element], bound: Instant) -> None:
    """Element by element; punctuations always stay."""
    interest = Interest()
    interest.begin_at(bound)
    left = list(elements_of(interest.rows_of(batch_of(stream, _WORDS))))
    assert left == [one for one in stream if isinstance(one, Punctuate) or _end_of(one) > bound]
    assert interest.ignored == len(stream) - len(left)
