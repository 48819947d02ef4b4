"""What goes wrong while the feed is live, and when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from flight_list import BEGIN

AHEAD_BY: Final = timedelta(days=2)
"""How far the clock of green is wrong, while it is."""


@dataclass(frozen=True)
class Mishaps:
    """The instants, by the clock of the feed."""

    sampled: datetime
    """Up to here all is well; what has come so far is the sample that is profiled."""

    quiet: datetime
    """Blue loses its line, and keeps what it hears."""

    back: datetime
    """It has its line again, and sends all of that."""

    wrong: datetime
    """The clock of green jumps ahead."""

    right: datetime
    """It is set right."""

    killed: datetime
    """The query is killed."""

    dead: datetime
    """Blue is killed, for good."""

    end: datetime

    @classmethod
    def in_days(cls, days: int) -> Mishaps:
        """Spread over so many days.

        >>> str(Mishaps.in_days(30).killed)
        '2013-01-19 00:00:00+00:00'
        """

        def at(share: float) -> datetime:
            return BEGIN + timedelta(hours=round(24 * days * share))

        quiet, wrong = at(0.28), at(0.5)
        long, some = timedelta(hours=min(20, 5 * days)), timedelta(hours=min(6, 2 * days))
        return cls(at(0.2), quiet, quiet + long, wrong, wrong + some, at(0.6), at(0.75), at(1))
