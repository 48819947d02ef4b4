"""Merges two ordered columns of times, and weaves other columns the same way.

The merge is written down as a column of bits, "taken from b", because every other column can then be woven in one
sequential pass over its two sources: no gather, no index column. It runs from both ends at once: two independent
chains of comparisons keep the processor busy where one would wait for itself.

Cost: one comparison per element of the merge, one copy per element and column of the weave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray


def _read(kind: str) -> str:
    """The signature of a column that is only read, as the columns of a batch are."""
    return f"Array({kind}, 1, 'C', readonly=True)"


@kernel(f"void({_read('int64')}, {_read('int64')}, int64[::1], boolean[::1])")
def _merge(a: NDArray[np.int64], b: NDArray[np.int64], merged: NDArray[np.int64], from_b: NDArray[np.bool_]) -> None:
    """Merge a and b into `merged`; ties take a first."""
    n = len(merged)
    front_a, front_b = 0, 0
    back_a, back_b = len(a) - 1, len(b) - 1
    # Each step writes one element at the front and one at the back. While both inputs hold more than the steps to
    # come can use, no bound needs testing; what is left over is merged by the careful loop below.
    steps = min(len(a), len(b)) // 2
    for i in range(steps):
        least_is_b = b[front_b] < a[front_a]
        merged[i] = b[front_b] if least_is_b else a[front_a]
        from_b[i] = least_is_b
        front_b += least_is_b
        front_a += not least_is_b
        greatest_is_b = b[back_b] >= a[back_a]
        merged[n - 1 - i] = b[back_b] if greatest_is_b else a[back_a]
        from_b[n - 1 - i] = greatest_is_b
        back_b -= greatest_is_b
        back_a -= not greatest_is_b
    for i in range(steps, n - steps):
        take_b = front_a > back_a or (front_b <= back_b and b[front_b] < a[front_a])
        merged[i] = b[front_b] if take_b else a[front_a]
        from_b[i] = take_b
        front_b += take_b
        front_a += not take_b


def _weave(from_b: NDArray[np.bool_], a: Any, b: Any, woven: Any) -> None:
    """Lay two columns together in the order of a merge."""
    next_a, next_b = 0, 0
    last_a, last_b = max(len(a) - 1, 0), max(len(b) - 1, 0)
    if len(a) == 0 or len(b) == 0:
        only = b if len(a) == 0 else a
        for i in range(len(woven)):  # a slice would compile much longer
            woven[i] = only[i]
        return
    for i in range(len(woven)):
        taken = from_b[i]
        # Both are read and one is kept: the choice becomes a move, not a branch that half the time guesses wrong.
        from_a_value, from_b_value = a[min(next_a, last_a)], b[min(next_b, last_b)]
        woven[i] = from_b_value if taken else from_a_value
        next_b += taken
        next_a += not taken


_WEAVE = {
    width: kernel(f"void({_read('boolean')}, {_read(bits)}, {_read(bits)}, {bits}[::1])")(_weave)
    for width, bits in ((1, "int8"), (2, "int16"), (4, "int32"), (8, "int64"))
}
"""The loop for each width of values, in bytes."""


def merge(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Merge two ordered columns; return the merged column and which elements came from b.

    >>> times, from_b = merge(np.array([1, 3]), np.array([2, 3]))
    >>> times.tolist(), from_b.tolist()
    ([1, 2, 3, 3], [False, True, False, True])
    """
    merged = np.empty(len(a) + len(b), dtype=np.int64)
    from_b = np.empty(len(merged), dtype=np.bool_)
    _merge(a, b, merged, from_b)
    return merged, from_b


def weave(from_b: NDArray[np.bool_], a: NDArray[np.generic], b: NDArray[np.generic]) -> NDArray[np.generic]:
    """Lay two columns of one fixed-width type together in the order of a merge.

    >>> weave(np.array([False, True]), np.array([7.5]), np.array([1.5])).tolist()
    [7.5, 1.5]
    """
    width = a.dtype.itemsize
    as_bits = f"i{width}"
    woven = np.empty(len(from_b), dtype=a.dtype)
    _WEAVE[width](from_b, a.view(as_bits), b.view(as_bits), woven.view(as_bits))
    return woven


def weave_order(from_b: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The merge as row numbers into a followed by b, for columns that have no fixed width.

    >>> weave_order(np.array([False, True, False])).tolist()
    [0, 2, 1]
    """
    order = np.empty(len(from_b), dtype=np.int64)
    rows_of_a = len(from_b) - int(np.count_nonzero(from_b))
    order[~from_b] = np.arange(rows_of_a)
    order[from_b] = np.arange(rows_of_a, len(from_b))
    return order
