"""The kinds of element a physical stream is made of."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What an element does to the temporal table (LMerge papers: insert, adjust, stable)."""

    INSERT = 0
    """Adds the event (payload, start, end)."""

    ADJUST = 1
    """Changes the event (payload, start, prior_end) to (payload, start, end); end == start removes it."""

    PUNCTUATE = 2
    """States that no later element concerns time before its instant."""
