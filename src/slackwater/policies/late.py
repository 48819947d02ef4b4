"""What becomes of rows that come after a punctuation had passed their time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from slackwater.errors import PlanError, message


class LateAction(Enum):
    """What becomes of a late row, in the word that explain() uses."""

    DIVERTED = "diverted"
    DROPPED = "dropped"
    ADJUSTED = "adjusted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Late:
    """What the user chose for late rows.

    >>> str(Late.divert())
    'diverted'
    """

    action: LateAction

    def __post_init__(self) -> None:
        if not isinstance(self.action, LateAction):
            raise not_a_policy(self.action)

    @classmethod
    def divert(cls) -> Late:
        """Send them to the late output, with the bound they missed and by how much. The right choice if unsure.

        The late output has the columns of the stream, then `late_bound` and `late_by`. A null `late_by` means that the
        row had no time: see `untimed_is_late` of stream().

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1}, {"at": 20}, {"at": 3}], time="at")
        >>> rows.sort(patience=5, late=sw.Late.divert()).run().late.to_pylist()
        [{'at': 3, 'late_bound': 15, 'late_by': 12}]
        """
        return cls(LateAction.DIVERTED)

    @classmethod
    def drop(cls) -> Late:
        """Leave them out; they are only counted. Choose it when nobody will ever look at them.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1}, {"at": 20}, {"at": 3}], time="at")
        >>> result = rows.sort(patience=5, late=sw.Late.drop()).run()
        >>> result.table["at"].to_pylist(), result.late
        ([1, 20], {})
        """
        return cls(LateAction.DROPPED)

    @classmethod
    def adjust(cls) -> Late:
        """Move their start to the bound they missed. Choose it when a row must count, and when matters less.

        An event that lasts, and has ended by then, would be left with no time at all: it is dropped and counted. So is
        a row without a time that comes before there is a bound to move it to.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1}, {"at": 20}, {"at": 3}], time="at")
        >>> rows.sort(patience=5, late=sw.Late.adjust()).run().table["at"].to_pylist()
        [1, 15, 20]
        """
        return cls(LateAction.ADJUSTED)

    @classmethod
    def raise_error(cls) -> Late:
        """Stop the query at the first one, with LateEvent. Choose it when the source guarantees that there is none.

        A row that is late because it has no time stops it with BadTime.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1}, {"at": 20}, {"at": 3}], time="at")
        >>> try:
        ...     rows.sort(patience=5, late=sw.Late.raise_error()).run()
        ... except sw.errors.LateEvent as late:
        ...     print("stopped by", type(late).__name__)
        stopped by LateEvent
        """
        return cls(LateAction.REFUSED)

    def __str__(self) -> str:
        return self.action.value


def not_a_policy(got: object) -> PlanError:
    """The error for what is no choice for late rows."""
    hint = "choose Late.divert(), Late.drop(), Late.adjust() or Late.raise_error()"
    return PlanError(message("late= takes a Late policy", {"got": repr(got)}, hint))
