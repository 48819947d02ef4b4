"""Which element of a stream breaks the rule that start and payload are a key, found with a plain dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.events.elements import Adjust, Insert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant
    from slackwater.temporal.table import Key


def first_broken_key(elements: Sequence[Element]) -> int | None:
    """The place of the first insert of an event that is there, or adjust of one that has another end; None if none."""
    ends: dict[Key, Instant] = {}
    for place, element in enumerate(elements):
        match element:
            case Insert(payload, start, end):
                if (payload, start) in ends:
                    return place
                ends[payload, start] = end
            case Adjust(payload, start, prior_end, end):
                if ends.get((payload, start), prior_end) != prior_end:
                    return place
                ends[payload, start] = end
                if end == start:
                    del ends[payload, start]
    return None
