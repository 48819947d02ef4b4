"""Chandramouli, Goldstein, Li: Impatience Is a Virtue (ICDE 2018), sections II and III, as tests.

Each test is named by the section, figure or table it is taken from. A punctuation of the paper, no more events up to T,
is ours that is complete before T + 1; its infinite one is the end of the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from slackwater.disorder.profile import DisorderProfile
from slackwater.testing.oracles import disorder
from slackwater.testing.oracles.impatience import ImpatienceOracle, least_moves, moves_in_rounds
from slackwater.testing.reference.patience_sorter import PatienceSorter, runs_over_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_SAMPLE = [2, 6, 5, 1, 4, 3, 7, 8]
"""The array of figure 3, which is the stream of section III-A without its punctuations."""

_VARIANTS = pytest.mark.parametrize(
    ("huffman", "speculate"), [(True, True), (True, False), (False, True), (False, False)], ids=str
)


def _column(*times: int) -> Column:
    return np.array(times, dtype=np.int64)


def _runs(sorter: PatienceSorter | ImpatienceOracle) -> list[list[int]]:
    """The times of the runs."""
    events = sorter.spelled_out() if isinstance(sorter, PatienceSorter) else sorter.runs
    return [[time for time, _ in run] for run in events]


# ---- section II: measures of disorder -------------------------------------------------------------------------------


def _cloud_log(minutes: int) -> Column:
    """Three servers, each in order and each with its own small delay; in the middle one fails and is late for long."""
    delays = [0, 3, 7]
    sent = [
        (minute + delays[server] + (40 if server == 2 and minutes // 2 <= minute < minutes // 2 + 20 else 0), minute)
        for server in range(3)
        for minute in range(minutes)
    ]
    return _column(*(minute for _, minute in sorted(sent)))


def _android_log(minutes: int) -> Column:
    """Three phones that upload what they have gathered, in order, when they are charged."""
    uploads = [(start + 60, phone, start) for phone in range(3) for start in range(20 * phone, minutes, 60)]
    return np.concatenate([np.arange(start, start + 60) for _, _, start in sorted(uploads)])


@pytest.mark.parametrize("log", [_cloud_log(120), _android_log(240)], ids=["CloudLog", "AndroidLog"])
def test_table_1_measures_are_what_their_definitions_say(log: Column) -> None:
    """Inversions, distance, runs and interleaved runs, counted over all pairs and stretches."""
    profile, times = DisorderProfile.of(log), log.tolist()
    assert profile.inversions == len(disorder.inversions(times))
    assert profile.distance == disorder.distance(times)
    assert profile.runs == disorder.natural_runs(times)
    assert profile.interleaved == disorder.interleaved_runs(times)


def test_table_1_the_two_logs_are_disordered_in_opposite_ways() -> None:
    """CloudLog is chaotic at a fine granularity, AndroidLog at a coarse one; neither has more runs than sources.

    A server whose events overtake one another counts twice.
    """
    cloud, android = (DisorderProfile.of(log) for log in (_cloud_log(240), _android_log(240)))
    assert cloud.runs > 20 * android.runs
    assert android.inversions / android.events > 2 * cloud.inversions / cloud.events
    assert cloud.interleaved <= 4
    assert android.interleaved <= 3


def test_section_2_concatenated_and_interleaved_streams_are_both_nearly_sorted() -> None:
    """Two ordered streams one after the other, or in turns: two interleaved runs, but two or very many natural ones."""
    one, other = np.arange(0, 200, 2), np.arange(1, 201, 2)
    concatenated, turns = np.concatenate([one, other]), np.column_stack([one + 50, other]).ravel()
    for times, natural in ((concatenated, 2), (turns, 101)):
        profile = DisorderProfile.of(times)
        assert (profile.interleaved, profile.runs) == (2, natural)
        sorter = PatienceSorter()
        sorter.push(times)
        assert sorter.runs == 2


# ---- section III-B: Patience sort -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sorter", [PatienceSorter(), PatienceSorter(speculate=False), ImpatienceOracle()])
def test_figure_3_patience_sort_step_by_step(sorter: PatienceSorter | ImpatienceOracle) -> None:
    """(a) to (h): the runs after each element of the array."""
    steps = [
        [[2]],
        [[2, 6]],
        [[2, 6], [5]],
        [[2, 6], [5], [1]],
        [[2, 6], [5], [1, 4]],
        [[2, 6], [5], [1, 4], [3]],
        [[2, 6, 7], [5], [1, 4], [3]],
        [[2, 6, 7, 8], [5], [1, 4], [3]],
    ]
    for time, expected in zip(_SAMPLE, steps, strict=True):
        sorter.push(_column(time))
        assert _runs(sorter) == expected
        tails = [run[-1] for run in expected]
        assert tails == sorted(set(tails), reverse=True), "tails are strictly descending"


@_VARIANTS
def test_figure_3_the_merge_phase_gives_the_sorted_array(huffman: bool, speculate: bool) -> None:
    """All sorted runs into a single one."""
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    sorter.push(_column(*_SAMPLE))
    assert sorter.flush()[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorter.runs == 0


# ---- sections III-A and III-D: Impatience sort ----------------------------------------------------------------------


@_VARIANTS
def test_section_3a_each_punctuation_flushes_what_is_not_after_it(huffman: bool, speculate: bool) -> None:
    """2 6 5 1 2* 4 3 7 4* 8 inf*."""
    sorter = PatienceSorter(huffman=huffman, speculate=speculate)
    sorter.push(_column(2, 6, 5, 1))
    assert sorter.punctuate(2 + 1)[0].tolist() == [1, 2]
    sorter.push(_column(4, 3, 7))
    assert sorter.punctuate(4 + 1)[0].tolist() == [3, 4]
    sorter.push(_column(8))
    assert sorter.flush()[0].tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("speculate", [True, False])
def test_figure_4_runs_that_become_empty_are_removed(speculate: bool) -> None:
    """The runs before and after each punctuation."""
    sorter = PatienceSorter(speculate=speculate)
    sorter.push(_column(2, 6, 5, 1))
    assert _runs(sorter) == [[2, 6], [5], [1]]
    sorter.punctuate(2 + 1)
    assert _runs(sorter) == [[6], [5]]
    sorter.push(_column(4, 3, 7))
    assert _runs(sorter) == [[6, 7], [5], [4], [3]]
    sorter.punctuate(4 + 1)
    assert _runs(sorter) == [[6, 7], [5]]
    sorter.push(_column(8))
    assert _runs(sorter) == [[6, 7, 8], [5]]
    assert sorter.flush()[0].tolist() == [5, 6, 7, 8]
    assert _runs(sorter) == []


def test_section_3d_impatience_has_two_runs_where_patience_has_four() -> None:
    """During the second and the third punctuation of figure 4."""
    patience = PatienceSorter()
    patience.push(_column(*_SAMPLE))
    impatience = PatienceSorter()
    impatience.push(_column(2, 6, 5, 1))
    impatience.punctuate(2 + 1)
    impatience.push(_column(4, 3, 7))
    impatience.punctuate(4 + 1)
    impatience.push(_column(8))
    assert (impatience.runs, patience.runs) == (2, 4)


def test_figure_5_impatience_recovers_from_a_burst_of_late_events() -> None:
    """Events of a failed server come late and in disorder: Patience sort keeps their runs, Impatience sort does not."""
    times = np.arange(20_000)
    times[8_000:8_300] -= np.random.default_rng(5).integers(100, 1_500, 300)
    impatience, patience = (
        runs_over_time(times, every=100, latency=2_000, incremental=incremental) for incremental in (True, False)
    )
    assert patience[:80].tolist() == impatience[:80].tolist() == [1] * 80
    assert patience[-1] == patience.max() == impatience.max() > 20
    assert (np.diff(patience) >= 0).all()
    assert impatience[110:].tolist() == [1] * 90


# ---- section III-E: optimizations -----------------------------------------------------------------------------------


def _in_runs_of(*sizes: int) -> Column:
    """A stream that is dealt onto runs of these sizes."""
    return np.repeat(np.arange(len(sizes))[::-1], sizes)


def test_section_3e1_huffman_merge_takes_the_two_smallest_runs_first() -> None:
    """Highly skewed runs, as nearly sorted data have them, are written once, the large one; small ones more often.

    Without it neighbours are merged in rounds, and the large run is written in each.
    """
    sizes = (100, 8, 4, 2, 1, 1)
    moves = {}
    for huffman in (True, False):
        sorter = PatienceSorter(huffman=huffman)
        sorter.push(_in_runs_of(*sizes))
        assert [len(run) for run in _runs(sorter)] == list(sizes)
        sorter.flush()
        moves[huffman] = sorter.moves
    assert moves[True] == least_moves(sizes) == 2 + 4 + 8 + 16 + 116
    assert moves[False] == moves_in_rounds(sizes) == 108 + 6 + 2 + 114 + 116


def test_section_3e1_heads_are_merged_not_whole_runs() -> None:
    """Only what a punctuation releases is accessed: heads of 1, 2 and 3 events, whatever stays."""
    sorter = PatienceSorter()
    sorter.push(_column(30, 31, 50, 51, 52, 53, 20, 21, 40, 41, 10, 32, 33))
    assert _runs(sorter) == [[30, 31, 50, 51, 52, 53], [20, 21, 40, 41], [10, 32, 33]]
    assert sorter.punctuate(33)[0].tolist() == [10, 20, 21, 30, 31, 32]
    assert sorter.moves == least_moves([2, 2, 2]) == 4 + 6
    assert _runs(sorter) == [[50, 51, 52, 53], [40, 41], [33]]


def test_section_3e2_speculation_does_not_change_the_runs() -> None:
    """An event between the tails of the last-added run and of the one before it goes where a search would put it."""
    log = _android_log(600)
    speculating, searching = (PatienceSorter(speculate=speculate) for speculate in (True, False))
    for start in range(0, len(log), 50):
        for sorter in (speculating, searching):
            sorter.push(log[start : start + 50])
        assert speculating.spelled_out() == searching.spelled_out()
        complete_before = int(log[: start + 50].max()) - 200
        assert speculating.punctuate(complete_before)[1].tolist() == searching.punctuate(complete_before)[1].tolist()
