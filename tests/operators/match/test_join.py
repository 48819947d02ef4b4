"""The window join: worked examples, the paper's rules of waiting, and every pair that a double loop finds."""

from __future__ import annotations

from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch
from slackwater.events.schema import EventSchema
from slackwater.operators.match.join import JoinOperator
from slackwater.operators.match.matching_operator import MatchingOperator
from slackwater.policies.matching import Overlap, Within
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.matching_streams import (
    LASTING_LEFT,
    LASTING_RIGHT,
    LEFT,
    RIGHT,
    in_order_of_time,
    inserts,
    interleaved,
    keyed_streams,
    rows,
    run,
    shown,
    shown_elements,
)
from slackwater.testing.oracles.matching import join_oracle
from slackwater.testing.strategies import batch_cuts
from slackwater.testing.tables import assert_same_table


def within(distance: int, **options: object) -> JoinOperator:
    """A join of the point streams on k."""
    return JoinOperator(LEFT, RIGHT, ["k"], Within.of(distance), **options)  # type: ignore[arg-type]


def overlap() -> JoinOperator:
    """A join of the interval streams on k."""
    return JoinOperator(LASTING_LEFT, LASTING_RIGHT, ["k"], Overlap())


def test_close_events_of_one_key_match_at_the_later_start() -> None:
    """Within.of(5): distances of 5 match, of 6 do not, whichever side is first."""
    left = rows(LEFT, (10, "a", 1), (20, "a", 2), (20, "b", 3))
    right = rows(RIGHT, (5, "a", 7), (15, "a", 8), (26, "a", 9))
    output = run(lambda state: within(5, resume=state), [(0, left), (1, right)])
    assert inserts(output) == [
        "insert((10, 'a', 1, 5, 7), 10, 11)",
        "insert((10, 'a', 1, 15, 8), 15, 16)",
        "insert((20, 'a', 2, 15, 8), 20, 21)",
    ]


def test_the_two_distances_of_within_are_kept_apart() -> None:
    """Right may come 3 after left, left only 1 after right; bounds are inclusive."""
    left = rows(LEFT, (10, "a", 1))
    right = rows(RIGHT, (8, "a", 0), (9, "a", 1), (13, "a", 2), (14, "a", 3))
    matching = Within(left_before_right=3, right_before_left=1)
    output = run(lambda state: JoinOperator(LEFT, RIGHT, ["k"], matching, resume=state), [(0, left), (1, right)])
    assert inserts(output) == ["insert((10, 'a', 1, 9, 1), 10, 11)", "insert((10, 'a', 1, 13, 2), 13, 14)"]


def test_overlapping_lifetimes_match_for_the_time_they_share() -> None:
    """Lifetimes are half-open: touching is not overlapping, and an empty lifetime matches nothing."""
    left = rows(LASTING_LEFT, (0, 10, "a", 1), (4, 4, "a", 2))
    right = rows(LASTING_RIGHT, (2, 5, "a", 7), (4, None, "a", 8), (10, 12, "a", 9))
    operator = overlap()
    first = operator.on_batch(0, left)
    assert shown(first.batches) == []
    output = shown(operator.on_batch(1, right).batches)
    assert output == ["insert((0, 10, 'a', 1, 2, 5, 7), 2, 5)", "insert((0, 10, 'a', 1, 4, None, 8), 4, 10)"]


def test_intervals_that_never_end_match_forever() -> None:
    """Two open lifetimes share an open lifetime, however far apart they start."""
    left, right = rows(LASTING_LEFT, (BEGINNING, None, "a", 1)), rows(LASTING_RIGHT, (FOREVER - 1, None, "a", 2))
    output = run(
        lambda state: JoinOperator(LASTING_LEFT, LASTING_RIGHT, ["k"], Overlap(), resume=state),
        [(0, left), (1, right)],
        restore=True,
    )
    assert inserts(output) == [f"insert(({BEGINNING}, None, 'a', 1, {FOREVER - 1}, None, 2), {FOREVER - 1}, forever)"]


@pytest.mark.parametrize(("distance", "matches"), [(0, 0), (FOREVER - 2, 0), (FOREVER - 1, 1), (FOREVER, 1)], ids=str)
def test_distances_at_the_ends_of_int64_do_not_wrap_around(distance: int, matches: int) -> None:
    """From 0 to the last possible start is FOREVER - 1, and that bound is inclusive."""
    left, right = rows(LEFT, (0, "a", 1)), rows(RIGHT, (FOREVER - 1, "a", 2))
    output = run(lambda state: within(distance, resume=state), [(0, left), (1, right)])
    assert len(inserts(output)) == matches


def test_the_earliest_and_the_latest_instant_are_too_far_apart() -> None:
    """Their distance is larger than int64: no duration reaches it, and nothing overflows."""
    left, right = rows(LEFT, (BEGINNING, "a", 1)), rows(RIGHT, (FOREVER - 1, "a", 2))
    for distance in (0, 10, FOREVER):
        assert not inserts(run(lambda state, d=distance: within(d, resume=state), [(0, left), (1, right)]))  # type: ignore[misc]


def test_null_keys_match_nothing() -> None:
    """As in SQL, null does not equal null; nor are such rows kept."""
    operator = within(5)
    operator.on_batch(0, rows(LEFT, (1, None, 1)))
    emission = operator.on_batch(1, rows(RIGHT, (1, None, 2)))
    assert shown(emission.batches) == ["punctuate(1)"]
    assert operator.buffered() == 0


def test_nan_keys_match_each_other_and_zeros_of_both_signs() -> None:
    """As in Spark, NaN equals NaN and 0.0 equals -0.0."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.float64()}), time="at")
    left, right = rows(schema, (1, float("nan")), (1, 0.0), (1, None)), rows(schema, (2, float("nan")), (2, -0.0))
    operator = JoinOperator(schema, schema, ["x"], Within.of(1))
    operator.on_batch(0, left)
    operator.on_batch(1, right)
    output = shown([*operator.on_end(0).batches, *operator.on_end(1).batches])
    assert output == ["insert((1, NaN, 2), 2, 3)", "insert((1, 0.0, 2), 2, 3)", "punctuate(forever)"]


def test_without_key_columns_every_pair_in_time_matches() -> None:
    """Join on nothing is a cross join within the window."""
    left, right = rows(LEFT, (1, "a", 1), (1, None, 2)), rows(RIGHT, (2, "c", 3), (9, "a", 4))
    output = run(lambda state: JoinOperator(LEFT, RIGHT, [], Within.of(3), resume=state), [(0, left), (1, right)])
    assert inserts(output) == ["insert((1, 'a', 1, 2, 'c', 3), 2, 3)", "insert((1, None, 2, 2, 'c', 3), 2, 3)"]


def test_duplicate_rows_match_as_often_as_they_occur() -> None:
    """Two equal left rows and two equal right rows make four equal results."""
    left, right = rows(LEFT, (1, "a", 1), (1, "a", 1)), rows(RIGHT, (1, "a", 2), (1, "a", 2))
    output = run(lambda state: within(0, resume=state), [(0, left), (1, right)])
    assert inserts(output) == ["insert((1, 'a', 1, 1, 2), 1, 2)"] * 4


def test_columns_of_every_kind_come_through_unchanged() -> None:
    """Dictionaries, structs, lists and time zones keep type and value, whatever the chunks they were stored in."""
    fields = {
        "at": pa.timestamp("ms", "Europe/Zurich"),
        "k": pa.dictionary(pa.int32(), pa.string()),
        "deep": pa.struct({"xs": pa.list_(pa.int8())}),
    }
    schema = EventSchema.of(pa.schema(fields), time="at")
    batches = [
        schema.read(pa.RecordBatch.from_pylist([{"at": i, "k": key, "deep": {"xs": [i, None]}}], schema.shown), "test")
        for i, key in enumerate("abcab")
    ]
    operator = JoinOperator(schema, schema, ["k"], Within.of(0))
    output = [batch for rows in batches for port in (0, 1) for batch in operator.on_batch(port, rows).batches]
    data = [batch.payload for batch in output if batch.rows]
    assert [payload.schema.types for payload in data] == [[*fields.values(), fields["at"], fields["deep"]]] * 5
    assert [payload.column("deep_right").to_pylist() for payload in data] == [[{"xs": [i, None]}] for i in range(5)]


def test_an_empty_port_is_waited_for_and_named() -> None:
    """Figure 1 of the paper: with nothing on the right, the left row waits for the right input."""
    operator = within(5)
    assert operator.idle_waiting_on() is None
    assert operator.on_batch(0, rows(LEFT, (10, "a", 1))).batches == ()
    assert operator.idle_waiting_on() == 1
    assert operator.buffered() == 1


def test_a_punctuation_instead_of_data_lets_the_join_go_on() -> None:
    """Figure 6: with the register moved by a punctuation the row is consumed, and a punctuation is produced."""
    operator = within(5)
    operator.on_batch(0, rows(LEFT, (10, "a", 1)))
    emission = operator.on_batch(1, rows(RIGHT, (3, "b", 0)).punctuation(10))
    assert shown(emission.batches) == ["punctuate(10)"]
    assert operator.idle_waiting_on() is None
    assert operator.buffered() == 1, "the row lives in its window, but waits for nobody"


def test_simultaneous_tuples_do_not_wait_for_each_other() -> None:
    """Section 4.1: what comes later with the time of the least register is matched at once, on either port."""
    operator = within(0)
    operator.on_batch(0, rows(LEFT, (10, "a", 1)))
    assert shown(operator.on_batch(1, rows(RIGHT, (10, "a", 2))).batches) == ["insert((10, 'a', 1, 10, 2), 10, 11)"]
    assert shown(operator.on_batch(1, rows(RIGHT, (10, "a", 3))).batches) == ["insert((10, 'a', 1, 10, 3), 10, 11)"]
    assert shown(operator.on_batch(0, rows(LEFT, (10, "b", 4))).batches) == []
    assert operator.idle_waiting_on() is None


def test_a_punctuation_is_sent_only_when_it_says_more_than_the_rows() -> None:
    """A result at time 10 says what a punctuation at 10 would; one at 12 says more."""
    operator = within(0)
    operator.on_batch(0, rows(LEFT, (10, "a", 1), (12, "c", 1)))
    emission = operator.on_batch(1, rows(RIGHT, (10, "a", 2), (12, "b", 2)))
    assert shown(emission.batches) == ["insert((10, 'a', 1, 10, 2), 10, 11)", "punctuate(12)"]


def test_an_input_that_goes_back_in_time_is_refused_with_the_name_of_the_step() -> None:
    """Order is a guarantee of the plan; a stream that breaks it is an error, not a wrong answer."""
    operator = within(5, step="join#3")
    operator.on_batch(0, rows(LEFT, (10, "a", 1)))
    with pytest.raises(BrokenOrder, match="join#3"):
        operator.on_batch(0, rows(LEFT, (9, "a", 1)))


def test_latent_streams_are_joined_as_they_arrive() -> None:
    """With waits=False nothing is held: the row pairs with what came before it, on the spot."""
    operator = within(5, waits=False)
    assert shown(operator.on_batch(0, rows(LEFT, (10, "a", 1))).batches) == ["punctuate(10)"]
    assert shown(operator.on_batch(1, rows(RIGHT, (12, "a", 2))).batches) == ["insert((10, 'a', 1, 12, 2), 12, 13)"]
    assert shown(operator.on_end(1).batches) == []
    assert shown(operator.on_batch(0, rows(LEFT, (17, "a", 3))).batches) == ["insert((17, 'a', 3, 12, 2), 17, 18)"]
    assert shown(operator.on_end(0).batches) == ["punctuate(forever)"]


def test_work_follows_results_and_expired_rows_not_what_is_alive() -> None:
    """With 50,000 rows alive under other keys, each new pair costs a few visits, and sweeps look twice per row."""
    operator = within(10**6)
    alive = 50_000
    operator.on_batch(0, rows(LEFT, *((i, f"k{i}", i) for i in range(alive))))
    operator.on_batch(1, rows(RIGHT, (alive, "none", 0)))
    swept = 0
    sweep = MatchingOperator._sweep

    def counted(self: MatchingOperator) -> None:
        nonlocal swept
        swept += sum(side.rows for side in self._sides)
        sweep(self)

    visits = [side.visited for side in operator._sides]
    results = 0
    with mock.patch.object(MatchingOperator, "_sweep", counted):
        for i in range(300):
            now = alive + 1 + i
            results += sum(batch.rows for batch in operator.on_batch(0, rows(LEFT, (now, f"k{i}", i))).batches)
            results += sum(batch.rows for batch in operator.on_batch(1, rows(RIGHT, (now, f"k{i}", i))).batches)
    assert results == 600
    assert sum(side.visited for side in operator._sides) - sum(visits) <= results
    assert swept == 0


def test_sweeps_are_paid_for_by_new_rows_and_memory_by_rows_alive() -> None:
    """Over 40,000 rows of keys that never come again, all sweeps together look at fewer than three times as many."""
    operator = within(100)
    looked, most = 0, 0
    sweep = MatchingOperator._sweep

    def counted(self: MatchingOperator) -> None:
        nonlocal looked
        looked += sum(side.rows for side in self._sides)
        sweep(self)

    with mock.patch.object(MatchingOperator, "_sweep", counted):
        for first in range(0, 20_000, 100):
            for port, schema in ((0, LEFT), (1, RIGHT)):
                operator.on_batch(port, rows(schema, *((i, f"{port}-{i}", i) for i in range(first, first + 100))))
            most = max(most, operator.buffered())
    assert looked < 3 * 40_000
    assert most < 2 * 400 + operator.FEW_ROWS
    assert len(operator._keys) < 2 * 400 + operator.FEW_ROWS
    operator.check()


def test_time_that_passes_without_rows_frees_what_has_expired() -> None:
    """After a burst, punctuations alone bring the window down; no further row has to come."""
    operator = within(100)
    operator.on_batch(0, rows(LEFT, *((i, "a", i) for i in range(5_000))))
    for instant, most in ((5_000, 1_200), (5_200, operator.FEW_ROWS)):
        for port in (0, 1):
            operator.on_batch(port, rows(LEFT, (0, "", 0)).punctuation(instant))
        assert operator.buffered() <= most
        operator.check()


MATCHINGS = st.one_of(
    st.builds(Within, st.integers(0, 10), st.integers(0, 10)),
    st.just(Within(FOREVER, FOREVER)),
    st.just(Overlap()),
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), matching=MATCHINGS, on=st.sampled_from([[], ["k"]]), few=st.sampled_from([0, 3, 1024]))
def test_join_finds_what_a_double_loop_finds(
    data: st.DataObject, matching: Overlap | Within, on: list[str], few: int
) -> None:
    """Under any cuts, any interleaving, sweeps at any time, with and without restoring after every call."""
    left, right = data.draw(keyed_streams())
    steps = data.draw(interleaved(data.draw(batch_cuts(left)), data.draw(batch_cuts(right))))
    key = [(2, 2)] if on else []
    expected = join_oracle(shown_elements(LASTING_LEFT, left), shown_elements(LASTING_RIGHT, right), key, matching)
    with mock.patch.object(MatchingOperator, "FEW_ROWS", few):
        for restore in (False, True):
            output = run(
                lambda state: JoinOperator(LASTING_LEFT, LASTING_RIGHT, on, matching, resume=state),
                steps,
                restore=restore,
            )
            assert_same_table(output, expected)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), matching=MATCHINGS)
def test_a_latent_join_finds_the_same_without_holding_anything(data: st.DataObject, matching: Overlap | Within) -> None:
    """Fed in the order of time, nothing waits, and the table is that of the double loop."""
    left, right = data.draw(keyed_streams())
    steps = data.draw(in_order_of_time(left, right))
    expected = join_oracle(shown_elements(LASTING_LEFT, left), shown_elements(LASTING_RIGHT, right), [(2, 2)], matching)
    output = run(
        lambda state: JoinOperator(LASTING_LEFT, LASTING_RIGHT, ["k"], matching, waits=False, resume=state),
        steps,
        restore=True,
    )
    assert_same_table(output, expected)


def test_a_snapshot_is_not_changed_by_later_calls() -> None:
    """Two operators restored from one snapshot answer alike, though the first has gone on in between."""
    operator = within(5)
    operator.on_batch(0, rows(LEFT, (10, "a", 1), (11, "b", 2)))
    operator.on_batch(1, rows(RIGHT, (10, "b", 0)))
    state = operator.snapshot()
    for _ in range(2):
        copy = within(5, resume=state)
        answer = copy.on_batch(1, rows(RIGHT, (12, "b", 3)))
        assert shown(answer.batches) == ["insert((11, 'b', 2, 10, 0), 11, 12)"]
        assert shown(copy.on_end(0).batches) == ["insert((11, 'b', 2, 12, 3), 12, 13)"]


def test_empty_batches_change_nothing() -> None:
    """An empty batch is taken and answered with nothing."""
    operator = within(5)
    empty = EventBatch.inserts(LEFT.no_rows, [])
    assert operator.on_batch(0, empty).batches == ()
    assert operator.buffered() == 0
