"""Sorts a disordered stream of times incrementally: takes batches as they come, hands out what a punctuation completes.

The idea is Impatience sort's (Chandramouli, Goldstein, Li. ICDE 2018, section III): keep what waits in sorted runs, cut
their heads off at a punctuation, merge the heads, forget runs that are empty. What differs is the grain. The paper
deals event by event, and each event then waits for the search and the store of the one before it. Here blocks of
65,536 events are sorted in the processor's cache, and whole pieces are dealt:

    times ──> block ──sorted──> what is younger than all before ──> the main run          (most of it, nearly always)
                                the rest ─────────────────────────> stragglers            (cut and merged when due)

A block is sorted by what it is: left alone when it is sorted; its late events taken out, sorted and merged back when
most are on time; kept as its natural runs when those are long; sorted whole otherwise. The paper's own algorithm, with
its variants, is in patience_dealing; docs/decisions/0008 compares the two.

Ties keep their order of arrival: rows are numbered as they come. Between the main run and a straggler the main run goes
first: its event was younger than all before it, so a straggler of the same time came after it.

Cost: O(log block) for each event that comes in and O(log slice) for each straggler that goes out; O(1) for each block
of which stragglers wait. Events that wait are neither read nor moved.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numba import int64, uint64

from slackwater.kernels.compile import kernel
from slackwater.kernels.pairs import KEY_BITS, Piece, concat, merge, merge_into, unpacked
from slackwater.kernels.stragglers import Stragglers, take_due

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slackwater.kernels.pairs import Column

BLOCK: Final = 65_536
"""Events sorted at once: keys and scratch of a block stay in a second-level cache of one or two megabytes."""

_POSITION_BITS: Final = 16
"""Enough for a position in a block."""

_MOST: Final = 2 / 3
"""Beyond this share of late events it costs less to sort a block whole than to take them out and merge them back."""

_LONG_RUN: Final = 256
"""Natural runs of at least so many events are kept as they are: to cut that many costs less than to sort them."""

_WHOLE_BLOCKS: Final = 15
"""Blocks that are sorted whole after one of which most events were late."""

_ROOM: Final = 8 * BLOCK
"""The most pairs that memory is asked for at once; from 4 MiB on NumPy asks for large pages, which cost less."""

_BEGINNING: Final = -(2**63)
_FOREVER: Final = 2**63 - 1

_READ = "Array(int64, 1, 'C', readonly=True)"


@dataclass(frozen=True)
class SorterState:
    """What a sorter remembers. Its columns are never changed, so that the next state shares those that stay."""

    main: tuple[Piece, ...] = ()
    stragglers: tuple[tuple[Column, ...], ...] = ()
    """Times, rows, heads and ends of each block."""

    staged: tuple[Column, ...] = ()
    rows_dealt: int = 0
    main_tail: int = _BEGINNING
    straggler_tail: int = _BEGINNING


class ImpatienceSorter:
    """Sorts times incrementally. Rows are numbered from 0 on, as they come.

    >>> sorter = ImpatienceSorter()
    >>> sorter.add(np.array([2, 6, 5, 1]))
    >>> [piece.times.tolist() for piece in sorter.release(3)]
    [[1, 2]]
    >>> sorter.add(np.array([4, 3, 7]))
    >>> np.concatenate([piece.rows for piece in sorter.release(7)]).tolist()
    [5, 4, 2, 1]
    >>> sorter.buffered
    1
    """

    __slots__ = (
        "_in_blocks", "_main", "_main_tail", "_room", "_room_used", "_rows_dealt", "_scratch", "_staged",
        "_staged_least", "_staged_rows", "_straggler_tail", "_stragglers", "_whole_blocks",
    )  # fmt: skip

    def __init__(self, resume: SorterState | None = None) -> None:
        state = resume or SorterState()
        self._main = deque(state.main)
        self._stragglers = [Stragglers.restored(*columns) for columns in state.stragglers]
        self._in_blocks = sum(len(piece.times) for piece in self._main) + sum(b.waiting for b in self._stragglers)
        self._staged = list(state.staged)
        self._staged_rows = sum(map(len, self._staged))
        self._staged_least = min((int(times.min()) for times in self._staged), default=_FOREVER)
        self._rows_dealt = state.rows_dealt
        # The greatest time that ever went to the main run, and to stragglers.
        self._main_tail = state.main_tail
        self._straggler_tail = state.straggler_tail
        self._scratch = np.empty((3, 0), dtype=np.int64)
        self._room = np.empty((2, 0), dtype=np.int64)
        self._room_used = 0
        self._whole_blocks = 0

    @property
    def buffered(self) -> int:
        """How many events wait."""
        return self._in_blocks + self._staged_rows

    @property
    def runs(self) -> int:
        """How many ordered stretches wait: the main run, and those of stragglers."""
        stretches = sum(int(np.count_nonzero(block.heads < block.ends)) for block in self._stragglers)
        return bool(self._main) + stretches

    def memory_bytes(self) -> int:
        """The bytes of all memory that is held, scratch and what is only kept because a part of it waits included."""
        columns = [column for piece in self._main for column in piece]
        columns += [column for b in self._stragglers for column in (b.times, b.rows, b.heads, b.ends)]
        held = [*columns, *self._staged, self._scratch, self._room]
        owners = {id(owner): owner.nbytes for owner in map(_owner, held)}
        return sum(owners.values())

    # ---- taking in -------------------------------------------------------------------------------------------------

    def add(self, times: Column) -> None:
        """Take the times of the next rows; they are looked at when they fill a block or a release needs them."""
        if not len(times):
            return
        self._staged.append(times)
        self._staged_rows += len(times)
        if self._staged_rows >= BLOCK:
            self._deal_staged()
        else:
            self._staged_least = min(self._staged_least, int(times.min()))

    def _deal_staged(self) -> None:
        times = self._staged[0] if len(self._staged) == 1 else np.concatenate(self._staged)
        self._staged, self._staged_rows, self._staged_least = [], 0, _FOREVER
        for first in range(0, len(times), BLOCK):
            self._deal(np.ascontiguousarray(times[first : first + BLOCK]))

    def _deal(self, times: Column) -> None:
        """Sort a block; what is younger than everything before goes to the main run, the rest straggles."""
        block = self._sorted(times, self._rows_dealt)
        self._rows_dealt += len(times)
        self._in_blocks += len(times)
        if isinstance(block, Stragglers):
            self._straggle(block)
            return
        # Younger than stragglers, not as young: of two equal times only the older may be in the main run.
        on_time_from = max(self._main_tail, self._straggler_tail + 1)
        late, on_time = block.cut(int(np.searchsorted(block.times, on_time_from)))
        if len(late.times):
            self._straggle(Stragglers.of(late))
        if len(on_time.times):
            self._main_tail = int(on_time.times[-1])
            while self._main and _better_together(len(self._main[-1].times), len(on_time.times)):
                on_time = concat([self._main.pop(), on_time])
            self._main.append(on_time)

    def _straggle(self, block: Stragglers) -> None:
        self._straggler_tail = max(self._straggler_tail, int(block.times[block.ends - 1].max()))
        while self._stragglers and _better_together(self._stragglers[-1].waiting, block.waiting):
            block = Stragglers.of(take_due([self._stragglers.pop(), block], _FOREVER))
        self._stragglers.append(block)

    def _sorted(self, times: Column, first_row: int) -> Piece | Stragglers:
        """Sort a block by what it is; one of long natural runs that overlap is left as it came, to straggle."""
        n = len(times)
        if self._scratch.shape[1] < n:
            self._scratch = np.empty((3, n), dtype=np.int64)
        if self._whole_blocks:
            self._whole_blocks -= 1
            return self._sorted_whole(times, first_row)
        early_times, early_rows, keys = self._scratch
        early, least = _take_out_late(times, first_row, early_times, early_rows, keys)
        if early == n:
            return Piece(times, np.arange(first_row, first_row + n))
        if n - early > _MOST * n:
            # Blocks that follow each other are alike, so the next ones are not even tried.
            self._whole_blocks = _WHOLE_BLOCKS
            return self._sorted_whole(times, first_row)
        if not _fits(int(least), int(early_times[early - 1])):
            return self._sorted_whole(times, first_row)
        late_keys = keys[: n - early]
        late_keys.sort()
        late = np.empty((2, n - early), dtype=np.int64)
        late_piece = unpacked(late_keys, int(times[0]), first_row, _POSITION_BITS, late)
        merged = self._make_room(n)
        merge_into(early_times[:early], early_rows[:early], *late_piece, merged[0], merged[1])
        return Piece(merged[0], merged[1])

    def _sorted_whole(self, times: Column, first_row: int) -> Piece | Stragglers:
        """Sort a block of which most events are late."""
        n, least = len(times), int(times.min())
        falls = times[1:] < times[:-1]
        if np.count_nonzero(falls) * _LONG_RUN < n:
            ends = np.append(np.flatnonzero(falls) + 1, n)
            rows = np.arange(first_row, first_row + n)
            return Stragglers(times, rows, np.append(0, ends[:-1]), ends, least, n)
        if not _fits(least, int(times.max())):
            order = np.argsort(times, kind="stable")
            return Piece(times[order], order + first_row)
        keys = self._scratch[2, :n]
        _pack_positions(times, least, keys)
        keys.sort()
        return unpacked(keys, least, first_row, _POSITION_BITS, self._make_room(n))

    def _make_room(self, n: int) -> NDArray[np.int64]:
        """Memory for n pairs."""
        if self._room_used + n > self._room.shape[1]:
            self._room = np.empty((2, max(n, min(2 * self._room.shape[1], _ROOM))), dtype=np.int64)
            self._room_used = 0
        first = self._room_used
        self._room_used += n
        return self._room[:, first : first + n]

    # ---- handing out -----------------------------------------------------------------------------------------------

    def release(self, complete_before: int) -> list[Piece]:
        """Hand out all that is older than a bound: pieces that are in order, one after the other."""
        if self._staged_least < complete_before:
            self._deal_staged()
        main = _cut_off(self._main, complete_before)
        late = self._due_stragglers(complete_before)
        pieces = list(main) if late is None else list(_merged(main, late))
        self._in_blocks -= sum(len(piece.times) for piece in pieces)
        return pieces

    def _due_stragglers(self, complete_before: int) -> Piece | None:
        """Take the stragglers that are older than a bound, in order; None when there are none."""
        due = [block for block in self._stragglers if block.least < complete_before]
        if not due:
            return None
        taken = take_due(due, complete_before)
        self._stragglers = [block for block in self._stragglers if block.waiting]
        return taken

    # ---- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> SorterState:
        """Return all that is remembered. Cost: O(blocks); no event is copied."""
        stragglers = tuple((b.times, b.rows, b.heads, b.ends) for b in self._stragglers)
        return SorterState(
            tuple(self._main), stragglers, tuple(self._staged), self._rows_dealt, self._main_tail, self._straggler_tail
        )

    def check(self) -> None:
        """Assert the invariants."""
        main = concat([*self._main, Piece(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))])
        assert (np.diff(main.times) >= 0).all()
        assert not len(main.times) or main.times[-1] <= self._main_tail
        for block in self._stragglers:
            stretches = [slice(*bounds) for bounds in zip(block.heads, block.ends, strict=True)]
            assert block.waiting == sum(len(block.times[stretch]) for stretch in stretches) > 0
            assert block.least == min(int(block.times[s][0]) for s in stretches if len(block.times[s]))
            assert all((np.diff(block.times[stretch]) >= 0).all() for stretch in stretches)
        assert self._in_blocks == len(main.times) + sum(block.waiting for block in self._stragglers)
        assert self._staged_rows == sum(map(len, self._staged)) < BLOCK


def sort_times(times: Column) -> Piece:
    """Sort a column of times; return it in order, with the positions that the times had.

    All times are there, so that the least of those to come punctuates: what is older goes out while it is in the cache.

    >>> in_order = sort_times(np.array([3, 1, 3, 2]))
    >>> in_order.times.tolist(), in_order.rows.tolist()
    ([1, 2, 3, 3], [1, 3, 0, 2])
    """
    in_order = Piece(np.empty(len(times), dtype=np.int64), np.empty(len(times), dtype=np.int64))
    firsts = range(0, len(times), BLOCK)
    least_to_come = [_FOREVER]
    for first in reversed(firsts[1:]):
        least_to_come.append(min(least_to_come[-1], int(times[first : first + BLOCK].min())))
    sorter = ImpatienceSorter()
    at = 0
    for first, complete_before in zip(firsts, reversed(least_to_come), strict=False):
        sorter.add(times[first : first + BLOCK])
        for piece in sorter.release(complete_before):
            in_order.times[at : at + len(piece.times)] = piece.times
            in_order.rows[at : at + len(piece.times)] = piece.rows
            at += len(piece.times)
    return in_order


def _fits(least: int, greatest: int) -> bool:
    """Whether a time between the two and a position in a block fit into one key."""
    return (greatest - least).bit_length() + _POSITION_BITS <= KEY_BITS


def _better_together(older: int, newer: int) -> bool:
    """Whether two small neighbours should become one: each event is moved O(log block) times by this rule."""
    return older + newer <= BLOCK and older <= 2 * newer


def _cut_off(run: deque[Piece], complete_before: int) -> deque[Piece]:
    """Take from the head of a run all that is older than a bound."""
    head: deque[Piece] = deque()
    while run and run[0].times[-1] < complete_before:
        head.append(run.popleft())
    if run and run[0].times[0] < complete_before:
        before, run[0] = run[0].cut(int(np.searchsorted(run[0].times, complete_before)))
        head.append(before)
    return head


def _merged(main: deque[Piece], late: Piece) -> Iterator[Piece]:
    """Lay a late piece among those of the main run; of the main run only what lies among it is copied."""
    while main and len(late.times) and main[0].times[0] <= late.times[-1]:
        head = main.popleft()
        due, late = late.cut(int(np.searchsorted(late.times, head.times[-1])))
        if not len(due.times):
            yield head
            continue
        if not len(late.times):
            head, younger = head.cut(int(np.searchsorted(head.times, due.times[-1], side="right")))
            main.appendleft(younger)
        older, among = head.cut(int(np.searchsorted(head.times, due.times[0], side="right")))
        if len(older.times):
            yield older
        yield merge(among, due)
    if len(late.times):
        yield late
    yield from main


def _owner(column: NDArray[np.int64]) -> NDArray[np.int64]:
    """The array whose memory a view shows."""
    while isinstance(column.base, np.ndarray):
        column = column.base
    return column


@kernel(f"UniTuple(int64, 2)({_READ}, int64, int64[::1], int64[::1], int64[::1])")
def _take_out_late(
    times: Column, first_row: int, early_times: Column, early_rows: Column, late_keys: Column
) -> tuple[np.int64, np.int64]:
    """Part a block into events as young as all before them, and keys of the others.

    Keys count time from the first event on. Return how many are early, and the least time.
    """
    one = uint64(1)
    early, late = uint64(0), uint64(0)
    base = high_water = least = times[0]
    for i in range(len(times)):
        time = times[i]
        is_late = uint64(time < high_water)
        # Both are written and one of them stays: no branch to guess wrong.
        early_times[early] = time
        early_rows[early] = first_row + i
        late_keys[late] = ((time - base) << _POSITION_BITS) | i
        early += one - is_late
        late += is_late
        high_water = max(high_water, time)
        least = min(least, time)
    return int64(early), int64(least)


@kernel(f"void({_READ}, int64, int64[::1])")
def _pack_positions(times: Column, least: int, keys: Column) -> None:
    for i in range(len(times)):
        keys[i] = ((times[i] - least) << _POSITION_BITS) | i
