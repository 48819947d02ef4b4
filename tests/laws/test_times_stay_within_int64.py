"""Times and lengths from the borders of int64: no sum or difference wraps; every answer is that of whole numbers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadTime
from slackwater.events.elements import Insert
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter
from slackwater.kernels.sorting.sort_times import sort_times
from slackwater.policies.cadence import Cadence, CadenceUnit
from slackwater.policies.matching import Within
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import earlier, later, within_int64
from slackwater.testing.oracles.matching import followed_by_oracle, join_oracle
from slackwater.testing.oracles.punctuate import punctuate_oracle

if TYPE_CHECKING:
    from collections.abc import Sequence

HALF = 2**62
PLACES = [BEGINNING, -HALF, 0, HALF, FOREVER]
BORDERS = sorted({place + by for place in PLACES for by in range(-3, 4) if BEGINNING <= place + by < FOREVER})
LENGTHS = sorted({length for length in (*BORDERS, FOREVER) if length > 0})

times = st.sampled_from(BORDERS) | st.integers(BEGINNING, FOREVER - 1)
lengths = st.sampled_from(LENGTHS) | st.integers(1, FOREVER)
rows = st.lists(times, min_size=1, max_size=6)


def _stream(at: Sequence[int], **more: Sequence[object]) -> sw.DisorderedStream:
    return sw.stream(pa.table({"at": pa.array(at, pa.int64()), **more}), time="at")


@given(rows, lengths)
def test_a_time_with_a_length_added_or_taken_away_is_held_at_the_ends(at: list[int], length: int) -> None:
    """The one place where it is done."""
    column = np.array(at)
    assert later(column, length).tolist() == [within_int64(one + length) for one in at]
    assert earlier(column, length).tolist() == [within_int64(one - length) for one in at]
    assert earlier(column, np.array([length] * len(at))).tolist() == earlier(column, length).tolist()


@given(rows, lengths)
def test_an_event_lives_for_the_size_of_a_sliding_window_or_for_ever(at: list[int], size: int) -> None:
    """A window that would end past all times has no end."""
    found = _stream(at).sliding(size).run().table
    assert found["window_start"].to_pylist() == at
    assert found["window_end"].to_pylist() == [one + size if one + size < FOREVER else None for one in at]


@given(rows, lengths, st.integers(1, 4), lengths | st.just(0))
def test_events_are_in_the_windows_that_whole_numbers_say(at: list[int], size: int, parts: int, offset: int) -> None:
    """Tumbling or hopping; a window that would start before all times is refused, and only such a window."""
    hop = -(-size // parts)
    wanted: list[tuple[int, int, int | None]] = []
    for one in at:
        last = one - (one - offset) % hop
        starts = [last - i * hop for i in range(parts) if last - i * hop > one - size]
        wanted += [(one, start, start + size if start + size < FOREVER else None) for start in sorted(starts)]
    stream = _stream(at).hopping(size, hop, offset=offset) if parts > 1 else _stream(at).tumbling(size, offset=offset)
    if min(start for _, start, _ in wanted) < BEGINNING:
        with pytest.raises(BadTime, match="range of int64"):
            stream.run()
    else:
        found = stream.run().table
        columns = (found[name].to_pylist() for name in ("at", "window_start", "window_end"))
        assert list(zip(*columns, strict=True)) == wanted


@given(rows, st.sampled_from([0, *LENGTHS]), st.sampled_from(LENGTHS), st.sampled_from([*CadenceUnit]))
def test_patience_near_the_beginning_of_time_is_no_guarantee(
    at: list[int], patience: int, every: int, unit: CadenceUnit
) -> None:
    """Sorted rows, late rows and how late they are: those of whole numbers."""
    cadence = {CadenceUnit.ROWS: sw.Every.rows(every), CadenceUnit.TIME: sw.Every.time(every)}.get(
        unit, sw.Every.batch()
    )
    batch = [Insert((place,), one, one + 1) for place, one in enumerate(at)]
    length = every if unit is not CadenceUnit.BATCH else 1
    expected = punctuate_oracle([batch], [patience], Cadence(unit, length), sw.Late.divert(), points=True)
    result = _stream(at, place=range(len(at))).sort(patience, every=cadence).run()
    in_order = sorted((one for one in expected.bands[0] if isinstance(one, Insert)), key=lambda one: one.start)
    assert result.table["at"].to_pylist() == [one.start for one in in_order]
    late = result.late
    missed = zip(late["place"].to_pylist(), late["late_bound"].to_pylist(), late["late_by"].to_pylist(), strict=True)
    assert [Insert(one, at[one[0]], at[one[0]] + 1) for one in missed] == expected.diverted


@given(rows, lengths, st.sampled_from([0, *LENGTHS]))
def test_every_row_is_counted_in_its_window_or_late(at: list[int], size: int, patience: int) -> None:
    """Bands and sums with windows: rows in = counted + late, each in the window that whole numbers say."""
    if min(one - one % size for one in at) < BEGINNING:
        return
    counted = _stream(at).tumbling(size).in_bands(patience, n=sw.count())[0].run()
    sorted_first = _stream(at).tumbling(size).sort(patience).aggregate(n=sw.count()).run()
    for result in (counted, sorted_first):
        late = [one for table in result.late_by_source.values() for one in table["at"].to_pylist()]
        on_time = Counter(at)
        on_time.subtract(late)
        wanted = Counter(one - one % size for one in on_time.elements())
        found = zip(result.table["window_start"].to_pylist(), result.table["n"].to_pylist(), strict=True)
        assert dict(found) == dict(wanted)


@given(rows, lengths)
def test_what_the_last_size_held_is_what_whole_numbers_say(at: list[int], size: int) -> None:
    """Running counts over sliding windows, for ever if need be."""
    at.sort()
    found = _stream(at).assume_ordered().sliding(size).aggregate(n=sw.count()).run().table
    changes = sorted({*at, *(end for one in at if (end := one + size) < FOREVER), FOREVER})
    wanted = []
    for start, end in pairwise(changes):
        alive = sum(one <= start < one + size for one in at)
        if alive:
            wanted.append((start, None if end == FOREVER else end, alive))
    columns = (found[name].to_pylist() for name in ("window_start", "window_end", "n"))
    assert _joined(list(zip(*columns, strict=True))) == _joined(wanted)


def _joined(pieces: list[tuple[int, int | None, int]]) -> list[tuple[int, int | None, int]]:
    """Neighbours of the same count as one piece: where the answer is cut between them is not the law here."""
    joined: list[tuple[int, int | None, int]] = []
    for start, end, n in pieces:
        if joined and joined[-1][1] == start and joined[-1][2] == n:
            joined[-1] = (joined[-1][0], end, n)
        else:
            joined.append((start, end, n))
    return joined


@given(rows, rows, st.sampled_from([0, *LENGTHS]))
def test_rows_meet_within_every_distance(left: list[int], right: list[int], within: int) -> None:
    """Joins and followed_by, to the last instant."""
    left.sort()
    right.sort()
    first, then = (_stream(at, k=["k"] * len(at)).assume_ordered() for at in (left, right))
    lefts, rights = ([Insert(("k",), one, one + 1) for one in at] for at in (left, right))
    joined = join_oracle(lefts, rights, [(0, 0)], Within.of(within))
    found = first.join(then, on="k", within=within).run().table
    assert sorted(found["matched_at"].to_pylist()) == [one.start for one in joined]
    followed = followed_by_oracle(lefts, rights, [(0, 0)], within)
    found = first.followed_by(then, on="k", within=within).run().table
    assert sorted(found["matched_at"].to_pylist()) == [one.start for one in followed]


@given(
    st.lists(st.sampled_from([*BORDERS, FOREVER]) | st.integers(BEGINNING, FOREVER), max_size=200), st.integers(1, 40)
)
def test_any_column_is_sorted_whatever_its_range(column: list[int], copies: int) -> None:
    """Cells are as long as the range needs, though that leaves int64."""
    column = column * copies
    whole = sort_times(np.array(column, dtype=np.int64))
    assert whole.times.tolist() == sorted(column)
    assert whole.rows.tolist() == sorted(range(len(column)), key=column.__getitem__)
    sorter = ImpatienceSorter()
    sorter.add(np.array(column, dtype=np.int64))
    pieces = [*sorter.release(0), *sorter.release(FOREVER)]
    assert [time for piece in pieces for time in piece.times.tolist()] == sorted(t for t in column if t < FOREVER)


@given(st.lists(times, min_size=1, max_size=5), st.sampled_from([0, *LENGTHS]), st.sampled_from([0, *LENGTHS]))
def test_replicas_may_lag_by_any_length(at: list[int], lag: int, patience: int) -> None:
    """However far the output stays behind, and however patient each replica is, every event is emitted once."""
    ordered = [_stream(sorted(at)).assume_ordered() for _ in range(2)]
    emitted = sw.merge_replicas(*ordered, agreement=sw.Agreement.first().lagging(lag)).settle().run().table
    assert emitted["at"].to_pylist() == sorted(at)
    assume(max(at) < FOREVER - 1)  # an event without an end has a law of its own
    named = _stream(sorted(at), who=["blue"] * len(at))
    if max(at) == BEGINNING:
        with pytest.raises(BadTime, match="very beginning of int64"):
            named.merge_replicas(by="who", patience=patience).run()
        return
    merged = named.merge_replicas(by="who", patience=patience).run().table
    assert merged["at"].to_pylist() == sorted(at)


@pytest.mark.parametrize("skew", ["0s", "1s", "9223372036854775807us"])
@pytest.mark.parametrize("at", [BEGINNING + 1, -HALF, 0, HALF, FOREVER - 1])
def test_a_guarantee_by_the_clock_stays_within_int64(at: int, skew: str) -> None:
    """The newest time + elapsed - skew, held at the ends; FOREVER is left to the end of the source."""
    clock = sw.ManualClock(5_000_000)
    source = sw.PushSource({"at": pa.timestamp("us")}, name="far")
    waiting = sw.PushSource({"at": pa.timestamp("us")}, name="near")
    on_demand = sw.Punctuations.on_demand(skew=skew)
    far, near = (sw.stream(one, time="at", punctuations=on_demand).sort() for one in (source, waiting))
    taken: list[int] = []
    take = lambda some: taken.extend(some["at"].cast(pa.int64()).to_pylist())  # noqa: E731
    query = sw.union(far, near).open(take, clock=clock, on_late=take)
    for one in (source, waiting):
        one.push(pa.record_batch({"at": pa.array([at]).view(pa.timestamp("us"))}))
    query.work()
    clock.advance(10_000_000)
    query.work()
    query.close()
    assert taken == [at, at]


def test_a_period_longer_than_any_lock_can_wait_is_waited_for() -> None:
    """The thread sleeps until it is woken, instead of failing."""
    source = sw.PushSource({"x": pa.int64()}, name="slow")
    stream = sw.arrivals(source, punctuations=sw.Punctuations.periodic("9223372036854775807us"))
    query = stream.open(lambda _: None, clock=sw.ManualClock(0))
    query.work()
    source.push({"x": 1})
    query.wait_for_more()
    query.close()


@pytest.mark.parametrize("bound", [-(2**70), BEGINNING, FOREVER, 2**70])
def test_a_bound_of_interest_may_be_any_number(bound: int) -> None:
    """What lies past all times is FOREVER."""
    seen: list[int] = []
    with _stream([1, 2]).sliding(5).open(lambda some: seen.extend(some["at"].to_pylist())) as query:
        query.ignore_before(bound)
    assert seen == ([1, 2] if bound < 0 else [])
