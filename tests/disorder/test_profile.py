"""Disorder measured whole: by the papers' example, by an oracle of all pairs, and at the extremes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.disorder.profile import DisorderProfile
from slackwater.kernels.sorting.measure_disorder import append_to_runs
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles import disorder as oracle

_TIMES = st.lists(st.integers(0, 20), max_size=80)


def _column(times: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(times, dtype=np.int64)


def test_the_example_of_section_iii() -> None:
    """[2, 6, 5, 1, 4, 3, 7, 8] makes four runs in figure 3, with tails 8, 5, 4, 3."""
    times = _column([2, 6, 5, 1, 4, 3, 7, 8])
    assert append_to_runs(times).tolist() == [8, 5, 4, 3]
    profile = DisorderProfile.of(times)
    assert (profile.events, profile.inversions, profile.distance, profile.runs) == (8, 9, 4, 4)
    assert (profile.interleaved, profile.late, profile.lateness[1.0]) == (4, 4, 5)


@given(_TIMES)
def test_a_profile_is_what_the_definitions_say(times: list[int]) -> None:
    """Every measure equals that of an oracle that looks at all pairs."""
    profile = DisorderProfile.of(_column(times))
    late = oracle.lateness(times)
    assert profile.events == len(times)
    assert profile.inversions == len(oracle.inversions(times))
    assert profile.distance == oracle.distance(times)
    assert profile.runs == oracle.natural_runs(times)
    assert profile.interleaved == oracle.interleaved_runs(times)
    assert profile.late == len(late)
    assert profile.lateness.get(1.0, 0) == max(late, default=0)
    if late:
        assert profile.lateness[0.5] == sorted(late)[len(late) // 2]


@given(_TIMES)
def test_propositions_3_1_to_3_3_bound_the_runs(times: list[int]) -> None:
    """Dealt runs are no more than the distinct times, nor than the natural runs."""
    runs = len(append_to_runs(_column(times)))
    assert runs <= len(set(times))
    assert runs <= oracle.natural_runs(times)


@given(st.lists(st.lists(st.integers(0, 50)), max_size=5), st.randoms(use_true_random=False))
def test_proposition_3_1_interleaved_streams_are_dealt_back(streams: list[list[int]], rng: object) -> None:
    """A stream interleaved from d ordered ones needs no more than d runs."""
    waiting = [sorted(stream) for stream in streams if stream]
    interleaved = []
    while waiting:
        chosen = rng.randrange(len(waiting))  # type: ignore[attr-defined]
        interleaved.append(waiting[chosen].pop(0))
        waiting = [stream for stream in waiting if stream]
    assert len(append_to_runs(_column(interleaved))) <= len([stream for stream in streams if stream])


def test_columns_longer_than_a_block_are_counted_exactly() -> None:
    """A descending column has every pair inverted; a shuffled one agrees with a count by ranks."""
    n = 1_000
    assert DisorderProfile.of(np.arange(n)[::-1].copy()).inversions == n * (n - 1) // 2
    times = np.random.default_rng(1).integers(0, 300, n)
    expected = sum(int(np.count_nonzero(times[:j] > times[j])) for j in range(n))
    assert DisorderProfile.of(times).inversions == expected


def test_the_extremes_of_int64_do_not_overflow() -> None:
    """The greatest lateness there can be is more than int64 holds, and is shown."""
    profile = DisorderProfile.of(_column([FOREVER - 1, BEGINNING]))
    assert profile.lateness[1.0] == FOREVER - 1 - BEGINNING
    assert profile.inversions == 1


def test_no_events_have_no_disorder() -> None:
    """An empty column is as ordered as can be."""
    profile = DisorderProfile.of(_column([]))
    assert (profile.inversions, profile.distance, profile.runs, profile.interleaved) == (0, 0, 0, 0)
    assert profile.late_fraction == 0.0
    assert "late" in str(profile)


def test_a_stream_sends_its_disorder() -> None:
    """disorder() reads the stream and measures the times of its events, where() and all."""
    rows = [{"at": at} for at in (2, 6, 5, 1, 4, 3, 7, 8)]
    profile = sw.stream(rows, time="at").disorder()
    assert profile == DisorderProfile.of(_column([row["at"] for row in rows]))
    assert str(profile).splitlines()[1] == "inversions         9"
