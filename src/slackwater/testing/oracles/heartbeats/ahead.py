"""Which rows are too far ahead where no clock says how far time has come: each is compared with all that count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Time


def ahead_of_rows(times: Sequence[Time], allowed: Time) -> list[int]:
    """The numbers of the rows that are further past the newest row before them than allowed; these do not count.

    >>> ahead_of_rows([10, 90, 14, 19, 25], allowed=5)
    [1, 4]
    """
    counted: list[Time] = []
    ahead: list[int] = []
    for number, time in enumerate(times):
        if counted and time - max(counted) > allowed:
            ahead.append(number)
        else:
            counted.append(time)
    return ahead
