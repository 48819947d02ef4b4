"""When a live source punctuates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TypeAlias

from slackwater.errors import BadDuration, message
from slackwater.progress.instants import Duration, as_duration, format_duration

Length: TypeAlias = str | int | timedelta
"""A duration as users write it: "5s", a timedelta, or a plain int on streams of sequence numbers."""


class When(Enum):
    """On which occasion a punctuation is made."""

    NEVER = "never"
    PERIODIC = "periodic"
    ON_DEMAND = "on demand"


@dataclass(frozen=True)
class Punctuations:
    """When a live source punctuates, and how far.

    A source stamped by the clock can punctuate at the present. A source that brings its own times can punctuate at
    t + elapsed - delta: the last time it sent, plus the time that has passed since, minus the greatest skew
    between two arrivals (Bai et al., ICDE 2007, section 5).
    """

    when: When
    every: Duration = 0
    skew: Duration | None = None

    @classmethod
    def none(cls) -> Punctuations:
        """Never. Choose it when the source carries its own punctuations, or nobody waits for it.

        >>> str(Punctuations.none())
        'never'
        """
        return cls(When.NEVER)

    @classmethod
    def periodic(cls, every: Length, skew: Length | None = None) -> Punctuations:
        """Once per period, needed or not. Choose it when somebody outside counts on a steady beat.

        >>> str(Punctuations.periodic("10s", skew="2s"))
        'periodic every 10s, skew 2s'
        """
        period = _calendar(every)
        if not period:
            raise BadDuration(message("a period needs a length above zero", {"got": repr(every)}))
        return cls(When.PERIODIC, period, None if skew is None else _calendar(skew))

    @classmethod
    def on_demand(cls, skew: Length | None = None) -> Punctuations:
        """Whenever an operator waits for this source. The right choice for live sources.

        >>> str(Punctuations.on_demand(skew="2s"))
        'on demand, skew 2s'
        """
        return cls(When.ON_DEMAND, 0, None if skew is None else _calendar(skew))

    def __str__(self) -> str:
        every = f" every {format_duration(self.every)}" if self.when is When.PERIODIC else ""
        skew = "" if self.skew is None else f", skew {format_duration(self.skew)}"
        return f"{self.when.value}{every}{skew}"


def _calendar(length: Length) -> Duration:
    return as_duration(length, calendar=True)
