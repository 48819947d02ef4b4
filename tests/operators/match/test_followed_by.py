"""followed_by: worked examples, ties across batches, and every pair that a double loop finds."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.errors import BadDuration
from slackwater.operators.match.followed_by import FollowedByOperator
from slackwater.operators.match.matching_operator import MatchingOperator
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
from slackwater.testing.oracles.matching import followed_by_oracle
from slackwater.testing.strategies import batch_cuts
from slackwater.testing.tables import assert_same_table


def followed_by(within: int, **options: object) -> FollowedByOperator:
    """The point streams, on k."""
    return FollowedByOperator(LEFT, RIGHT, ["k"], within, **options)  # type: ignore[arg-type]


def test_each_event_is_matched_with_the_next_of_its_key() -> None:
    """The first B after A, not a later one; a B may complete several As."""
    first = rows(LEFT, (1, "a", 1), (2, "a", 2), (2, "b", 3), (6, "a", 4))
    then = rows(RIGHT, (4, "a", 7), (5, "a", 8), (5, "b", 9))
    output = run(lambda state: followed_by(10, resume=state), [(0, first), (1, then)])
    assert inserts(output) == [
        "insert((1, 'a', 1, 4, 7), 4, 5)",
        "insert((2, 'a', 2, 4, 7), 4, 5)",
        "insert((2, 'b', 3, 5, 9), 5, 6)",
    ]


def test_the_bound_is_inclusive_and_the_next_is_strictly_later() -> None:
    """Exactly `within` later matches, one more does not, and neither does the same instant."""
    first = rows(LEFT, (10, "a", 1), (10, "b", 2), (10, "c", 3))
    then = rows(RIGHT, (10, "a", 0), (15, "b", 0), (16, "c", 0))
    output = run(lambda state: followed_by(5, resume=state), [(0, first), (1, then)])
    assert inserts(output) == ["insert((10, 'b', 2, 15, 0), 15, 16)"]


def test_a_next_event_that_comes_too_late_is_not_replaced_by_another() -> None:
    """An event whose next one is too late has no match at all."""
    first, then = rows(LEFT, (10, "a", 1)), rows(RIGHT, (16, "a", 0), (17, "a", 1))
    assert not inserts(run(lambda state: followed_by(5, resume=state), [(0, first), (1, then)]))


def test_simultaneous_next_events_all_match() -> None:
    """No order between simultaneous events means anything, so each of them is next."""
    first, then = rows(LEFT, (1, "a", 1)), rows(RIGHT, (3, "a", 7), (3, "a", 8), (4, "a", 9))
    output = run(lambda state: followed_by(5, resume=state), [(0, first), (1, then)])
    assert inserts(output) == ["insert((1, 'a', 1, 3, 7), 3, 4)", "insert((1, 'a', 1, 3, 8), 3, 4)"]


def test_a_simultaneous_next_event_that_arrives_in_a_later_batch_matches_too() -> None:
    """A matched event is kept until its match's instant is over, across a snapshot as well."""
    operator = followed_by(5)
    operator.on_batch(0, rows(LEFT, (1, "a", 1), (9, "x", 0)))
    assert shown(operator.on_batch(1, rows(RIGHT, (3, "a", 7))).batches) == ["insert((1, 'a', 1, 3, 7), 3, 4)"]
    operator = followed_by(5, resume=operator.snapshot())
    assert shown(operator.on_batch(1, rows(RIGHT, (3, "a", 8))).batches) == ["insert((1, 'a', 1, 3, 8), 3, 4)"]
    assert shown(operator.on_batch(1, rows(RIGHT, (4, "a", 9))).batches) == ["punctuate(4)"]
    operator.check()


def test_null_keys_match_nothing() -> None:
    """As in SQL, null does not equal null; nor are such rows kept."""
    operator = followed_by(5)
    operator.on_batch(0, rows(LEFT, (1, None, 1)))
    assert shown(operator.on_batch(1, rows(RIGHT, (2, None, 2))).batches) == ["punctuate(1)"]
    assert shown(operator.on_end(0).batches) == ["punctuate(2)"]
    assert operator.buffered() == 0


def test_without_key_columns_the_next_event_of_any_kind_matches() -> None:
    """On nothing, the next event is the next of the whole stream."""
    first, then = rows(LEFT, (1, "a", 1), (2, None, 2)), rows(RIGHT, (4, "c", 3), (5, "a", 4))
    output = run(lambda state: FollowedByOperator(LEFT, RIGHT, [], 3, resume=state), [(0, first), (1, then)])
    assert inserts(output) == ["insert((1, 'a', 1, 4, 'c', 3), 4, 5)", "insert((2, None, 2, 4, 'c', 3), 4, 5)"]


def test_an_empty_port_is_waited_for_until_a_punctuation_comes() -> None:
    """B waits for the input of As; a punctuation there, and no data, completes the match."""
    operator = followed_by(5)
    operator.on_batch(0, rows(LEFT, (1, "a", 1)))
    assert shown(operator.on_batch(1, rows(RIGHT, (3, "a", 2))).batches) == ["punctuate(1)"]
    assert operator.idle_waiting_on() == 0
    emission = operator.on_batch(0, rows(LEFT, (0, "", 0)).punctuation(4))
    assert shown(emission.batches) == ["insert((1, 'a', 1, 3, 2), 3, 4)"]
    assert operator.idle_waiting_on() is None


def test_latent_streams_are_matched_as_they_arrive() -> None:
    """With waits=False the follower completes the pair on the spot."""
    operator = followed_by(5, waits=False)
    assert shown(operator.on_batch(0, rows(LEFT, (1, "a", 1))).batches) == ["punctuate(1)"]
    assert shown(operator.on_batch(1, rows(RIGHT, (3, "a", 2))).batches) == ["insert((1, 'a', 1, 3, 2), 3, 4)"]


@pytest.mark.parametrize(("within", "matches"), [(FOREVER - 2, 0), (FOREVER - 1, 1), (FOREVER, 1)], ids=str)
def test_durations_at_the_ends_of_int64_do_not_wrap_around(within: int, matches: int) -> None:
    """From 0 to the last possible start is FOREVER - 1; from the first one it is more than any duration."""
    first = rows(LEFT, (BEGINNING, "a", 0), (0, "a", 1))
    then = rows(RIGHT, (FOREVER - 1, "a", 2))
    assert len(inserts(run(lambda state: followed_by(within, resume=state), [(0, first), (1, then)]))) == matches


@pytest.mark.parametrize("within", [-1, FOREVER + 1])
def test_durations_that_cannot_be_are_refused(within: int) -> None:
    """A negative duration, or one that does not fit int64, is an error when the step is built."""
    with pytest.raises(BadDuration, match="followed_by"):
        followed_by(within)


def test_work_follows_new_rows_not_those_that_wait() -> None:
    """With 20,000 As waiting under other keys, 500 Bs visit one A each; simultaneous As are not visited one by one."""
    operator = followed_by(10**6)
    operator.on_batch(
        0, rows(LEFT, *((i, f"k{i}", i) for i in range(20_000)), *((20_000, "tie", i) for i in range(999)))
    )
    before = operator._sides[0].visited
    results = operator.on_batch(
        1, rows(RIGHT, *((20_000, f"k{i}", i) for i in range(500)), *((20_000, "tie", i) for i in range(999)))
    )
    assert sum(batch.rows for batch in results.batches) == 500
    assert operator._sides[0].visited - before == 500


def test_keys_that_only_followers_have_are_not_remembered() -> None:
    """Bs are looked up, never stored."""
    operator = followed_by(5, waits=False)
    operator.on_batch(1, rows(RIGHT, *((1, f"k{i}", i) for i in range(100))))
    assert len(operator._keys) == 0
    assert operator.buffered() == 0


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    within=st.one_of(st.integers(0, 12), st.just(FOREVER)),
    on=st.sampled_from([[], ["k"]]),
    few=st.sampled_from([0, 3, 1024]),
)
def test_followed_by_finds_what_a_double_loop_finds(data: st.DataObject, within: int, on: list[str], few: int) -> None:
    """Under any cuts, any interleaving, sweeps at any time, with and without restoring after every call."""
    first, then = data.draw(keyed_streams())
    steps = data.draw(interleaved(data.draw(batch_cuts(first)), data.draw(batch_cuts(then))))
    key = [(2, 2)] if on else []
    expected = followed_by_oracle(shown_elements(LASTING_LEFT, first), shown_elements(LASTING_RIGHT, then), key, within)
    with mock.patch.object(MatchingOperator, "FEW_ROWS", few):
        for restore in (False, True):
            output = run(
                lambda state: FollowedByOperator(LASTING_LEFT, LASTING_RIGHT, on, within, resume=state),
                steps,
                restore=restore,
            )
            assert_same_table(output, expected)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), within=st.integers(0, 12))
def test_latent_streams_give_the_same_without_holding_anything(data: st.DataObject, within: int) -> None:
    """Fed in the order of time, nothing waits, and the table is that of the double loop."""
    first, then = data.draw(keyed_streams())
    steps = data.draw(in_order_of_time(first, then))
    expected = followed_by_oracle(
        shown_elements(LASTING_LEFT, first), shown_elements(LASTING_RIGHT, then), [(2, 2)], within
    )
    output = run(
        lambda state: FollowedByOperator(LASTING_LEFT, LASTING_RIGHT, ["k"], within, waits=False, resume=state),
        steps,
        restore=True,
    )
    assert_same_table(output, expected)
