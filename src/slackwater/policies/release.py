"""When the rows of several sources may go on into a plan: as soon as a step can use them, or together.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping

NamedGrowth: TypeAlias = "tuple[tuple[str, float], ...]"
"""Rows out for each row in, by the kind of a step or its name."""


class ReleaseLevel(Enum):
    """What decides how far rows go, in the word that explain() uses."""

    OPERATOR = "by operator"
    QUERY = "by query"
    MEMORY = "by memory"


@dataclass(frozen=True, slots=True)
class Release:
    """What rows of a query wait for, beside what their own step needs. What comes out is the same with each.

    >>> str(Release.by_memory(growth={"join": 3}))
    'by memory, growth join 3'
    """

    level: ReleaseLevel
    growth: NamedGrowth | None = None

    @classmethod
    def by_operator(cls) -> Release:
        """A step takes rows as soon as its own inputs have come as far. This is what happens if nothing is chosen.

        Results take the least time once the slowest source has caught up. Until then memory holds what the steps
        before have made, which may be more than they took in.

        >>> str(Release.by_operator())
        'by operator'
        """
        return cls(ReleaseLevel.OPERATOR)

    @classmethod
    def by_query(cls) -> Release:
        """A step that needs order takes rows when *all* sources of the query have come as far.

        Nothing is made before it can be used. All of the work is left for the moment at which the slowest source
        catches up.

        >>> str(Release.by_query())
        'by query'
        """
        return cls(ReleaseLevel.QUERY)

    @classmethod
    def by_memory(cls, *, growth: Mapping[str, float] | None = None) -> Release:
        """By operator, except where a step makes more rows than it takes in: those wait until they can be used.

        - `growth`: rows out for each row in, by the kind of a step ("join") or by its name in explain() ("join#1");
          steps that are not named count as 1, or as what the plan knows of them. Without it rows are counted while
          the query runs, in process. Shards on Spark would count differently, so that growth must be named there.

        >>> str(Release.by_memory())
        'by memory, growth measured'
        """
        if growth is None:
            return cls(ReleaseLevel.MEMORY)
        for step, rows in growth.items():
            number = isinstance(rows, int | float) and not isinstance(rows, bool)
            if not (isinstance(step, str) and number and isfinite(rows) and rows >= 0):
                hint = 'write rows out for each row in, by step: growth={"join": 3.0}'
                raise PlanError(message("growth= takes numbers of rows, from zero up", {repr(step): repr(rows)}, hint))
        if not growth:
            hint = "name the steps that grow, or leave growth= out to have them measured"
            raise PlanError(message("growth= names no step", {}, hint))
        return cls(ReleaseLevel.MEMORY, tuple((step, float(rows)) for step, rows in growth.items()))

    @property
    def measured(self) -> bool:
        """Whether growth is counted while the query runs."""
        return self.level is ReleaseLevel.MEMORY and self.growth is None

    def __str__(self) -> str:
        if self.level is not ReleaseLevel.MEMORY:
            return self.level.value
        shown = "measured" if self.growth is None else ", ".join(f"{step} {rows:g}" for step, rows in self.growth)
        return f"{self.level.value}, growth {shown}"
