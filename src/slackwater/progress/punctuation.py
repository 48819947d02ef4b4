"""A punctuation: the guarantee that a stream is complete before an instant (Spark and Flink: watermark)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from slackwater.progress.instants import FOREVER, Instant


class Ground(StrEnum):
    """Why a punctuation was made; heartbeats and ETS are grounds here, not rival kinds of marker."""

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
    ground: Ground = Ground.SOURCE

    def rules_out(self, instant: Instant) -> bool:
        """Whether an event at this instant may no longer come. An event exactly at the bound may."""
        return instant < self.complete_before


END = Punctuation(FOREVER, Ground.END)
"""The last punctuation of every stream that ends."""
