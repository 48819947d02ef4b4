"""Chooses the least or the greatest of rows that tie, by columns of whole numbers, from left to right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), boolean, int64[::1])")
def choose_rows(firsts: Column, others: Column, columns: Column, greatest: bool, chosen: Column) -> None:
    """Put a better row in the place of the one that is chosen for a tie, wherever there is one.

    Each of `others` ties with the one of `firsts` at the same place; `columns` has a line for each column. Of rows that
    are equal in all of them the one that was chosen stays.

    >>> import numpy as np
    >>> chosen = np.arange(3)
    >>> choose_rows(np.array([0, 0]), np.array([1, 2]), np.array([[4, 4, 4], [3, 5, 2]]), True, chosen)
    >>> chosen.tolist()
    [1, 1, 2]
    """
    for i in range(len(others)):
        row, best = others[i], chosen[firsts[i]]
        for column in range(len(columns)):
            a, b = columns[column, row], columns[column, best]
            if a != b:
                if (a > b) == greatest:
                    chosen[firsts[i]] = row
                break
