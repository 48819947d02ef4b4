"""Which of several rows of the same event is kept."""

from __future__ import annotations

from enum import Enum

from slackwater.errors import PlanError, message


class Keep(Enum):
    """The first of them, or the last."""

    FIRST = "first"
    """The earliest row. It goes out as soon as its time is complete."""

    LAST = "last"
    """The latest row. It goes out when no later one can come."""

    @classmethod
    def of(cls, written: object) -> Keep:
        """Read what a user wrote.

        >>> Keep.of("last")
        <Keep.LAST: 'last'>
        """
        found = next((one for one in cls if written in {one, one.value}), None)
        if found is None:
            facts, hint = {"got": repr(written)}, 'write keep="first" or keep="last"'
            raise PlanError(message("deduplicate keeps the first row or the last", facts, hint))
        return found
