"""Instants as users write them: a datetime on streams of calendar time, a plain int on streams of sequence numbers."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from slackwater.events.schema import TimeColumn
    from slackwater.progress.instants import Instant

Moment: TypeAlias = datetime | date | int
"""An instant as users write it; BEGINNING and FOREVER on every stream."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_instant(moment: Moment, column: TimeColumn, what: str) -> Instant:
    """Turn what a user wrote into an instant of a stream's time; `what` names the argument in messages.

    A datetime without a zone is taken to be in UTC, as columns without a zone are. A bare number on calendar time would
    silently mean microseconds, so it is refused.

    >>> import pyarrow as pa
    >>> from slackwater.events.schema import TimeColumn
    >>> as_instant(datetime(1970, 1, 1, 0, 0, 2), TimeColumn("at", pa.timestamp("s")), "complete_from")
    2000000
    """
    plain: Any = moment
    if isinstance(plain, Integral) and not isinstance(plain, bool):
        number = int(plain)
        if (not column.calendar or number in {BEGINNING, FOREVER}) and BEGINNING <= number <= FOREVER:
            return number
    elif column.calendar and isinstance(plain, date):
        if not isinstance(plain, datetime):
            plain = datetime(plain.year, plain.month, plain.day, tzinfo=UTC)
        aware = plain if plain.tzinfo is not None else plain.replace(tzinfo=UTC)
        return int((aware - _EPOCH) // timedelta(microseconds=1))
    kind = "calendar time" if column.calendar else "sequence numbers"
    hint = "write a datetime" if column.calendar else "write a plain int"
    facts = {"got": repr(moment), "time column": f"{column.name} ({column.type})"}
    raise PlanError(message(f"{what} does not fit a stream of {kind}", facts, hint))
