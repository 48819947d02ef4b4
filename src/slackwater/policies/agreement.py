"""How far replicas must agree before the merged stream tells an event, and which of their revisions it tells.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.progress.instants import FOREVER, as_duration

if TYPE_CHECKING:
    from slackwater.policies.punctuations import Length


class Tell(Enum):
    """When an event goes out for the first time, at the latest when it is half frozen (FROZEN: frozen)."""

    BY_QUORUM = "when enough replicas tell it"
    LEADING = "when the replica tells it that has promised most"
    NEWEST = "when the replica tells it that has come to the latest event"
    FULLEST = "when the replica tells it that tells most events"
    HALF_FROZEN = "when some replica has promised that there is such an event"
    FROZEN = "when some replica has promised that it will not change"


class Revise(Enum):
    """Which revisions go out before they freeze."""

    WHEN_FROZEN = "none"
    ALWAYS = "all"
    LEADING = "those of the replica that has promised most"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the user chose.

    >>> str(Agreement.quorum_of(0.5).revising(Revise.ALWAYS))
    'told when enough replicas tell it (half of them), revisions: all'
    """

    tell: Tell = Tell.BY_QUORUM
    quorum: float = 0.0
    """The fraction of the replicas that must have told an event; at least one of them."""

    revise: Revise = Revise.WHEN_FROZEN
    lag: Length = 0
    """How far the punctuations of the output stay behind those of the replicas."""

    def __post_init__(self) -> None:
        if not isinstance(self.tell, Tell) or not isinstance(self.revise, Revise):
            facts, hint = {"tell": self.tell, "revise": self.revise}, "choose one of Tell, and one of Revise"
            raise PlanError(message("agreement= takes an Agreement", facts, hint))
        if isinstance(self.quorum, bool) or not isinstance(self.quorum, int | float) or not 0 <= self.quorum <= 1:
            hint = "0.5 waits for half of the replicas, 1 for all"
            raise PlanError(message("a quorum is a fraction of the replicas", {"got": self.quorum}, hint))
        if isinstance(self.lag, bool) or not isinstance(self.lag, int | str | timedelta):
            hint = 'write "5s", a timedelta, or a plain int where times are sequence numbers'
            raise PlanError(message("lag= is not a duration", {"lag": repr(self.lag)}, hint))
        if isinstance(self.lag, int) and not 0 <= self.lag <= FOREVER:
            raise PlanError(message("lag= cannot be negative", {"lag": self.lag}))

    def resolved(self, *, calendar: bool) -> Agreement:
        """The same in the units of a stream; refuse a lag of the other kind of time.

        >>> Agreement.first().lagging("1s").resolved(calendar=True).lag
        1000000
        """
        return self if self.lag == 0 else replace(self, lag=as_duration(self.lag, calendar=calendar))

    @classmethod
    def first(cls) -> Agreement:
        """Tell an event as soon as one replica does: the earliest answers. The right choice when in doubt."""
        return cls()

    @classmethod
    def quorum_of(cls, fraction: float) -> Agreement:
        """Tell an event when this fraction of the replicas has told it: fewer events that are taken back later."""
        return cls(quorum=fraction)

    @classmethod
    def leading(cls) -> Agreement:
        """Tell what the replica tells that has promised most."""
        return cls(Tell.LEADING)

    @classmethod
    def newest(cls) -> Agreement:
        """Tell what the replica tells that has come to the latest event."""
        return cls(Tell.NEWEST)

    @classmethod
    def fullest(cls) -> Agreement:
        """Tell what the replica tells that tells most events."""
        return cls(Tell.FULLEST)

    @classmethod
    def half_frozen(cls) -> Agreement:
        """Tell an event when a replica has promised that there is one: no event is ever taken back."""
        return cls(Tell.HALF_FROZEN)

    @classmethod
    def frozen(cls) -> Agreement:
        """Tell an event when a replica has promised that it will not change: there are no revisions at all."""
        return cls(Tell.FROZEN)

    def revising(self, revise: Revise) -> Agreement:
        """The same, with other revisions told before they freeze."""
        return replace(self, revise=revise)

    def lagging(self, lag: Length) -> Agreement:
        """The same, with punctuations that stay behind by so much: less to be corrected, later promises."""
        return replace(self, lag=lag)

    def __str__(self) -> str:
        half = 0.5
        enough = {0.0: "one of them", half: "half of them", 1.0: "all of them"}.get(self.quorum, f"{self.quorum:.0%}")
        quorum = f" ({enough})" if self.tell is Tell.BY_QUORUM else ""
        return f"told {self.tell.value}{quorum}, revisions: {self.revise.value}"
