"""Finds the rows that are too far past all that came before them: where no clock says how far time has come.

A row that is too far ahead does not count for those that follow it.

Cost: one pass over the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, LEAST, plus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]


@kernel("int64(Array(int64, 1, 'C', readonly=True), int64, int64, int64[::1])")
def latest_allowed(times: Table, newest: int, allowed: int, limits: Table) -> int:
    """Fill in the latest time that each row may have, after rows of which one is the newest; return how many are past.

    Before any row has come, for which `newest` is LEAST, any time is fine. A row whose time is LEAST has none.

    >>> import numpy as np
    >>> limits = np.empty(4, dtype=np.int64)
    >>> latest_allowed(np.array([10, 90, 14, 19]), LEAST, 5, limits), limits[1:].tolist()
    (1, [15, 15, 19])
    """
    ahead = 0
    for row in range(len(times)):
        limits[row] = GREATEST if newest == LEAST else plus(newest, allowed)
        if times[row] > limits[row]:
            ahead += 1
        else:
            newest = max(newest, times[row])
    return ahead
