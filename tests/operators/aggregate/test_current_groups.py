"""The current partial result of each open group: found, replaced, kept in few places, and forgotten in time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, batch_of, elements_of
from slackwater.operators.aggregate.current_groups import CurrentGroups, identity_codec, lay_end_to_end, take_groups
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping
from slackwater.policies import aggregates as sw
from slackwater.progress.instants import BEGINNING
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.strategies import MEASURED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slackwater.policies.aggregates import Aggregate

EVERYTHING: Mapping[str, Aggregate] = {
    "rows": sw.count(),
    "total": sw.sum("v"),
    "float_total": sw.sum("x"),
    "least": sw.min("x"),
    "different": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}
_BY_KEY = Grouping.of(MEASURED, ["k"], EVERYTHING, "test")
_COUNTED = Grouping.of(pa.schema({"k": pa.int64()}), ["k"], {"n": sw.count()}, "test")


def _partial(rows: Iterable[Insert]) -> Partial:
    return Partial.of(batch_of(rows, MEASURED).data(), _BY_KEY)


def _answers(partial: Partial) -> list[Insert]:
    return [element for element in elements_of(partial.finish()) if isinstance(element, Insert)]


def _expected(rows: Sequence[Insert]) -> dict[Any, Insert]:
    answers = aggregate_oracle(rows, MEASURED.names, ["k"], EVERYTHING)
    return {_group(answer): answer for answer in answers}


def _group(answer: Insert) -> Any:
    assert isinstance(answer.payload, tuple)
    return answer.start, answer.end, answer.payload[0]


_ROWS = st.lists(
    st.builds(
        lambda k, v, x, start, length: Insert((k, v, x), start, start + length),
        st.sampled_from(["a", "b", None]),
        st.integers(-2, 2),
        st.sampled_from([0.5, -1.5, None, 0.0]),
        st.integers(0, 6),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=6,
)


@given(steps=st.lists(st.tuples(_ROWS, st.integers(0, 4)), max_size=12), restore=st.booleans())
def test_an_update_says_what_the_touched_groups_were_and_are(
    steps: list[tuple[list[Insert], int]], restore: bool
) -> None:
    """Of all rows that came since the group was opened; groups before a bound are forgotten, others are not."""
    groups, came, bound = CurrentGroups(identity_codec(_BY_KEY)), list[Insert](), BEGINNING
    for rows, ahead in steps:
        fitting = [row for row in rows if row.start >= bound]
        if fitting:
            update = groups.update(_partial(fitting))
            before, now = _expected(came), _expected([*came, *fitting])
            touched = _expected(fitting)
            assert sorted(map(repr, _answers(update.now))) == sorted(repr(now[group]) for group in touched)
            known = [group for group in touched if group in before]
            assert sorted(map(repr, _answers(update.before))) == sorted(repr(before[group]) for group in known)
            moved = take_groups(update.now, update.places)
            assert [_group(one) for one in _answers(moved)] == [_group(one) for one in _answers(update.before)]
            update.now.check()
            came += fitting
        groups.check()
        if ahead:
            bound = max(bound, ahead + min((row.start for row in came), default=0))
            groups.release(bound)
            came = [row for row in came if row.start >= bound]
        groups.check()
        assert len(groups) == len(_expected(came))
        if restore:
            groups = CurrentGroups(identity_codec(_BY_KEY), groups.snapshot())
            groups.check()


def _counts(starts: Sequence[int], keys: Sequence[int]) -> Partial:
    payload = pa.record_batch({"k": pa.array(keys, pa.int64())})
    return Partial.of(EventBatch.inserts(payload, list(starts), [start + 10 for start in starts]), _COUNTED)


@pytest.mark.parametrize("seed", range(3))
def test_many_groups_that_are_touched_now_and_then_lie_in_few_places(seed: int) -> None:
    """Batches of all sizes, some keys often and others seldom; half of the groups are closed on the way."""
    rng = Random(seed)
    groups, counts = CurrentGroups(identity_codec(_COUNTED)), dict[tuple[int, int], int]()
    bound = 0
    for turn in range(400):
        rows = [
            (bound + rng.randrange(40), int(rng.paretovariate(0.5)) % 300) for _ in range(rng.choice([1, 1, 2, 9, 70]))
        ]
        update = groups.update(_counts(*zip(*rows, strict=True)))
        for row in rows:
            counts[row] = counts.get(row, 0) + 1
        emitted = zip(update.now.starts.tolist(), update.now.keys[0].to_pylist(), strict=True)
        assert [counts[group] for group in emitted] == update.now.states[0].to_pylist()
        if turn % 25 == 24:
            bound += rng.randrange(30)
            groups.release(bound)
            counts = {group: n for group, n in counts.items() if group[0] >= bound}
        assert len(groups) == len(counts)
        assert len(groups.snapshot()) <= 7 * 5
        assert sum(map(len, groups.snapshot())) <= 2 * len(groups)
        if turn % 10 == 0:
            groups.check()


def test_taking_and_laying_end_to_end_keep_members_with_their_groups() -> None:
    """Also from a partial of which the front was cut off."""
    rows = [Insert((k, v, 0.5), start, 9) for start in range(4) for k in "ab" for v in range(start + 1)]
    _, cut = _partial(rows).split(2)
    assert cut.origin > 0
    expected = _answers(cut)
    order = np.array([2, 0, 3])
    taken = take_groups(cut, order)
    assert _answers(taken) == [expected[place] for place in order]
    assert _answers(lay_end_to_end([taken, cut])) == [*(expected[place] for place in order), *expected]
    assert _answers(take_groups(cut, np.empty(0, dtype=np.int64))) == []


def test_a_snapshot_copies_no_row_and_does_not_change() -> None:
    """Partials are handed out as they lie."""
    groups = CurrentGroups(identity_codec(_COUNTED))
    groups.update(_counts([0] * 100, range(100)))
    (held,) = groups.snapshot()
    groups.update(_counts([0], [3]))
    assert groups.snapshot()[0] is held
    assert CurrentGroups(identity_codec(_COUNTED), [held]).update(_counts([0], [3])).now.states[0].to_pylist() == [2]
