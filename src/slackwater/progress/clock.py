"""Clocks: the only readers of wall time. Everything else takes `now` as an argument."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from slackwater.progress.instants import Duration, Instant


class Clock(Protocol):
    """Gives the time, in microseconds UTC. It never goes back."""

    def now(self) -> Instant:
        """Return the present instant, not before any returned earlier."""
        ...


class SystemClock:
    """The machine's time of day, held still while the machine sets its clock back."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: Instant = 0

    def now(self) -> Instant:
        """Return microseconds since 1970, never less than before.

        >>> clock = SystemClock()
        >>> clock.now() <= clock.now()
        True
        """
        instant = time.time_ns() // 1_000
        self._latest = max(self._latest, instant)
        return self._latest


class Deadline:
    """So many seconds from now, by a clock that nobody sets; without a number it never comes.

    >>> Deadline(0).has_come, Deadline(None).has_come, Deadline(None).seconds_left()
    (True, False, None)
    """

    __slots__ = ("_at",)

    def __init__(self, seconds: float | None) -> None:
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def has_come(self) -> bool:
        """Whether so many seconds have gone by."""
        return self._at is not None and time.monotonic() >= self._at

    def seconds_left(self) -> float | None:
        """How long it is until then; None for ever."""
        return None if self._at is None else max(self._at - time.monotonic(), 0.0)


class ManualClock:
    """A clock that moves only when it is moved; for tests, replays and notebooks.

    >>> clock = ManualClock(100)
    >>> clock.advance(5)
    >>> clock.now()
    105
    """

    __slots__ = ("_now",)

    def __init__(self, start: Instant = 0) -> None:
        self._now = start

    def now(self) -> Instant:
        """Return the instant last set.

        >>> ManualClock(5).now()
        5
        """
        return self._now

    def advance(self, by: Duration) -> None:
        """Move forward; a clock never goes back.

        >>> clock = ManualClock(5)
        >>> clock.advance(2)
        >>> clock.now()
        7
        """
        if by < 0:
            raise ValueError(f"a clock never goes back: cannot advance by {by}")
        self._now += by
