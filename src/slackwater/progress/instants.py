"""Application time: instants and durations as plain int64, and the strings people write for them.

An instant is microseconds since 1970 in UTC, or a plain sequence number; a duration counts the same units.
Strings such as "1h30m" are read here, at the border, and nowhere else.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from slackwater.errors import BadDuration, message

Instant: TypeAlias = int
"""A point of application time: int64 microseconds UTC, or a sequence number."""

Duration: TypeAlias = int
"""A length of application time, in the units of Instant."""

BEGINNING: Instant = -(2**63)
"""Before every event: the punctuation of a stream of which nothing is complete yet."""

UNTIMED: Instant = BEGINNING
"""The start of a row that came without a time, on streams that let such rows in.

No real time can be it there: what lies before every event is the time of none, so it never raises a high water, and
whoever reads such a stream refuses a time that would have this number.
"""

FOREVER: Instant = 2**63 - 1
"""After every event: the end of an interval that is still open, and the punctuation of an ended stream."""

MICROSECONDS: dict[str, Duration] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
"""The units a duration may be written in. Months and years have no fixed length, so they are absent."""

_READABLE: tuple[tuple[Duration, Duration], ...] = (
    *(
        (MICROSECONDS[unit], MICROSECONDS[smaller])
        for unit, smaller in (("w", "d"), ("d", "h"), ("h", "m"), ("m", "s"))
    ),
    (1_000_000, 10_000),
    (1_000, 10),
)
"""From which length on lengths are written in steps of what."""

_PART = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1_024)
def parse_duration(text: str) -> Duration:
    """Read a duration such as "5s", "1h30m" or "0.5ms"; exact to the microsecond.

    >>> parse_duration("1h30m")
    5400000000
    """
    compact = text.replace(" ", "")
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise _unreadable(text)
    total = sum(Fraction(number) * MICROSECONDS[unit] for number, unit in parts)
    if total.denominator != 1 or total > FOREVER:
        raise _unreadable(text)
    return int(total)


def _unreadable(text: str) -> BadDuration:
    units = ", ".join(MICROSECONDS)
    return BadDuration(
        message(
            "this is not a duration",
            {"got": repr(text)},
            f'write whole microseconds as numbers with units ({units}), for example "5s" or "1h30m"',
        )
    )


def as_duration(length: str | int | timedelta, *, calendar: bool) -> Duration:
    """Turn what a user wrote into a duration for calendar time or for sequence numbers.

    Calendar time takes "5s" or a timedelta; sequence numbers take a plain int. The two are never mixed, because
    a bare 5 on a calendar stream would silently mean five microseconds.
    """
    plain = isinstance(length, int) and not isinstance(length, bool)
    if plain == calendar or not (plain or isinstance(length, str | timedelta)):
        kind = "calendar time" if calendar else "sequence numbers"
        hint = 'write "5s" or a timedelta' if calendar else "write a plain int"
        raise BadDuration(message(f"this duration does not fit a stream of {kind}", {"got": repr(length)}, hint))
    if isinstance(length, str):
        return parse_duration(length)
    units = length // timedelta(microseconds=1) if isinstance(length, timedelta) else length
    if not 0 <= units <= FOREVER:
        raise BadDuration(message("a duration must not be negative and must fit int64", {"got": repr(length)}))
    return units


def format_duration(length: Duration) -> str:
    """Write a duration in the largest units that fit.

    >>> format_duration(5_400_000_000)
    '1h30m'
    """
    if length == 0:
        return "0s"
    parts = []
    for unit, size in reversed(MICROSECONDS.items()):
        count, length = divmod(length, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts)


def rounded_up(length: Duration) -> Duration:
    """A length of calendar time in two units at most, which is enough to read; never a shorter one.

    >>> [format_duration(rounded_up(length)) for length in (143_215_871, 90_061_000_000, 4_151_238, 7)]
    ['2m24s', '1d2h', '4s160ms', '7us']
    """
    return next((-(-length // step) * step for size, step in _READABLE if length >= size), length)


def format_instant(instant: Instant, *, calendar: bool) -> str:
    """Write an instant for people: ISO 8601 for calendar time, the number itself for sequence numbers.

    >>> format_instant(0, calendar=True)
    '1970-01-01T00:00:00.000000Z'
    """
    if instant in {BEGINNING, FOREVER}:
        return "beginning" if instant == BEGINNING else "forever"
    if not calendar:
        return str(instant)
    try:
        moment = _EPOCH + timedelta(microseconds=instant)
    except OverflowError:
        return f"{instant}us"
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
