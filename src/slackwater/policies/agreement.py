"""How far replicas must agree before the merged stream emits an event, and which of their revisions it emits.

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


class Emit(Enum):
    """When an event goes out for the first time, at the latest when it is half frozen (FROZEN: frozen)."""

    BY_QUORUM = "when enough replicas have it"
    LEADING = "when the replica has it that is complete furthest"
    NEWEST = "when the replica has it that has come to the latest event"
    FULLEST = "when the replica has it that has most events"
    HALF_FROZEN = "when a punctuation of some replica guarantees that there is such an event"
    FROZEN = "when a punctuation of some replica guarantees that it will not change"


class Revise(Enum):
    """Which revisions go out before they freeze."""

    WHEN_FROZEN = "none"
    ALWAYS = "all"
    LEADING = "those of the replica that is complete furthest"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What the user chose.

    >>> str(Agreement.quorum_of(0.5).revising(Revise.ALWAYS))
    'emitted when enough replicas have it (half of them), revisions: all'
    """

    emit: Emit = Emit.BY_QUORUM
    quorum: float = 0.0
    """The fraction of the replicas that must have an event; at least one of them."""

    revise: Revise = Revise.WHEN_FROZEN
    lag: Length = 0
    """How far the punctuations of the output stay behind those of the replicas."""

    def __post_init__(self) -> None:
        if not isinstance(self.emit, Emit) or not isinstance(self.revise, Revise):
            facts = {"emit": self.emit, "revise": self.revise}
            hint = "choose Agreement.first(), quorum_of(0.5), leading(), newest(), fullest(), half_frozen() or frozen()"
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
        """Emit an event as soon as one replica has it: the earliest answers. The right choice if unsure.

        >>> print(Agreement.first())
        emitted when enough replicas have it (one of them), revisions: none
        """
        return cls()

    @classmethod
    def quorum_of(cls, fraction: float) -> Agreement:
        """Emit an event when this fraction of the replicas has it: fewer events that are taken back later.

        >>> print(Agreement.quorum_of(0.5))
        emitted when enough replicas have it (half of them), revisions: none
        """
        return cls(quorum=fraction)

    @classmethod
    def leading(cls) -> Agreement:
        """Emit what the replica has that is complete furthest by its punctuations.

        >>> print(Agreement.leading())
        emitted when the replica has it that is complete furthest, revisions: none
        """
        return cls(Emit.LEADING)

    @classmethod
    def newest(cls) -> Agreement:
        """Emit what the replica has that has come to the latest event.

        >>> print(Agreement.newest())
        emitted when the replica has it that has come to the latest event, revisions: none
        """
        return cls(Emit.NEWEST)

    @classmethod
    def fullest(cls) -> Agreement:
        """Emit what the replica has that has most events.

        >>> print(Agreement.fullest())
        emitted when the replica has it that has most events, revisions: none
        """
        return cls(Emit.FULLEST)

    @classmethod
    def half_frozen(cls) -> Agreement:
        """Emit an event when a replica guarantees by a punctuation that there is one: no event is ever taken back.

        >>> print(Agreement.half_frozen())
        emitted when a punctuation of some replica guarantees that there is such an event, revisions: none
        """
        return cls(Emit.HALF_FROZEN)

    @classmethod
    def frozen(cls) -> Agreement:
        """Emit an event when a replica guarantees by a punctuation that it will not change: no revisions at all.

        >>> print(Agreement.frozen())
        emitted when a punctuation of some replica guarantees that it will not change, revisions: none
        """
        return cls(Emit.FROZEN)

    def revising(self, revise: Revise) -> Agreement:
        """The same, with other revisions emitted before they freeze.

        >>> print(Agreement.first().revising(Revise.ALWAYS))
        emitted when enough replicas have it (one of them), revisions: all
        """
        return replace(self, revise=revise)

    def lagging(self, lag: Length) -> Agreement:
        """The same, with punctuations that stay behind by so much: less to be corrected, complete later.

        >>> Agreement.first().lagging("5s").lag
        '5s'
        """
        return replace(self, lag=lag)

    def __str__(self) -> str:
        half = 0.5
        enough = {0.0: "one of them", half: "half of them", 1.0: "all of them"}.get(self.quorum, f"{self.quorum:.0%}")
        quorum = f" ({enough})" if self.emit is Emit.BY_QUORUM else ""
        return f"emitted {self.emit.value}{quorum}, revisions: {self.revise.value}"
