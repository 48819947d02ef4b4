"""Measures what recorded arrivals show about bounds: how far each row was behind, and after which silence it came.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 6.1, by the definition: a
row is compared with those that arrived before it, not with those of the same instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_READ = "Array(int64, 1, 'C', readonly=True)"
_OUT = "int64[::1]"


@kernel(f"void({_READ}, {_READ}, {_READ}, {_OUT}, {_OUT})")
def skew_within_source(arrived: Column, codes: Column, times: Column, high_water: Column, found: Column) -> None:
    """How far each row is behind the greatest time that its source sent before; LEAST for its first rows.

    Rows stand in order of arrival. `high_water` has a place for each source, LEAST at the beginning.
    """
    begin = 0
    while begin < len(times):
        end = begin
        while end < len(times) and arrived[end] == arrived[begin]:
            before = high_water[codes[end]]
            found[end] = LEAST if before == LEAST else before - times[end]
            end += 1
        for row in range(begin, end):
            high_water[codes[row]] = max(high_water[codes[row]], times[row])
        begin = end


@kernel(f"void({_READ}, {_READ}, {_OUT}, {_OUT})")
def longest_silence(arrived: Column, first: Column, stack: Column, found: Column) -> None:
    """The longest silence of all sources between a row of `first` and each row; 0 where there is none between.

    `first` is the place of the first row that is not older. Cost: O(log n) for each row; the stack has the silences
    that are longer than all after them.
    """
    height = 0
    for row in range(len(arrived)):
        if row:
            gap = arrived[row] - arrived[row - 1]
            while height and arrived[stack[height - 1] + 1] - arrived[stack[height - 1]] <= gap:
                height -= 1
            stack[height] = row - 1
            height += 1
        low, high = 0, height
        while low < high:
            middle = (low + high) // 2
            if stack[middle] < first[row]:
                low = middle + 1
            else:
                high = middle
        found[row] = 0 if low == height else arrived[stack[low] + 1] - arrived[stack[low]]
