"""Lines in which merges write what they emit, and which rows they leave out; payloads stay where they are.

Numba does not see that a kernel calls these when it looks for its machine code on disk: after a change in this file
save the kernels that call it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.event_index import LINES, READ
from slackwater.kernels.replicas.replica_standing import DIVERTS, PASSED_OVER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.replicas.event_index import Column

KIND: Final = 0
"""Place in a line: the kind of the element. Lines are laid out by column: one row of numbers for each place."""
OUT_START: Final = 1
OUT_PRIOR: Final = 2
OUT_NEW: Final = 3
OUT_FROM: Final = 4
"""Place in a line: the row of the batch whose payload it has, or HELD."""
OUT_AT: Final = 5
"""Place in a line: where the words of its payload are held; they are, for all but punctuations."""
OUT_LENGTH: Final = 6
LINE: Final = 7

HELD: Final = -1
"""The payload of a line is among those that are held, at OUT_AT."""

INSERT, ADJUST, PUNCTUATE = 0, 1, 2  # as in events.kinds
PASSED_OVER_INSERT, PASSED_OVER_ADJUST, CONTRADICTED_EVENT = 3, 4, 5
"""Kinds of lines that do not go out: rows that are left out. They have the replica at OUT_PRIOR."""


@kernel(f"void({LINES}, int64, int64, int64, int64, int64, int64, int64, int64)", inlined=True)
def write_line(
    lines: Column, count: int, kind: int, start: int, prior: int, end: int, row: int, at: int, length: int
) -> None:
    """Write a line."""
    lines[KIND, count], lines[OUT_START, count], lines[OUT_PRIOR, count] = kind, start, prior
    lines[OUT_NEW, count], lines[OUT_FROM, count] = end, row
    lines[OUT_AT, count], lines[OUT_LENGTH, count] = at, length


@kernel(f"int64({LINES}, int64, {READ}, {LINES}, int64, int8, int64, int64, int64, int64)", inlined=True)
def pass_over(
    standing: Column,
    replica: int,
    rules: Column,
    lines: Column,
    count: int,
    kind: int,
    start: int,
    end: int,
    row: int,
    length: int,
) -> int:
    """Leave an element out whose time is over; return the count of lines."""
    standing[replica, PASSED_OVER] += 1
    if rules[DIVERTS]:
        write_line(lines, count, PASSED_OVER_INSERT + kind, start, replica, end, row, 0, length)
        count += 1
    return count


@kernel("UniTuple(int64, 3)(int64[:, :], int8[::1], int64[:, ::1])")
def sum_up(lines: Column, kinds: NDArray[np.int8], payloads: Column) -> tuple[int, int, int]:
    """Write the kind of each line, and, for those that are not punctuations, where their payloads are.

    Return how many payloads there are, how many of them are held and not of the batch, and how many lines are adjusts.
    """
    rows, held, adjusts = 0, 0, 0
    for i in range(len(kinds)):
        kinds[i] = lines[KIND, i]
        adjusts += lines[KIND, i] == ADJUST
        if lines[KIND, i] != PUNCTUATE:
            payloads[0, rows], payloads[1, rows] = lines[OUT_FROM, i], lines[OUT_AT, i]
            payloads[2, rows] = lines[OUT_LENGTH, i]
            held += lines[OUT_FROM, i] == HELD
            rows += 1
    return rows, held, adjusts
