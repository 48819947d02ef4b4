"""What an operator hands back from one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.batch import EventBatch

OutputName: TypeAlias = str
"""The name of an output beside the main one."""

LATE: Final = "late"
"""The output of rows that came after a punctuation had passed their time."""

LEFT_OUT: Final = "left out"
"""The output of rows that a merge of replicas left out."""

DIVERTED: Final = (LATE, LEFT_OUT)
"""The outputs of rows that did not go on."""


_BAND: Final = "band "


def band_output(band: int) -> OutputName:
    """The output of a patience band; band 0 is the main output of its step."""
    return f"{_BAND}{band}"


def band_of(output: OutputName | None) -> int:
    """The patience band of an output; 0 of the main one, which has no name, and of others that are no bands.

    >>> band_of(band_output(2)), band_of(None), band_of(LATE)
    (2, 0, 0)
    """
    return int(output.removeprefix(_BAND)) if output is not None and output.startswith(_BAND) else 0


@dataclass(frozen=True, slots=True)
class Emission:
    """The batches that one call released, in order; punctuations stand inside them."""

    batches: tuple[EventBatch, ...] = ()
    """What goes to the main output."""

    side: tuple[tuple[OutputName, EventBatch], ...] = ()
    """What goes to other outputs."""

    @classmethod
    def of(cls, *batches: EventBatch) -> Emission:
        """Make an emission of the batches that hold at least one element."""
        return cls(tuple(batch for batch in batches if len(batch)))

    @classmethod
    def together(cls, emissions: Iterable[Emission]) -> Emission:
        """What several calls released, one after the other."""
        released = list(emissions)
        return cls(
            tuple(batch for one in released for batch in one.batches if len(batch)),
            tuple(output for one in released for output in one.side),
        )


NOTHING = Emission()
"""The emission of a call that released nothing."""
