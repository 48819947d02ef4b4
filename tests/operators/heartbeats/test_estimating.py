"""Bounds that are learnt while rows come, against the paper's algorithms and a slow histogram, tick by tick."""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.operators.heartbeats.estimating import EstimatingGenerator
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator
from slackwater.operators.heartbeats.recording import Recording
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.policies.cadence import Every
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.state.state_codec import StateCodec
from slackwater.testing.oracles.heartbeats.estimates import adaptive, by_current_estimates, greatest_skew
from slackwater.testing.oracles.heartbeats.shares import Shares, by_shares
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.policies.bound_rules import Rules
    from slackwater.testing.oracles.heartbeats.estimates import Estimates
    from slackwater.testing.oracles.heartbeats.system import Arrival

_PLAIN = Units(calendar=False, clock_calendar=False)
_CODEC = StateCodec(HeartbeatsOperator.state_types)
_PAUSE = 4
"""Ticks without rows at the end, in which waits come to hold."""


@st.composite
def _rows(draw: st.DrawFn, most: int = 25, spread: int = 9) -> tuple[int, list[Arrival]]:
    """A few sources whose rows are behind by little, and now and then by more."""
    n = draw(st.integers(1, 3))
    steps = st.sampled_from([0, 0, 1, 1, 2, 4])
    behind = st.sampled_from([0, 0, 0, 1, 2, 3]) | st.integers(-2, spread)
    drawn = draw(st.lists(st.tuples(steps, st.integers(0, n - 1), behind), min_size=1, max_size=most))
    rows, tick = [], 0
    for step, source, lag in drawn:
        tick += step
        rows.append((tick, source, tick - lag))
    return n, rows


def _columns(generator: EstimatingGenerator, rows: Sequence[tuple[int, Any, int]]) -> tuple[Any, Any, Any]:
    ticks, sources, times = zip(*rows, strict=True)
    return np.array(ticks), generator.places_of(sources), np.array(times)


def _beats(generator: EstimatingGenerator, n: int) -> list[int]:
    found = generator.heartbeats()
    return [NOTHING_YET if found[j] == BEGINNING else found[j] for j in range(n)]


def _stored(state: Any) -> Any:
    """A state as Spark would have it back."""
    kept: list[Any] = []

    def number(leaf: Any) -> tuple[int, ...]:
        kept.append(leaf)
        return (len(kept) - 1,)

    return _CODEC.value_of(_CODEC.form_of(state, number), lambda numbers, _: kept[numbers[0]])


def _check_each_tick(
    rules: Rules, n: int, rows: Sequence[Arrival], expected: list[list[int]], data: st.DataObject
) -> EstimatingGenerator:
    """Heartbeats at the end of each tick, with rows of a tick cut into batches, and snapshots in between."""
    generator = EstimatingGenerator(rules)
    for tick, beats in enumerate(expected):
        now = [row for row in rows if row[0] == tick]
        cut = data.draw(st.integers(0, len(now)))
        for part in (now[:cut], now[cut:]):
            if part:
                generator.follow(*_columns(generator, part), closes=False)
            if data.draw(st.booleans()):
                generator = EstimatingGenerator(rules, resume=_stored(generator.snapshot()))
        generator.advance(tick)
        generator.check()
        assert _beats(generator, n) == beats, (tick, rows)
    return generator


def _deltas(generator: EstimatingGenerator, n: int, longest: int) -> dict[tuple[int, int], list[int]]:
    """Estimates by pairs of sources; rules go by the wait first."""
    found = generator.estimates()
    return {(i, j): [found[j][wait * n + i] for wait in range(longest + 1)] for i in range(n) for j in range(n)}


def _whole(estimates: Estimates) -> dict[tuple[int, int], list[int]]:
    return {pair: [ceil(delta) for delta in of] for pair, of in estimates.items()}


@given(_rows(), st.integers(0, 3), st.data())
def test_the_greatest_skew_is_that_of_section_6_1(
    drawn: tuple[int, list[Arrival]], longest: int, data: st.DataObject
) -> None:
    """Estimates and heartbeats, for every pair of sources and every wait."""
    n, rows = drawn
    bounds = Bounds.greatest(after=list(range(longest + 1)), pairs=list(range(n))).only(*range(n))
    learn: Callable[[Sequence[Arrival]], Estimates] = lambda seen: greatest_skew(seen, n, longest, strictly=True)  # noqa: E731 - the same for both
    expected = by_current_estimates(rows, n, rows[-1][0] + _PAUSE, learn)
    generator = _check_each_tick(bounds.rules(_PLAIN), n, rows, expected, data)
    assert _deltas(generator, n, longest) == _whole(learn(rows))


@st.composite
def _adaptive(draw: st.DrawFn) -> dict[str, Any]:
    alpha = draw(st.sampled_from([0.0, 0.25, 0.5, 0.3, 1.0]))
    adapts = alpha < 1 and draw(st.booleans())
    return {"alpha": alpha, "adapts": adapts, "start": draw(st.sampled_from([0, 5]))}


@given(_rows(), st.integers(0, 2), st.integers(1, 5), _adaptive(), st.data())
def test_adaptive_estimates_are_those_of_figure_4(
    drawn: tuple[int, list[Arrival]], longest: int, window: int, chosen: dict[str, Any], data: st.DataObject
) -> None:
    """With any window and alpha, from nothing or from above, with windows that adapt and without."""
    n, rows = drawn
    bounds = Bounds.adaptive(window, after=list(range(longest + 1)), pairs=list(range(n)), **chosen)
    # What is written is inclusive, the paper's delta is one more.
    start = chosen["start"] + 1 if chosen["start"] else 0
    learn: Callable[[Sequence[Arrival]], Estimates] = lambda seen: adaptive(  # noqa: E731 - the same for both
        seen, n, longest, window, chosen["alpha"], strictly=True, adapts=chosen["adapts"], start=start
    )
    expected = by_current_estimates(rows, n, rows[-1][0] + _PAUSE, learn)
    generator = _check_each_tick(bounds.only(*range(n)).rules(_PLAIN), n, rows, expected, data)
    assert _deltas(generator, n, longest) == _whole(learn(rows))


@given(_rows(), st.integers(1, 6), st.sampled_from([0.0, 0.5]), st.data())
def test_a_window_of_time_is_that_of_figure_4(
    drawn: tuple[int, list[Arrival]], window: int, alpha: float, data: st.DataObject
) -> None:
    """So long by the clock of arrivals, however few rows come."""
    n, rows = drawn
    bounds = Bounds.adaptive(Every.time(window), alpha=alpha, pairs=list(range(n))).only(*range(n))
    learn: Callable[[Sequence[Arrival]], Estimates] = lambda seen: adaptive(  # noqa: E731 - the same for both
        seen, n, 0, window, alpha, strictly=True, by_ticks=True
    )
    expected = by_current_estimates(rows, n, rows[-1][0] + _PAUSE, learn)
    generator = _check_each_tick(bounds.rules(_PLAIN), n, rows, expected, data)
    assert _deltas(generator, n, 0) == _whole(learn(rows))


@given(_rows(most=60, spread=40), st.sampled_from([0.2, 0.5, 0.8]), st.sampled_from([5, 12, 25]), st.data())
def test_what_most_rows_keep_is_that_of_the_slow_histogram(
    drawn: tuple[int, list[Arrival]], loss: float, patience: int, data: st.DataObject
) -> None:
    """Heartbeats at every tick, which rows were late by estimates, and when these were taken back."""
    n, rows = drawn
    waits = data.draw(st.sampled_from([(0,), (0, 2), (1, 3)]))
    chosen = Shares(loss, patience, waits, memory=ceil(20 / loss), enough=ceil(1 / loss))
    expected = by_shares(rows, n, rows[-1][0] + _PAUSE, chosen)
    bounds = Bounds.estimated(loss, after=waits) & Bounds.patience(patience)
    generator = _check_each_tick(bounds.only(*range(n)).rules(_PLAIN), n, rows, expected.beats, data)
    observed = generator.observed()
    assert (observed.rows, observed.late) == (len(expected.counted), len(expected.late))
    assert observed.taken_back == expected.taken_back[-1]
    changes = zip(expected.taken_back, expected.taken_back[1:], strict=False)
    assert observed.times_taken_back == sum(after and not before for before, after in changes)


@given(_rows(most=60, spread=40), st.sampled_from([0.2, 0.5]))
def test_a_replay_finds_what_the_generator_does_tick_by_tick(drawn: tuple[int, list[Arrival]], loss: float) -> None:
    """When each row could have been given out, in silence too; of late rows only that they were."""
    n, rows = drawn
    rules = (Bounds.estimated(loss) & Bounds.patience(12)).only(*range(n)).rules(_PLAIN)
    ticks, sources, times = (np.array(column) for column in zip(*rows, strict=True))
    replayed = Recording(ticks, sources, times, tuple(range(n))).replayed(rules)
    generator = EstimatingGenerator(rules)
    complete = np.full(len(rows), FOREVER)
    for tick in range(rows[-1][0] + 80):
        now = [row for row in rows if row[0] == tick]
        if now:
            generator.follow(*_columns(generator, now), closes=True)
        generator.advance(tick)
        passed = (times < generator.complete_before) & (complete == FOREVER)
        complete[passed] = tick
    late = complete < ticks
    assert (replayed.of_all < ticks).tolist() == late.tolist()
    assert replayed.of_all[~late].tolist() == complete[~late].tolist()


@given(
    _rows(most=40),
    st.sampled_from([Bounds.greatest(after=[0, 2]), Bounds.adaptive(2), Bounds.estimated(0.5) & Bounds.patience(6)]),
)
def test_estimates_do_not_depend_on_how_rows_are_cut_into_batches(
    drawn: tuple[int, list[Arrival]], bounds: Bounds
) -> None:
    """All at once, or row by row, in the middle of ticks."""
    _, rows = drawn
    rules = bounds.rules(_PLAIN)
    at_once, one_by_one = EstimatingGenerator(rules), EstimatingGenerator(rules)
    at_once.follow(*_columns(at_once, rows), closes=False)
    for row in rows:
        one_by_one.follow(*_columns(one_by_one, [row]), closes=False)
    for generator in (at_once, one_by_one):
        generator.advance(rows[-1][0])
    assert at_once.estimates() == one_by_one.estimates()
    assert at_once.heartbeats() == one_by_one.heartbeats()
    assert at_once.observed() == one_by_one.observed()


_EXTREMES = st.sampled_from([BEGINNING + 1, BEGINNING + 7, -5, 0, 3, 2**62, FOREVER - 2, FOREVER - 1])


@example(  # the last time but one: a stream is never complete past it
    drawn=[(1 - 2**63, 0, 1 - 2**63), (1 - 2**63, 0, 2**63 - 2), (7 - 2**63, 0, 2**63 - 2)],
    bounds=Bounds.greatest(clock=True, after=[0, 5]),
)
@given(
    st.lists(st.tuples(_EXTREMES | st.integers(0, 30), st.integers(0, 2), _EXTREMES | st.integers(0, 30)), max_size=30),
    st.sampled_from(
        [
            Bounds.greatest(clock=True, after=[0, 5]),
            Bounds.adaptive(2, clock=True, adapts=True),
            Bounds.estimated(0.8) & Bounds.patience(3),
            Bounds.estimated(0.8) & Bounds.patience(2**62) & Bounds.delay(2**62),
        ]
    ),
)
def test_times_at_the_ends_of_int64_neither_wrap_nor_let_heartbeats_fall(
    drawn: list[tuple[int, int, int]], bounds: Bounds
) -> None:
    """Arrivals that go back count as soon as those before; a row without a time counts for nothing."""
    rules = bounds.rules(_PLAIN)
    generator = EstimatingGenerator(rules)
    before: dict[Any, int] = {}
    complete, late = BEGINNING, 0
    for row in drawn:
        generator.follow(*_columns(generator, [row]), closes=False)
        generator.check()
        late += row[2] < generator.complete_before
        beats = generator.heartbeats()
        assert all(beats[who] >= beat for who, beat in before.items())
        assert generator.complete_before >= complete
        before, complete = beats, generator.complete_before
        assert all(delta >= -1 for of in generator.estimates().values() for delta in of)
    observed = generator.observed()
    assert observed.late <= late
    assert observed.rows <= len(drawn)
    assert EstimatingGenerator(rules, resume=_stored(generator.snapshot())).estimates() == generator.estimates()


def test_rows_that_the_patience_loses_are_neither_counted_nor_learnt_from() -> None:
    """One broken clock must not raise what others are waited for by, nor take estimates back for ever."""
    rules = (Bounds.estimated(0.1) & Bounds.patience(50)).once_seen().rules(_PLAIN)
    found = []
    for broken in (False, True):
        generator = EstimatingGenerator(rules)
        for tick in range(100, 400):
            rows = [(tick, "sound", tick - tick % 3)] + ([(tick, "broken", 7)] if broken and tick > 150 else [])
            generator.follow(*_columns(generator, rows), closes=True)
        found.append((generator.observed(), generator.complete_before))
    assert found[0] == found[1]
    assert found[0][0].late == 0
    assert found[0][1] > 390, "the estimate has come down from the patience"


def test_a_source_that_shows_less_than_all_is_waited_for_by_less() -> None:
    """And one that shows more by no more than what nearly all rows of all sources keep: its share is part of theirs."""
    rules = (Bounds.estimated(0.1) & Bounds.patience(500)).once_seen().rules(_PLAIN)
    generator = EstimatingGenerator(rules)
    for tick in range(2_000):
        who, behind = ("slow", 60 * (tick % 400 == 0)) if tick % 4 == 0 else ("quick", 0)
        generator.follow(*_columns(generator, [(tick, who, tick - behind)]), closes=True)
    assert generator.estimates() == {"slow": [0, 0], "quick": [0, 0]}, "one row in a hundred is not waited for"
    for tick in range(2_000, 4_000):
        who, behind = ("slow", 60) if tick % 4 == 0 else ("quick", 0)
        generator.follow(*_columns(generator, [(tick, who, tick - behind)]), closes=True)
    estimates = generator.estimates()
    assert estimates["quick"] == [0, 0]
    assert estimates["slow"][0] == 0
    assert 60 <= estimates["slow"][1] <= 64
    generator.places_of(["new"])
    assert generator.estimates()["new"] == [0, estimates["slow"][1]]


def test_of_few_rows_nothing_is_concluded() -> None:
    """An estimate needs as many rows as show that one late row would be no more than the share."""
    rules = (Bounds.estimated(0.01) & Bounds.patience(100)).once_seen().rules(_PLAIN)
    generator = EstimatingGenerator(rules)
    deltas = []
    for tick in range(250):
        generator.follow(*_columns(generator, [(tick, "a", tick)]), closes=True)
        deltas.append(generator.estimates()["a"])
    came_down = next(tick for tick, of in enumerate(deltas) if of != [-1, -1])
    assert 198 <= came_down <= 202
    assert deltas[-1] == [0, 0]


def test_nothing_is_concluded_before_rows_that_are_as_late_as_the_patience_could_have_come() -> None:
    """However many rows there are at the beginning."""
    rules = (Bounds.estimated(0.1) & Bounds.patience(500)).once_seen().rules(_PLAIN)
    generator = EstimatingGenerator(rules)
    learnt = []
    for tick in range(1_000):
        generator.follow(*_columns(generator, [(tick, "a", tick)] * 5), closes=True)
        learnt.append(generator.estimates()["a"] != [-1, -1])
    assert learnt == [tick >= 501 for tick in range(1_000)]


def test_a_window_that_never_ends_is_the_greatest_skew() -> None:
    """Section 6.2."""
    rules = Bounds.greatest(pairs=["a"]).only("a").rules(_PLAIN)
    assert rules.estimation is not None
    assert rules.estimation.window == inf
