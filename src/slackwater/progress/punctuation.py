"""A promise that a stream is complete before an instant."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slackwater.progress.instants import FOREVER, Instant


class Origin(StrEnum):
    """Where a punctuation came from; heartbeats and ETS are origins here, not rival kinds of marker."""

    SOURCE = "source"
    HEARTBEAT = "heartbeat"
    DEMAND = "demand"
    MERGE = "merge"
    END = "end"


@dataclass(frozen=True, slots=True)
class Punctuation:
    """No later element of the stream concerns time before `complete_before`.

    >>> Punctuation(10).rules_out(9), Punctuation(10).rules_out(10)
    (True, False)
    """

    complete_before: Instant
    origin: Origin = Origin.SOURCE

    def rules_out(self, instant: Instant) -> bool:
        """Whether an event at this instant may no longer come. An event exactly at the bound may."""
        return instant < self.complete_before


END = Punctuation(FOREVER, Origin.END)
"""The last punctuation of every stream that ends."""
