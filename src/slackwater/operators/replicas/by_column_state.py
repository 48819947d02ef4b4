"""What a merge of replicas by column remembers, and how each of them stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from slackwater.operators.punctuate import PunctuateState
    from slackwater.operators.replicas.multiset import MultisetState
    from slackwater.operators.replicas.replica_names import ReplicaName
    from slackwater.operators.replicas.revised_replicas import RevisedState
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class ByColumnState:
    """What is remembered: the replicas by their ports, and the merge."""

    names: tuple[ReplicaName, ...]
    punctuators: tuple[PunctuateState, ...]
    complete_before: Instant
    """The greatest punctuation of the input."""

    earliest: Instant
    """The least time of a row that came before the first punctuation of any replica."""

    untimed: int
    """How many rows without a time came from replicas that have sent no time yet."""

    alone_from: tuple[Instant, ...]
    """The high water of each replica after its first row since the last one of a replica that leads; else BEGINNING."""

    gaps: tuple[Instant, ...]
    """For each replica that took over, the time before which events may be missing; else BEGINNING."""

    merge: RevisedState | MultisetState

    @property
    def high_water(self) -> Instant:
        """The greatest time of a row of any replica."""
        return max((one.high_water for one in self.punctuators), default=BEGINNING)


class StandingByColumn(NamedTuple):
    """How one replica stands."""

    name: str
    leads: bool
    """Whether its punctuations count."""

    complete_from: Instant
    complete_before: Instant
    """Its last punctuation."""

    takes_over_past: Instant
    """If it does not lead, and comes alone: the time past which it takes over; else BEGINNING."""

    gap_before: Instant
    """If it took over: the time before which events may be missing; else BEGINNING."""

    cannot_send_before: Instant = BEGINNING
    """By bounds: before which time it can send nothing any more; BEGINNING where nobody knows."""
