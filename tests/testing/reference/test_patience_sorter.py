"""Impatience sort, event by event: against a stable sort, against its slow twin, and the propositions of its paper."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.disorder.profile import DisorderProfile
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.disorder import interleaved_runs, natural_runs
from slackwater.testing.oracles.impatience import ImpatienceOracle, least_moves, moves_in_rounds
from slackwater.testing.reference.patience_sorter import PatienceSorter, runs_over_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

VARIANTS = pytest.mark.parametrize(
    ("huffman", "speculate"), [(True, True), (True, False), (False, True), (False, False)], ids=str
)
"""Figure 7 of the paper: with and without Huffman merge and speculative run selection."""

INSTANTS = st.one_of(st.integers(0, 12), st.sampled_from([BEGINNING, BEGINNING + 1, FOREVER - 1, FOREVER]))
"""Few, so that there are ties; with the ends of int64."""

TIMES = st.lists(INSTANTS, max_size=60)
"""Times in order of arrival."""

STEPS = st.lists(st.tuples(TIMES, INSTANTS), max_size=8)
"""Events, then a punctuation, and again; some events come too late."""


def column(values: Iterable[int]) -> Column:
    """An int64 column."""
    return np.array(list(values), dtype=np.int64)


def pairs(released: tuple[Column, Column]) -> list[tuple[int, int]]:
    """What a punctuation released, as pairs of time and row."""
    return list(zip(released[0].tolist(), released[1].tolist(), strict=True))


def stable(times: Column) -> list[tuple[int, int]]:
    """What must come out in the end."""
    order = np.argsort(times, kind="stable")
    return pairs((times[order], order))


def disordered(seed: int, events: int, percent: int, spread: float) -> Column:
    """The paper's synthetic data set (section VI-A): some events are moved back by a normally distributed distance."""
    rng = np.random.default_rng(seed)
    times = np.arange(events)
    moved = rng.random(events) < percent / 100
    times[moved] -= np.abs(rng.normal(0, spread, int(moved.sum()))).astype(np.int64)
    return times


def dealt(times: Column) -> PatienceSorter:
    """A sorter that holds these events."""
    sorter = PatienceSorter()
    sorter.push(times)
    return sorter


LARGER = st.builds(
    disordered, st.integers(0, 2**32), st.integers(0, 700), st.sampled_from([0, 1, 30, 100]), st.sampled_from([2, 50])
)
"""Streams that fill many chunks."""


# ---- what comes out -------------------------------------------------------------------------------------------------


@VARIANTS
@given(STEPS)
def test_a_punctuation_releases_all_before_it_in_stable_order(
    huffman: bool, speculate: bool, steps: list[tuple[list[int], int]]
) -> None:
    """Whatever came before, too late or not; and at the end all that is left."""
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    held: list[tuple[int, int]] = []
    row = 0
    for times, complete_before in [*steps, ([], FOREVER)]:
        sorter.push(column(times))
        held += [(time, row + i) for i, time in enumerate(times)]
        row += len(times)
        due = sorted(event for event in held if event[0] < complete_before or complete_before == FOREVER)
        held = [event for event in held if event not in due]
        assert pairs(sorter.punctuate(complete_before)) == due
        assert sorter.buffered == len(held)
        sorter.check()
    assert sorter.runs == 0


@VARIANTS
@given(LARGER, st.lists(st.integers(0, 700)), st.integers(0, 300))
def test_a_patient_stream_comes_out_as_a_stable_sort_however_it_is_cut(
    huffman: bool, speculate: bool, times: Column, cuts: list[int], latency: int
) -> None:
    """Punctuations that break no guarantee, after any events."""
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    high_water = np.maximum.accumulate(times)
    latency += int((high_water - times).max(initial=0))
    released: list[tuple[int, int]] = []
    for start, stop in pairwise(sorted({0, *(cut for cut in cuts if cut < len(times)), len(times)})):
        sorter.push(times[start:stop])
        released += pairs(sorter.punctuate(int(high_water[stop - 1]) - latency))
        sorter.check()
    assert released + pairs(sorter.flush()) == stable(times)


@VARIANTS
@given(LARGER, st.integers(1, 800), st.integers(0, 80))
def test_a_stream_in_one_call_is_the_same_as_its_calls(
    huffman: bool, speculate: bool, times: Column, every: int, latency: int
) -> None:
    """Events that are too late for the latency included; what is held before takes part."""
    before = disordered(7, 100, 30, 20)
    at_once, one_by_one = (PatienceSorter(huffman=huffman, speculate=speculate) for _ in range(2))
    for sorter in (at_once, one_by_one):
        sorter.push(before)
    released: list[tuple[int, int]] = []
    for start in range(0, len(times), every):
        one_by_one.push(times[start : start + every])
        released += pairs(one_by_one.punctuate(int(times[: start + every].max()) - latency))
    released += pairs(one_by_one.flush())
    assert pairs(at_once.sort_stream(times, every=every, latency=latency)) == released
    assert at_once.moves == one_by_one.moves
    at_once.check()
    assert (at_once.runs, at_once.buffered) == (0, 0)


@given(STEPS)
def test_events_with_punctuations_between_them_in_one_call_are_the_same_as_their_calls(
    steps: list[tuple[list[int], int]],
) -> None:
    """What is released, and what is still held behind it; nothing of the room for what might have been."""
    one, many = PatienceSorter(), PatienceSorter()
    before = np.maximum.accumulate(column([complete_before for _, complete_before in steps]))
    expected: list[tuple[int, int]] = []
    for (times, _), complete_before in zip(steps, before.tolist(), strict=True):
        many.push(column(times))
        expected += pairs(many.punctuate(complete_before))
    stops = np.cumsum(column(len(times) for times, _ in steps))
    released = one.push_punctuated(column(time for times, _ in steps for time in times), stops, before)
    assert pairs(released) == expected
    assert one.spelled_out() == many.spelled_out()
    one.check()


@pytest.mark.parametrize("latency", [0, 3, FOREVER])
def test_high_water_minus_latency_stays_within_int64(latency: int) -> None:
    """Near the earliest instant there is nothing to release; the latest comes out at the end."""
    times = column([BEGINNING + 1, BEGINNING, 0, FOREVER, BEGINNING])
    released = pairs(PatienceSorter().sort_stream(times, every=1, latency=latency))
    assert sorted(released) == stable(times)
    assert runs_over_time(times, 1, FOREVER, incremental=True).tolist() == [1, 2, 1, 1, 1]


def test_rows_are_numbered_on_or_from_where_the_caller_says() -> None:
    """A batch may number its own rows."""
    sorter = PatienceSorter()
    sorter.push(column([5, 1]))
    sorter.push(column([3]), first_row=100)
    sorter.push(column([2]))
    assert pairs(sorter.flush()) == [(1, 1), (2, 101), (3, 100), (5, 0)]


def test_columns_may_be_read_only_and_results_belong_to_the_caller() -> None:
    """The columns of a batch cannot be written; released columns are not touched again."""
    times = column([3, 1, 2])
    times.setflags(write=False)
    sorter = dealt(times)
    released = sorter.flush()
    sorter.push(column([9, 8, 7]))
    sorter.flush()
    assert pairs(released) == [(1, 1), (2, 2), (3, 0)]


@pytest.mark.parametrize(("every", "latency"), [(0, 1), (-1, 1), (1, -1)])
def test_a_cadence_that_is_none_is_refused(every: int, latency: int) -> None:
    """There is no punctuation after no events, and none ahead of high water."""
    with pytest.raises(ValueError, match="every"):
        PatienceSorter().sort_stream(column([1]), every=every, latency=latency)


# ---- corners --------------------------------------------------------------------------------------------------------


@VARIANTS
@pytest.mark.parametrize(
    "times",
    [[], [7], [7] * 1_000, [BEGINNING] * 40, [FOREVER, BEGINNING] * 40, [BEGINNING, FOREVER] * 40, range(100, 0, -1)],
    ids=["empty", "single", "constant", "earliest", "down and up", "up and down", "descending"],
)
def test_corners_are_sorted(huffman: bool, speculate: bool, times: list[int]) -> None:
    """Nothing, one, all equal, the ends of int64."""
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    sorter.push(column(times))
    assert sorter.runs == interleaved_runs(times)
    sorter.check()
    assert pairs(sorter.flush()) == stable(column(times))
    assert pairs(sorter.flush()) == []


@VARIANTS
@pytest.mark.parametrize("events", [3_000, 100_000])
def test_descending_streams_have_a_run_per_event(huffman: bool, speculate: bool, events: int) -> None:
    """The worst case: one chunk for each event, yet less than 2 KB of memory."""
    times = np.arange(events)[::-1].copy()
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    sorter.push(times)
    assert sorter.runs == events
    assert sorter.memory_bytes() < 2_000 * events
    for _ in range(2):
        released, rows = sorter.flush()
        assert np.array_equal(released, times[::-1])
        assert np.array_equal(rows % events, np.arange(events)[::-1])
        sorter.push(times)


def test_heads_of_very_many_sizes_are_merged_smallest_first() -> None:
    """A thousand runs; what is nearly all of a merge goes straight from its chunks."""
    rng = np.random.default_rng(3)
    sizes = rng.permutation(np.concatenate([rng.integers(1, 9, 1_000), [20_000]]))
    times = np.repeat(np.arange(len(sizes))[::-1], sizes)
    sorter = dealt(times)
    assert sorter.runs == len(sizes)
    assert pairs(sorter.flush()) == stable(times)
    waiting, moves = sorted(sizes.tolist()), 0
    while len(waiting) > 1:
        merged = heappop(waiting) + heappop(waiting)
        heappush(waiting, merged)
        moves += merged
    assert sorter.moves == moves


def test_memory_follows_what_is_held_not_what_has_passed() -> None:
    """Chunks that are left are used again: a million events pass through the room of some thousand."""
    sorter = PatienceSorter()
    for start in range(0, 1_000_000, 10_000):
        sorter.push(start + disordered(start, 10_000, 30, 64))
        sorter.punctuate(start + 9_000)
    assert sorter.memory_bytes() < 10_000 * 200
    assert sorter.buffered < 2_000
    sorter.check()


# ---- how events are dealt and heads are merged ----------------------------------------------------------------------


@pytest.mark.parametrize("speculate", [True, False])
@given(STEPS)
def test_every_run_is_that_of_the_slow_twin_after_every_event(
    speculate: bool, steps: list[tuple[list[int], int]]
) -> None:
    """Speculation does not change which run an event goes to."""
    sorter, oracle = PatienceSorter(speculate=speculate), ImpatienceOracle()
    for times, complete_before in steps:
        for time in times:
            sorter.push(column([time]))
            oracle.push([time])
            assert sorter.spelled_out() == oracle.runs
        assert pairs(sorter.punctuate(complete_before)) == oracle.punctuate(complete_before)
        assert sorter.spelled_out() == oracle.runs
        sorter.check()


@pytest.mark.parametrize("speculate", [True, False])
@given(LARGER, st.integers(1, 300), st.integers(0, 100))
def test_every_run_is_that_of_the_slow_twin_after_every_punctuation(
    speculate: bool, times: Column, every: int, latency: int
) -> None:
    """Long streams, whole batches at a time."""
    sorter, oracle = PatienceSorter(speculate=speculate), ImpatienceOracle()
    for start in range(0, len(times), every):
        sorter.push(times[start : start + every])
        oracle.push(times[start : start + every].tolist())
        assert sorter.spelled_out() == oracle.runs
        complete_before = int(times[: start + every].max()) - latency
        assert pairs(sorter.punctuate(complete_before)) == oracle.punctuate(complete_before)
        assert sorter.spelled_out() == oracle.runs


@settings(max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_huffman_merge_moves_the_least(sizes: list[int]) -> None:
    """Of all orders in which heads can be merged two at a time; without it, neighbours are merged in rounds."""
    times = np.repeat(np.arange(len(sizes))[::-1], sizes)
    for huffman, moves in ((True, least_moves(sizes)), (False, moves_in_rounds(sizes))):
        sorter = PatienceSorter(huffman=huffman)
        sorter.push(times)
        assert [len(run) for run in sorter.spelled_out()] == sizes
        assert pairs(sorter.flush()) == stable(times)
        assert sorter.moves == moves


# ---- propositions of section III-C ----------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 20)).map(sorted), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_proposition_3_1_interleaved_runs_are_not_more_when_dealt(runs: list[list[int]], rng: object) -> None:
    """Ordered runs, interleaved in any way, are dealt onto at most as many."""
    turns = [turn for turn, run in enumerate(runs) for _ in run]
    rng.shuffle(turns)  # type: ignore[attr-defined]
    waiting = [iter(run) for run in runs]
    times = column(next(waiting[turn]) for turn in turns)
    assert dealt(times).runs <= len(runs)


@given(TIMES)
def test_the_bound_of_proposition_3_1_is_met(times: list[int]) -> None:
    """Patience sort has exactly as many runs as the least number that can be interleaved to give the stream."""
    assert dealt(column(times)).runs == interleaved_runs(times) == DisorderProfile.of(column(times)).interleaved


@given(TIMES)
def test_proposition_3_2_there_are_not_more_runs_than_distinct_times(times: list[int]) -> None:
    """Few distinct times, as windows make them, are few runs."""
    assert dealt(column(times)).runs <= len(set(times))


@given(TIMES)
def test_proposition_3_3_there_are_not_more_runs_than_natural_runs(times: list[int]) -> None:
    """Streams that are in order for long are few runs."""
    assert dealt(column(times)).runs <= natural_runs(times)


@given(LARGER, st.integers(1, 100), st.integers(0, 30))
def test_impatience_never_has_more_runs_than_patience(times: Column, every: int, latency: int) -> None:
    """Figure 5: as long as no event is too late. Patience sort, besides, never has fewer than before."""
    latency += int((np.maximum.accumulate(times) - times).max(initial=0))
    impatience, patience = (runs_over_time(times, every, latency, incremental=which) for which in (True, False))
    assert (impatience <= patience).all()
    assert (np.diff(patience) >= 0).all()
    assert patience[-1:].tolist() == [dealt(times).runs][: len(patience)]
