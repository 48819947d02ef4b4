"""The parts of bounds that are learnt while a query runs: the greatest skew, one that adapts, one that a share keeps.

Each source is compared with itself, with the furthest of all sources, and with the clock where that is asked for; or,
as in the paper, with every source of a list. Bounds are about rows as they arrive: latency is part of them.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.policies.bound import is_zero, shown
from slackwater.policies.bound_parts import Part
from slackwater.policies.bound_rules import Pair, Rule, Rules
from slackwater.policies.cadence import CadenceUnit
from slackwater.policies.estimation import Estimation
from slackwater.policies.per_source import PerSource, SourceName

if TYPE_CHECKING:
    from slackwater.policies.bound import Units
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration

_EVERYBODY: PerSource[Duration | None] = PerSource(0)


@dataclass(frozen=True)
class Learnt(Part):
    """What is compared with what."""

    after: tuple[Length, ...]
    """After how long rows are compared with what came before, by the clock of arrivals."""

    def compared(self, units: Units, pairs: tuple[SourceName, ...] = ()) -> tuple[Rule, ...]:
        """Rules whose deltas are to be learnt."""
        everybody = [(f"any source, compared with {name}", PerSource(None, ((name, 0),))) for name in pairs]
        senders = everybody or [("any source, compared with the furthest of all", _EVERYBODY)]
        made = [] if pairs else [_rule("each source, compared with itself", _EVERYBODY, 0, own=True)]
        for after in sorted({units.clock(length) for length in self.after}):
            made += [_rule(words, who, after) for words, who in senders]
        return tuple(made)


@dataclass(frozen=True)
class Skew(Learnt):
    """The greatest skew so far, or one that adapts (sections 6.1 and 6.2)."""

    pairs: tuple[SourceName, ...]
    clock: bool
    window: Every | None = None
    """None for the greatest of all."""

    alpha: float = 1.0
    adapts: bool = False
    start: Length = 0

    def rules(self, units: Units) -> Rules:
        """What is to be learnt."""
        if self.clock:
            require_comparable(units)
        chosen = self.window
        by_time = chosen is not None and chosen.unit is CadenceUnit.TIME
        window = inf if chosen is None else units.clock(chosen.length) if by_time else float(int(str(chosen.length)))
        start = 0 if is_zero(self.start) else units.time(self.start) + 1
        learnt = Estimation(str(self), self.clock, None, window, by_time, self.alpha, self.adapts, start)
        return Rules(self.compared(units, self.pairs), estimation=learnt)

    @property
    def names(self) -> tuple[SourceName, ...]:
        """The sources that all are compared with, one by one."""
        return self.pairs

    def __str__(self) -> str:
        if self.window is None:
            return "estimated by the greatest skew so far"
        rows = " rows" if self.window.unit is CadenceUnit.ROWS else ""
        return f"estimated by the skew of the last {shown(self.window.length)}{rows} or so"


@dataclass(frozen=True)
class Share(Learnt):
    """What all rows keep but a share."""

    loss: float

    def rules(self, units: Units) -> Rules:
        """What is to be learnt; the clock counts where times can be compared with it."""
        clock = units.calendar == units.clock_calendar
        return Rules(self.compared(units), estimation=Estimation(str(self), clock, self.loss))

    def __str__(self) -> str:
        return f"estimated, with at most {100 * self.loss:g} % of the rows late"


def require_comparable(units: Units) -> None:
    """Refuse the clock as a source where times are of another kind than its instants."""
    if units.calendar != units.clock_calendar:
        hint = "use a timestamp column for time=, or numbers for arrived=, too; or leave clock= out"
        raise PlanError(message("clock= compares times with the clock, and these are of another kind", {}, hint))


def _rule(words: str, senders: PerSource[Duration | None], after: Duration, *, own: bool = False) -> Rule:
    return Rule(words, senders, PerSource(Pair(0, after)), own=own, estimated=True)
