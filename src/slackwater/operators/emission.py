"""What an operator hands back from one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch


@dataclass(frozen=True, slots=True)
class Emission:
    """The batches that one call released, in order; punctuations stand inside them."""

    batches: tuple[EventBatch, ...] = ()

    @classmethod
    def of(cls, *batches: EventBatch) -> Emission:
        """Make an emission of the batches that hold at least one element."""
        return cls(tuple(batch for batch in batches if len(batch)))


NOTHING = Emission()
"""The emission of a call that released nothing."""
