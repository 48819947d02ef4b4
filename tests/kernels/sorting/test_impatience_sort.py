"""The incremental sorter equals a stable sort, however its input is cut and whenever it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.sorting import impatience_sort, stragglers
from slackwater.kernels.sorting.block_sort import BLOCK
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter
from slackwater.kernels.sorting.pairs import Piece, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ANY_TIME = st.integers(-(2**63), 2**63 - 2)
_NEAR_TIME = st.integers(-50, 50)


@pytest.fixture(autouse=True, params=[0, impatience_sort._FEW], ids=["in runs", "few together"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small examples are put onto runs as large ones are, and sorted together as few events are."""
    monkeypatch.setattr(impatience_sort, "_FEW", request.param)


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _assert_sorted(times: NDArray[np.int64], in_order: Piece) -> None:
    order = np.argsort(times, kind="stable")
    assert np.array_equal(in_order.rows, order)
    assert np.array_equal(in_order.times, times[order])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eight, so that small examples have many."""
    monkeypatch.setattr(impatience_sort, "BLOCK", 8)
    monkeypatch.setattr(impatience_sort, "_SAMPLED", 1)
    monkeypatch.setattr(stragglers, "LONG_RUN", 2)
    monkeypatch.setattr(stragglers, "_SLICE", 6)


def _released(sorter: ImpatienceSorter, complete_before: int) -> Piece:
    pieces = [*sorter.release(complete_before), Piece(_column([]), _column([]))]
    return Piece(np.concatenate([p.times for p in pieces]), np.concatenate([p.rows for p in pieces]))


@pytest.mark.usefixtures("small_blocks")
@given(
    batches=st.lists(
        st.tuples(st.lists(st.one_of(_NEAR_TIME, _ANY_TIME), max_size=30), st.one_of(st.none(), _NEAR_TIME)),
        max_size=12,
    ),
    restore=st.booleans(),
)
def test_equals_a_stable_sort_for_any_cuts_and_punctuations(
    batches: list[tuple[list[int], int | None]], restore: bool
) -> None:
    """Each release gives what a list that is sorted then would give; a restored sorter goes on alike."""
    sorter = ImpatienceSorter()
    taken: list[tuple[int, int]] = []
    waiting: list[tuple[int, int]] = []
    rows = 0
    for times, complete_before in batches:
        sorter.add(_column(times))
        waiting += [(time, rows + i) for i, time in enumerate(times)]
        rows += len(times)
        if complete_before is not None:
            due = sorted(pair for pair in waiting if pair[0] < complete_before)
            waiting = [pair for pair in waiting if pair[0] >= complete_before]
            released = _released(sorter, complete_before)
            taken = list(zip(released.times.tolist(), released.rows.tolist(), strict=True))
            assert taken == due
        if restore:
            sorter = ImpatienceSorter(sorter.snapshot())
        sorter.check()
        assert sorter.buffered == len(waiting)
    released = _released(sorter, 2**63 - 1)
    assert list(zip(released.times.tolist(), released.rows.tolist(), strict=True)) == sorted(waiting)
    assert sorter.buffered == 0
    assert sorter.runs == 0


@pytest.mark.usefixtures("small_blocks")
def test_a_state_is_not_changed_by_what_follows() -> None:
    """What was handed out as a state stays as it was."""
    sorter = ImpatienceSorter()
    times = _column([50, 1, 2, 3, 40, 10, 11, 12, 30, 4, 5, 6, 60, 13, 14, 7])
    sorter.add(times)
    sorter.release(3)
    state = sorter.snapshot()
    _released(sorter, 45)
    sorter.add(_column([46] * 20))
    again = ImpatienceSorter(state)
    again.check()
    rest = _released(again, 2**63 - 1)
    assert rest.times.tolist() == sorted(time for time in times.tolist() if time >= 3)


@pytest.mark.usefixtures("small_blocks")
def test_stretches_that_have_gone_out_are_no_longer_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A late block of two natural runs, of which the older goes out: the main run and the other one wait."""
    monkeypatch.setattr(impatience_sort, "_FEW", 0)  # or few events would be sorted together, in one run
    sorter = ImpatienceSorter()
    sorter.add(np.arange(100, 108))
    sorter.add(_column([11, 12, 13, 14, 1, 2, 3, 4]))
    assert sorter.runs == 3
    assert _released(sorter, 5).times.tolist() == [1, 2, 3, 4]
    assert sorter.runs == 2
    _released(sorter, 2**63 - 1)
    assert sorter.runs == 0


@pytest.mark.usefixtures("small_blocks")
def test_memory_is_that_of_all_that_waits() -> None:
    """Eight times and eight rows of eight bytes in the main run; then what is staged as well."""
    sorter = ImpatienceSorter()
    assert sorter.memory_bytes() == 0
    sorter.add(np.arange(100, 108))
    assert sorter.memory_bytes() == 2 * 8 * 8
    sorter.add(np.arange(200, 205))
    assert sorter.memory_bytes() == (2 * 8 + 5) * 8


def test_releases_while_it_goes(disordered_times: NDArray[np.int64]) -> None:
    """Several releases hand out together what one sort does, each no more than it should."""
    times = disordered_times
    bounds = np.quantile(times, [0.2, 0.4, 0.6, 0.8], method="nearest").tolist()
    sorter = ImpatienceSorter()
    out = []
    for batch in np.array_split(times, 37):
        sorter.add(batch)
    for bound in bounds:
        out += sorter.release(bound)
        sorter.check()
        assert sum(len(piece.times) for piece in out) == np.count_nonzero(times < bound)
    out += sorter.release(2**63 - 1)
    _assert_sorted(times, Piece(np.concatenate([p.times for p in out]), np.concatenate([p.rows for p in out])))


def test_small_pieces_do_not_pile_up() -> None:
    """A descending stream, row by row, keeps few runs: small ones are put together."""
    sorter = ImpatienceSorter()
    for time in range(3_000, 0, -1):
        sorter.add(_column([time]))
        sorter.release(time)  # reaches nothing, and yet every event is the oldest
        sorter.release(0)
    assert sorter.runs <= 16
    assert len(sorter.snapshot().stragglers) <= 16
    assert _released(sorter, 2**63 - 1).times.tolist() == list(range(1, 3_001))


def test_a_stream_that_comes_to_order_is_treated_as_ordered_again() -> None:
    """Uploads first, each a long run far behind the others; then nothing is late, and nothing straggles for long."""
    sorter = ImpatienceSorter()
    for first in range(0, 4 * BLOCK, BLOCK):
        sorter.add(np.concatenate([np.arange(first, first + BLOCK // 8) - 10 * BLOCK * k for k in range(8)]))
    ordered = np.arange(4 * BLOCK, 44 * BLOCK)
    for batch in np.array_split(ordered, 40):
        sorter.add(batch)
        sorter.release(int(batch[0]))
    assert sorter.snapshot().stragglers == ()
    assert len(sorter.snapshot().main) == 1


def test_memory_follows_what_waits() -> None:
    """Memory of what has gone out is let go."""
    sorter = ImpatienceSorter()
    for first in range(0, 40 * BLOCK, BLOCK):
        sorter.add(np.arange(first, first + BLOCK) - np.arange(BLOCK) % 7)
        sorter.release(first)
    assert sorter.buffered <= 2 * BLOCK
    assert sorter.memory_bytes() <= 24 * 2**20


@given(a=st.lists(_NEAR_TIME), b=st.lists(_NEAR_TIME))
def test_merge_is_stable(a: list[int], b: list[int]) -> None:
    """Of equal times those of the first piece go first."""
    first = Piece(_column(sorted(a)), np.arange(len(a)))
    second = Piece(_column(sorted(b)), np.arange(len(a), len(a) + len(b)))
    both = np.concatenate([first.times, second.times])
    _assert_sorted(both, merge(first, second))
