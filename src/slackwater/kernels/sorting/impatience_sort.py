"""Sorts a disordered stream of times incrementally: takes batches as they come, hands out what a punctuation completes.

The idea is Impatience sort's (Chandramouli, Goldstein, Li. ICDE 2018, section III): keep what waits in sorted runs, cut
their heads off at a punctuation, merge the heads, forget runs that are empty. What differs is the grain. The paper
appends event by event, and each event then waits for the search and the store of the one before it. Here blocks of
65,536 events are sorted in the processor's cache, and whole pieces are appended:

    times ──> block ──sorted──> what is younger than all before ──> the main run          (most of it, nearly always)
                                the rest ─────────────────────────> stragglers            (cut and merged when due)

Where few events come and wait, as behind frequent punctuations, all of them are kept in the main run, sorted anew.
A block whose natural runs are long and late is kept as these; any other is sorted by what it is like (block_sort). The
paper's own algorithm, with its variants, is in patience_sorter; docs/decisions/0008 compares the two.

Ties keep their order of arrival: rows are numbered as they come. Between the main run and a straggler the main run goes
first: its event was younger than all before it, so a straggler of the same time came after it.

Cost: that of cell_sort for each event that comes in, and once more for each straggler that goes out; O(1) for each
block of which stragglers wait. Events that wait are neither read nor moved.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.kernels.sorting.block_sort import BLOCK, BlockSorter
from slackwater.kernels.sorting.pairs import Piece, concat, merge, room_for
from slackwater.kernels.sorting.stragglers import Stragglers, joined, take_due

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slackwater.kernels.sorting.pairs import Column

_KEPT_PART: Final = 4
"""A piece that is less than one in so many parts of its block is copied, and the block let go."""

_FEW: Final = 2_048
"""Where no more events wait, all of them are sorted at once, again and again."""

_SAMPLED: Final = 256
"""One in so many events of a block is looked at to guess whether most are late."""

_BEGINNING: Final = -(2**63)
_FOREVER: Final = 2**63 - 1


@dataclass(frozen=True)
class SorterState:
    """What a sorter remembers. Its columns are never changed, so that the next state shares those that stay."""

    main: tuple[Piece, ...] = ()
    stragglers: tuple[tuple[Column, ...], ...] = ()
    """Times, rows, heads and ends of each block."""

    staged: tuple[Column, ...] = ()
    rows_taken: int = 0
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
        "_blocks", "_in_blocks", "_main", "_main_tail", "_rows_taken", "_staged",
        "_staged_least", "_staged_rows", "_straggler_tail", "_stragglers",
    )  # fmt: skip

    def __init__(self, resume: SorterState | None = None) -> None:
        state = resume or SorterState()
        self._main = deque(state.main)
        self._stragglers = [Stragglers.restored(*columns) for columns in state.stragglers]
        self._in_blocks = sum(len(piece.times) for piece in self._main) + sum(b.waiting for b in self._stragglers)
        self._staged = list(state.staged)
        self._staged_rows = sum(map(len, self._staged))
        self._staged_least = min((int(times.min()) for times in self._staged), default=_FOREVER)
        self._rows_taken = state.rows_taken
        # The greatest time that ever went to the main run, and to stragglers.
        self._main_tail = state.main_tail
        self._straggler_tail = state.straggler_tail
        self._blocks = BlockSorter()

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
        held: list[NDArray[Any]] = [*self._staged, *self._blocks.cells.scratch]
        held += [column for piece in self._main for column in piece]
        held += [column for b in self._stragglers for column in (b.times, b.rows, b.heads, b.ends)]
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
            self._append_staged()
        else:
            self._staged_least = min(self._staged_least, int(times.min()))

    def _append_staged(self) -> None:
        times = self._staged[0] if len(self._staged) == 1 else np.concatenate(self._staged)
        self._staged, self._staged_rows, self._staged_least = [], 0, _FOREVER
        if not self._stragglers and self._in_blocks + len(times) <= _FEW:
            self._append_few(times)
            return
        for first in range(0, len(times), BLOCK):
            self._append(np.ascontiguousarray(times[first : first + BLOCK]))

    def _append_few(self, times: Column) -> None:
        """Sort new events together with all that wait, where these are few: one call costs less than to append them."""
        new = Piece(times, np.arange(self._rows_taken, self._rows_taken + len(times)))
        self._rows_taken += len(times)
        self._in_blocks += len(times)
        waiting = concat([*self._main, new])
        order = np.argsort(waiting.times, kind="stable")  # those that came later lie behind, and so do they where tied
        self._main = deque([Piece(waiting.times[order], waiting.rows[order])])
        self._main_tail = max(self._main_tail, int(self._main[0].times[-1]))

    def _append(self, times: Column) -> None:
        """Sort a block; what is younger than everything before goes to the main run, the rest straggles."""
        first_row = self._rows_taken
        self._rows_taken += len(times)
        self._in_blocks += len(times)
        if self._mostly_late(times) and (natural_runs := Stragglers.in_long_runs(times, first_row)) is not None:
            self._straggle(natural_runs)
            return
        block = self._blocks.sort(times, first_row, room_for(len(times)))
        # Younger than stragglers, not as young: of two equal times only the older may be in the main run.
        on_time_from = max(self._main_tail, self._straggler_tail + 1)
        late, on_time = block.cut(int(block.times.searchsorted(on_time_from)))
        if len(late.times):
            # A few events must not keep the memory of a block alive.
            few = _KEPT_PART * len(late.times) < len(times)
            self._straggle(Stragglers.of(Piece(late.times.copy(), late.rows.copy()) if few else late))
        if len(on_time.times):
            self._main_tail = int(on_time.times[-1])
            while self._main and _better_together(len(self._main[-1].times), len(on_time.times)):
                on_time = concat([self._main.pop(), on_time])
            self._main.append(on_time)

    def _mostly_late(self, times: Column) -> bool:
        """Whether most of a block is older than the youngest event before it, as far as a sample shows."""
        sample = times[::_SAMPLED]
        late = int(np.count_nonzero(sample < max(self._main_tail, self._straggler_tail)))
        return 2 * late > len(sample)

    def _straggle(self, block: Stragglers) -> None:
        self._straggler_tail = max(self._straggler_tail, block.greatest)
        while self._stragglers and _better_together(self._stragglers[-1].waiting, block.waiting):
            block = joined(self._stragglers.pop(), block, self._blocks.cells)
        self._stragglers.append(block)

    # ---- handing out -----------------------------------------------------------------------------------------------

    def release(self, complete_before: int) -> list[Piece]:
        """Hand out all that is older than a bound: pieces that are in order, one after the other."""
        if self._staged_least < complete_before:
            self._append_staged()
        main = _cut_off(self._main, complete_before)
        pieces = list(_merged(main, self._due_stragglers(complete_before)))
        self._in_blocks -= sum(len(piece.times) for piece in pieces)
        return pieces

    def _due_stragglers(self, complete_before: int) -> list[Piece]:
        """Take the stragglers that are older than a bound: pieces in order of time."""
        due = [block for block in self._stragglers if block.least < complete_before]
        if not due:
            return []
        taken = take_due(due, complete_before, self._blocks.cells)
        self._stragglers = [block for block in self._stragglers if block.waiting]
        return taken

    # ---- state -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> SorterState:
        """Return all that is remembered. Cost: O(blocks); no event is copied."""
        stragglers = tuple((b.times, b.rows, b.heads, b.ends) for b in self._stragglers)
        return SorterState(
            tuple(self._main), stragglers, tuple(self._staged), self._rows_taken, self._main_tail, self._straggler_tail
        )

    def check(self) -> None:
        """Assert the invariants."""
        main = concat([*self._main, room_for(0)])
        assert _ordered(main.times)
        assert not len(main.times) or main.times[-1] <= self._main_tail
        for block in self._stragglers:
            stretches = [slice(*bounds) for bounds in zip(block.heads, block.ends, strict=True)]
            assert block.waiting == sum(len(block.times[stretch]) for stretch in stretches) > 0
            assert block.least == min(int(block.times[s][0]) for s in stretches if len(block.times[s]))
            assert all(_ordered(block.times[stretch]) for stretch in stretches)
        assert self._in_blocks == len(main.times) + sum(block.waiting for block in self._stragglers)
        assert self._staged_rows == sum(map(len, self._staged)) < BLOCK


def _ordered(times: Column) -> bool:
    return bool((times[1:] >= times[:-1]).all())


def _better_together(older: int, newer: int) -> bool:
    """Whether two small neighbours should become one: each event is moved O(log block) times by this rule."""
    return older + newer <= BLOCK and older <= 2 * newer


def _cut_off(run: deque[Piece], complete_before: int) -> deque[Piece]:
    """Take from the head of a run all that is older than a bound."""
    head: deque[Piece] = deque()
    while run and run[0].times[-1] < complete_before:
        head.append(run.popleft())
    if run and run[0].times[0] < complete_before:
        before, run[0] = run[0].cut(int(run[0].times.searchsorted(complete_before)))
        head.append(before)
    return head


def _merged(main: deque[Piece], late: list[Piece]) -> Iterator[Piece]:
    """Lay late pieces among those of the main run; of the main run only what lies among them is copied."""
    for piece in late:
        left = piece
        while main and len(left.times) and main[0].times[0] <= left.times[-1]:
            head = main.popleft()
            due, left = left.cut(int(left.times.searchsorted(head.times[-1])))
            if not len(due.times):
                yield head
                continue
            if not len(left.times):
                head, younger = head.cut(int(head.times.searchsorted(due.times[-1], side="right")))
                main.appendleft(younger)
            older, among = head.cut(int(head.times.searchsorted(due.times[0], side="right")))
            if len(older.times):
                yield older
            yield merge(among, due)
        if len(left.times):
            yield left
    yield from main


def _owner(column: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory a view shows."""
    while isinstance(column.base, np.ndarray):
        column = column.base
    return column
