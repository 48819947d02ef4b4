"""What a kind of step answers to plans and runners: the questions on whose answers rewrites and shards depend.

Every node class answers for itself; a new one is a new file, and no list elsewhere names it. Defaults are the safe
answers: they cost speed where they are wrong, never rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TieOrder(Enum):
    """In which order a step sends rows of one time."""

    KEPT = "as they came"
    INTERLEAVED = "those of each input as they came, inputs among each other as it happens"
    CANONICAL = "in one that follows from what they hold, whatever order they came in"
    ARBITRARY = "as it happens"


class PunctuationUse(Enum):
    """What a step does with the punctuations that stand among the rows of a batch."""

    FORWARDED = "each is sent on, in its place"
    LAST_OF_BATCH = "the last one decides what goes out; the others change nothing"
    EACH = "each decides what goes out where it stands"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """The answers of one kind of step.

    >>> Traits(row_by_row=True).tie_order
    <TieOrder.ARBITRARY: 'as it happens'>
    """

    row_by_row: bool = False
    """Whether each row is treated by itself and sent on at once: nothing is remembered, nothing is held."""

    keeps_rows: bool = False
    """Whether every row that comes in goes out at once, and at the same time: none is left out, held or moved."""

    tie_order: TieOrder = TieOrder.ARBITRARY
    punctuations: PunctuationUse = PunctuationUse.EACH

    flushes_at_end: bool = True
    """Whether rows are held that the end of the input lets go, as if all times were complete."""

    keeps_columns: bool = False
    """Whether every column has, row for row, the values that it had in the inputs."""

    copies_rows: bool = False
    """Whether rows are gathered anew, so that columns which nobody reads are better left out before it."""

    map_side: bool = False
    """Whether Spark may do it where rows are read, before they travel to their shards."""

    trusts_idle_sources: bool = True
    """Whether a source that is silent for too long may be taken to be complete as the clock goes on."""

    waits_for_ends: bool = False
    """Whether rows are held until their ends are complete, and not only their starts."""

    needs_order: bool = True
    """Whether rows must come in order of time to it; one that treats each row by itself never needs that."""

    sorts_itself: bool = False
    """Whether rows come out in order of time though they come in none, so that a sort before it is for nothing."""

    compares_rows: bool = True
    """Whether what becomes of a row, but for when it goes on, depends on what other rows hold."""

    may_change: bool = False
    """Whether another step, or none, may stand in its place when a query goes on from its state, where rows are not
    compared behind it: it remembers nothing, and all that it decides of a row is whether and how that goes on."""

    reads_tie_order: bool = False
    """Whether the answer depends on the order in which rows of one time come."""
