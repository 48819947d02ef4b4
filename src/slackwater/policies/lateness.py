"""How long rows are waited for: patiences, how often they are applied, and what becomes of rows that come later."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from slackwater.errors import BadDuration, PlanError, message
from slackwater.policies.cadence import Every, default_cadence
from slackwater.policies.late import Late, not_a_policy
from slackwater.progress.instants import FOREVER, Duration, as_duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.policies.punctuations import Length


@dataclass(frozen=True)
class Lateness:
    """One patience, or several that rise and make as many bands, in the units of a stream."""

    patiences: tuple[Duration, ...]
    cadence: Every
    late: Late

    @classmethod
    def chosen(cls, patiences: Sequence[Length], every: Every | None, late: Late, *, calendar: bool) -> Lateness:
        """Read what a user wrote; without a cadence it is ten times in the shortest patience.

        >>> print(Lateness.chosen(["5s"], None, Late.drop(), calendar=True).shown(calendar=True))
        patience=5s every 500ms, late rows dropped
        """
        waits = tuple(as_duration(patience, calendar=calendar) for patience in patiences)
        return cls(waits, default_cadence(waits[0], calendar=calendar) if every is None else every, late)

    @classmethod
    def by_punctuations(cls, late: Late) -> Lateness:
        """No patience: a time is complete when the input says so, and a row behind that is late.

        >>> print(Lateness.by_punctuations(Late.drop()).shown(calendar=True))
        by the punctuations of its input, late rows dropped
        """
        return cls((FOREVER,), replace(Every.rows(FOREVER), by_default=True), late)

    @property
    def has_patience(self) -> bool:
        """Whether rows are waited for by the newest time, and not only by punctuations."""
        return self.patiences != (FOREVER,)

    def require_valid(self, step: str, *, calendar: bool) -> None:
        """Refuse patiences that do not rise, and choices that are none."""
        rising = all(a < b for a, b in pairwise(self.patiences))
        if not (self.patiences and rising and self.patiences[0] >= 0 and self.patiences[-1] <= FOREVER):
            got = ", ".join(map(str, self.patiences)) or "none"
            hint = "name each patience once, the shortest first"
            raise BadDuration(message(f"{step} needs patiences in rising order, none negative", {"got": got}, hint))
        if not isinstance(self.cadence, Every):
            hint = "choose Every.rows(n), Every.time(length) or Every.batch()"
            raise PlanError(message("every= takes an Every cadence", {"got": repr(self.cadence)}, hint))
        if not isinstance(self.late, Late):
            raise not_a_policy(self.late)
        self.cadence.resolved(calendar=calendar)

    def first(self, bands: int) -> Lateness:
        """The same with fewer bands: rows of the others are late.

        >>> Lateness((1, 5, 9), Every.batch(), Late.drop()).first(2).patiences
        (1, 5)
        """
        return replace(self, patiences=self.patiences[:bands])

    def shown(self, *, calendar: bool) -> str:
        """The patiences, how often they are applied, and what becomes of late rows."""
        if not self.has_patience:
            return f"by the punctuations of its input, late rows {self.late}"
        patiences = ", ".join(format_duration(one) if calendar else str(one) for one in self.patiences)
        return f"patience={patiences} {self.cadence}, late rows {self.late}"


def refuse_without_patience(every: Every | None, late: Late, call: str) -> None:
    """Refuse choices that mean nothing where no patience was given."""
    if every is not None or late != Late.divert():
        facts = {"every": every, "late": late}
        raise PlanError(message("every= and late= need a patience", facts, call))
