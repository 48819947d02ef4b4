"""How one replica of a merge stands, for people: whether its punctuations count, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.operators.replicas.left_out import NONE_LEFT_OUT, LeftOut
from slackwater.operators.replicas.open_events import NO_OPEN_EVENTS, OpenEvents
from slackwater.progress.instants import BEGINNING, format_instant

if TYPE_CHECKING:
    from slackwater.operators.replicas.by_column import MergeByColumnOperator
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class ReplicaStanding:
    """How one replica of a merge stands."""

    step: str
    """The merge, by its name in explain()."""

    replica: int
    """Its place among those that were given to merge_replicas(); of those in a column, the order they appeared in."""

    name: str
    """The sources it comes from, or its value in the column."""

    attached: bool
    """Whether it is listened to."""

    joined: bool
    """Whether its punctuations count: the merged stream has come as far as it is complete from."""

    ended: bool
    """Whether it has sent its last."""

    complete_from: Instant
    complete_before: Instant
    """Its last punctuation."""

    merged_before: Instant
    """The last punctuation of the merged stream."""

    alone: bool
    """Whether it waits to join and nobody is left who could bring the merged stream as far as that."""

    calendar: bool
    left_out: LeftOut = NONE_LEFT_OUT
    """What became of its rows that did not go out: how many were duplicates, contradicted or passed over."""

    gap_before: Instant = BEGINNING
    """Where it took over without having joined: the time before which events may be missing."""

    takes_over_past: Instant = BEGINNING
    """Of a replica in a column that waits to join: past which of its times it takes over if the others stay silent."""

    cannot_send_before: Instant = BEGINNING
    """Of a replica in a column, by bounds: before which time it can send nothing any more, be it alive or not."""

    left: str = ""
    """Why it left the merge, if it failed and has not been attached again."""

    times_left: int = 0
    """How often it has failed."""

    open_events: OpenEvents = NO_OPEN_EVENTS
    """The events without an end that hold up the merged stream, and how many of them each replica lacks."""

    @property
    def reason(self) -> str:
        """Why its punctuations do not count; empty if they do."""
        if self.left:
            return f"has left: {self.left}"
        if not self.attached:
            return "not attached"
        if self.joined:
            return ""
        why = f"complete from {self._show(self.complete_from)} on"
        why += f"; the merged stream is complete before {self._show(self.merged_before)}"
        why += ", and no other replica is left to bring it further" if self.alone else ""
        if self.takes_over_past > BEGINNING:
            past = self._show(self.takes_over_past)
            why += f"; takes over when it is past {past} and no replica that has joined has sent a row"
        if self.cannot_send_before > BEGINNING:
            why += f"; or when bounds prove that nobody can send anything before {self._show(self.complete_from)}"
        return why

    def __str__(self) -> str:
        how = f"joined, complete before {self._show(self.complete_before)}" if self.joined else self.reason
        how = f"waits to join, {how}" if self.attached and not self.joined else how
        if self.gap_before > BEGINNING:
            how += "; took over from replicas that had fallen silent: events before "
            how += f"{self._show(self.gap_before)} may be missing"
        how += ", ended" if self.ended else ""
        return f"{self.step}, replica {self.replica} ({self.name}): {how}{self.left_out.described()}{self._held_up()}"

    def _held_up(self) -> str:
        """By which events without an end the merge is held up, and whether this replica has them."""
        events = self.open_events
        if not events.count:
            return ""
        has = events.of_replica(self.replica).replace(f"replica {self.replica}", "this replica")
        waits = events.described(self._show(events.first)).partition("; ")[0]
        return f"; the merged stream {waits}, of which {has}"

    def _show(self, instant: Instant) -> str:
        return format_instant(instant, calendar=self.calendar)


def standings_by_column(step: str, merge: MergeByColumnOperator, *, calendar: bool) -> list[ReplicaStanding]:
    """How each replica stands that a column names. Nobody knows whether one has ended: it may go on."""
    return [
        ReplicaStanding(
            step,
            port,
            one.name,
            attached=True,
            joined=one.leads,
            ended=False,
            complete_from=one.complete_from,
            complete_before=one.complete_before,
            merged_before=merge.complete_before,
            alone=False,
            calendar=calendar,
            left_out=left_out,
            gap_before=one.gap_before,
            takes_over_past=one.takes_over_past,
            cannot_send_before=one.cannot_send_before,
        )
        for port, (one, left_out) in enumerate(zip(merge.standings(), merge.left_out_by_replica(), strict=True))
    ]
