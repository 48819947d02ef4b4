"""Compiled rivals for sorting while the stream flows: an adaptive merge sort with a merge in place, and a binary heap.

They are compiled like the library's own loops, and take all punctuations of a slice of the stream in one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_BLOCK = 24  # sorted by insertion before merging begins
_READ = "Array(int64, 1, 'C', readonly=True)"
_PAIRS = "int64[::1], int64[::1]"


@kernel(f"void({_PAIRS}, {_PAIRS}, int64, int64, int64)")
def merge_neighbours(
    times: Column, rows: Column, kept_times: Column, kept_rows: Column, low: int, middle: int, high: int
) -> None:
    """Merge [low:middle] and [middle:high] in place, with the left part that must move kept aside."""
    first, stop = low, middle
    while first < stop:  # the left elements up to the first right one stay where they are
        half = (first + stop) // 2
        if times[half] <= times[middle]:
            first = half + 1
        else:
            stop = half
    kept = middle - first
    for i in range(kept):
        kept_times[i] = times[first + i]
        kept_rows[i] = rows[first + i]
    left, right, k = 0, middle, first
    while left < kept and right < high:
        take_right = times[right] < kept_times[left]
        times[k] = times[right] if take_right else kept_times[left]
        rows[k] = rows[right] if take_right else kept_rows[left]
        right += take_right
        left += not take_right
        k += 1
    for i in range(left, kept):
        times[k] = kept_times[i]
        rows[k] = kept_rows[i]
        k += 1


@kernel(f"void({_PAIRS}, {_PAIRS}, int64)")
def sort_pairs(times: Column, rows: Column, kept_times: Column, kept_rows: Column, n: int) -> None:
    """Sort n pairs stably: blocks by insertion, then merges of which only the part that overlaps is moved."""
    for low in range(0, n, _BLOCK):
        for i in range(low + 1, min(low + _BLOCK, n)):
            time, row, j = times[i], rows[i], i - 1
            while j >= low and times[j] > time:
                times[j + 1] = times[j]
                rows[j + 1] = rows[j]
                j -= 1
            times[j + 1] = time
            rows[j + 1] = row
    width = _BLOCK
    while width < n:
        for low in range(0, n - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n)
            if times[middle - 1] <= times[middle]:
                continue
            merge_neighbours(times, rows, kept_times, kept_rows, low, middle, high)
        width *= 2


@kernel(f"void({_PAIRS}, int64, int64, {_PAIRS}, int64)")
def merge_backward(
    times: Column, rows: Column, head: int, tail: int, new_times: Column, new_rows: Column, n: int
) -> None:
    """Merge n sorted new pairs into the sorted [head:tail] from the back; what they do not reach is not touched."""
    old, new = tail - 1, n - 1
    while new >= 0:
        take_old = old >= head and times[old] > new_times[new]
        at = old + new + 1
        times[at] = times[old] if take_old else new_times[new]
        rows[at] = rows[old] if take_old else new_rows[new]
        old -= take_old
        new -= not take_old


@kernel(f"int64({_READ}, int64, int64, {_READ}, int64[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1])")
def adapt(
    times: Column,
    begun: int,
    every: int,
    bounds: Column,
    buffer: Column,
    ends: Column,
    scratch: Column,
    out: Column,
) -> int:
    """Sort, merge and cut at every punctuation; return how many events were released."""
    buffer_times, buffer_rows = buffer[0], buffer[1]
    new_times, new_rows = scratch[0], scratch[1]
    head, tail, released = ends[0], ends[1], 0
    for bound in bounds:
        for i in range(every):
            new_times[i] = times[begun + i]
            new_rows[i] = begun + i
        begun += every
        sort_pairs(new_times, new_rows, scratch[2], scratch[3], every)
        if tail + every > len(buffer_times):
            for i in range(tail - head):
                buffer_times[i] = buffer_times[head + i]
                buffer_rows[i] = buffer_rows[head + i]
            head, tail = 0, tail - head
        merge_backward(buffer_times, buffer_rows, head, tail, new_times, new_rows, every)
        tail += every
        while head < tail and buffer_times[head] < bound:
            out[0, released] = buffer_times[head]
            out[1, released] = buffer_rows[head]
            head += 1
            released += 1
    ends[0], ends[1] = head, tail
    return released


@kernel(f"int64({_READ}, int64, int64, {_READ}, int64[:, ::1], int64, int64[:, ::1])")
def push_and_pop(times: Column, begun: int, every: int, bounds: Column, heap: Column, size: int, out: Column) -> int:
    """Push the events, pop what is complete at every punctuation; return how many events were released."""
    heap_times, heap_rows = heap[0], heap[1]
    released = 0
    for bound in bounds:
        for row in range(begun, begun + every):
            # A new event has the greatest row: comparing the times is enough to keep ties in order.
            time, at = times[row], size
            while at > 0 and heap_times[(at - 1) // 2] > time:
                above = (at - 1) // 2
                heap_times[at] = heap_times[above]
                heap_rows[at] = heap_rows[above]
                at = above
            heap_times[at] = time
            heap_rows[at] = row
            size += 1
        begun += every
        while size > 0 and heap_times[0] < bound:
            out[0, released] = heap_times[0]
            out[1, released] = heap_rows[0]
            released += 1
            size -= 1
            time, row, at = heap_times[size], heap_rows[size], 0
            while 2 * at + 1 < size:
                below = 2 * at + 1
                if below + 1 < size and (
                    heap_times[below + 1] < heap_times[below]
                    or (heap_times[below + 1] == heap_times[below] and heap_rows[below + 1] < heap_rows[below])
                ):
                    below += 1
                if time < heap_times[below] or (time == heap_times[below] and row < heap_rows[below]):
                    break
                heap_times[at] = heap_times[below]
                heap_rows[at] = heap_rows[below]
                at = below
            heap_times[at] = time
            heap_rows[at] = row
    return released
