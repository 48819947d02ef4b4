"""Decides which sources are silent for too long, how far they are taken to be complete, and when to look again.

Time here is that of arrival, in microseconds: the timestamps of micro-batches, and the instants of timers. A source
that has sent nothing for the timeout is not waited for any more: all that it ever sent is complete. From then on, on
calendar time, its time goes on with the clock, so that windows close; sequence numbers know no clock and stay.

    last arrival        timeout          look again              look again
    ────┼──────────────────┼──────────────────┼───────────────────────┼────────────
        newest             newest + 1         newest + 1 + timeout    ... up to the horizon

What is decided depends on what arrived, and when, and on nothing that one shard has and another has not: all shards
know of all arrivals, look at the same instants, and punctuate the same. If a shard that holds nothing did not look, a
row that comes late would be late in one shard and in time in another.

Invariants: the instants at which to look rise, and between two arrivals a punctuation never goes back. There is an end
to them, the horizon, where nothing can be held any more: one timeout, and the windows of the plan, after the last
arrival. Cost: O(sources) for each micro-batch and each look.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.progress.instants import BEGINNING, FOREVER, as_duration
from slackwater.runners.steering import lasting_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.progress.instants import Duration, Instant
    from slackwater.runners.spark.planning.shard_plan import ShardPlan


@dataclass(frozen=True, slots=True)
class SourceActivity:
    """What is remembered of the sources: when each sent rows for the last time, and the newest time it ever sent.

    >>> SourceActivity.nothing(2).after(100, {1: 7})
    SourceActivity(begun=100, arrived=(None, 100), newest=(-9223372036854775808, 7))
    """

    begun: Instant | None
    """When the first micro-batch came; None before that."""

    arrived: tuple[Instant | None, ...]
    """When the last rows of each source came; None if none ever did."""

    newest: tuple[Instant, ...]
    """The greatest time of the rows of each source."""

    @classmethod
    def nothing(cls, sources: int) -> SourceActivity:
        """What is known before anything came."""
        return cls(None, (None,) * sources, (BEGINNING,) * sources)

    def after(self, now: Instant, newest: Mapping[int, Instant]) -> SourceActivity:
        """Take in a micro-batch: the newest time of each source that sent rows with it.

        A source that sent none but rows without a time does not count as active.
        """
        newest = {number: time for number, time in newest.items() if time > BEGINNING}
        return SourceActivity(
            now if self.begun is None else self.begun,
            tuple(now if number in newest else before for number, before in enumerate(self.arrived)),
            tuple(max(before, newest.get(number, before)) for number, before in enumerate(self.newest)),
        )


@dataclass(frozen=True, slots=True)
class _Silent:
    """A source as it counts when it is waited for: its own last arrival and newest time, or those of all others."""

    given_up_at: Instant
    """When it has been silent for the timeout."""

    goes_on_from: Instant
    """From when on its time goes on with the clock."""

    complete_before: Instant
    """How far it is complete when it is silent, before its time goes on."""


@dataclass(frozen=True)
class IdleTimeout:
    """What becomes of sources that are silent.

    >>> rule, activity = (
    ...     IdleTimeout(timeout=30, calendar=(True, True)),
    ...     SourceActivity.nothing(2).after(100, {0: 7, 1: 9}),
    ... )
    >>> rule.punctuations(activity, 129), rule.punctuations(activity, 130), rule.punctuations(activity, 134)
    ({}, {0: 8, 1: 10}, {0: 12, 1: 14})
    >>> rule.look_again_at(activity, 100), rule.look_again_at(activity, 130), rule.look_again_at(activity, 132)
    (130, 132, None)
    """

    timeout: Duration
    """How long a source is waited for."""

    calendar: tuple[bool | None, ...]
    """For each source, whether its times are calendar time, which goes on with the clock; None for one with bounds,
    which say themselves what silence means."""

    lasting: Duration | None = 0
    """How far past the newest time steps may hold something back; None if nobody knows."""

    @classmethod
    def in_plan(cls, plan: ShardPlan, timeout: Duration) -> IdleTimeout:
        """The rule for the ways into a plan; refuse plans in which a wrong punctuation would lose rows."""
        if all(pipeline.heartbeats is not None and pipeline.source.arrived is not None for pipeline in plan.pipelines):
            facts, hint = {"arrived": plan.pipelines[0].source.arrived}, "leave timeout= out, or arrived="
            rule = "timeout= goes by the clock, and here a column says when rows arrive"
            raise PlanError(message(rule, facts, hint))
        for pipeline in plan.pipelines:
            if not pipeline.source.properties.insert_only:
                facts, hint = (
                    {"source": pipeline.source.name},
                    "leave timeout= out, or let the log punctuate more often",
                )
                rule = "timeout= does not go with a log of changes: it says itself how far it is complete"
                raise PlanError(message(rule, facts, hint))
        for node in plan.names:
            if not node.traits.trusts_idle_sources:
                hint = "leave timeout= out: a replica that is silent holds nobody back who has more"
                dead = "a dead replica would keep advancing by the clock, and make the rows of the others late"
                raise PlanError(message(dead, {"step": node.line}, hint))
        calendar = (None if one.heartbeats is not None else one.entry.schema.calendar for one in plan.pipelines)
        return cls(timeout, tuple(calendar), lasting_in(plan.names, [one.source for one in plan.pipelines]))

    def punctuations(self, activity: SourceActivity, now: Instant) -> dict[int, Instant]:
        """Up to where each source that is silent by now is taken to be complete."""
        found = {number: self._silent(activity, number) for number in range(len(self.calendar))}
        return {
            number: self._bound(number, one, now) for number, one in found.items() if one and now >= one.given_up_at
        }

    def look_again_at(
        self, activity: SourceActivity, now: Instant, newest_with_bounds: Instant = BEGINNING
    ) -> Instant | None:
        """The next instant, after now, at which a punctuation may let something go; None if none will.

        It is the first at which another source is given up; for those that are already, a timeout from now, or when
        their time comes to the horizon. Rows of sources with bounds may wait for these, too.
        """
        found = [self._next_look(activity, number, now, newest_with_bounds) for number in range(len(self.calendar))]
        return min((instant for instant in found if instant is not None), default=None)

    def _next_look(self, activity: SourceActivity, number: int, now: Instant, other: Instant) -> Instant | None:
        silent = self._silent(activity, number)
        if silent is None or now < silent.given_up_at:
            return None if silent is None else silent.given_up_at
        if not self.calendar[number]:
            return None
        if self.lasting is None:
            return now + self.timeout
        horizon = max(other, *(newest for _, newest in self._alike(activity, number))) + 1 + self.lasting
        at_horizon = silent.goes_on_from + horizon - silent.complete_before
        return min(now + self.timeout, at_horizon) if now < at_horizon else None

    def _silent(self, activity: SourceActivity, number: int) -> _Silent | None:
        """How a source counts; None while nothing has arrived that it could be compared with."""
        arrived = activity.arrived[number]
        if self.calendar[number] is None:
            return None
        if arrived is not None:
            return _Silent(arrived + self.timeout, arrived + self.timeout, activity.newest[number] + 1)
        others = self._alike(activity, number)
        if activity.begun is None or not others:
            return None
        # It counts as having sent what the others have; but that they still send is no reason to wait for it.
        latest = max(activity.begun, *(at for at, _ in others))
        return _Silent(activity.begun + self.timeout, latest + self.timeout, max(newest for _, newest in others) + 1)

    def _bound(self, number: int, silent: _Silent, now: Instant) -> Instant:
        went_on = max(now - silent.goes_on_from, 0) if self.calendar[number] else 0
        # Only a source that has ended is complete for all times.
        return min(silent.complete_before + went_on, FOREVER - 1)

    def _alike(self, activity: SourceActivity, number: int) -> list[tuple[Instant, Instant]]:
        """Last arrival and newest time of each source that has sent something, with the same kind of time."""
        sent = zip(activity.arrived, activity.newest, self.calendar, strict=True)
        return [(at, newest) for at, newest, alike in sent if at is not None and alike == self.calendar[number]]


def as_timeout(given: Any) -> Duration | None:
    """Read what a user wrote for a timeout: a length of time on the clock, whatever the times of a stream are.

    >>> as_timeout("30s"), as_timeout(None)
    (30000000, None)
    """
    if given is None:
        return None
    if not isinstance(given, str | timedelta):
        facts, hint = {"got": repr(given)}, 'write "30s" or a timedelta'
        raise PlanError(message("timeout= takes a duration of clock time", facts, hint))
    timeout = as_duration(given, calendar=True)
    if timeout <= 0:
        facts, hint = {"got": repr(given)}, "leave timeout= out to wait for silent sources for ever"
        raise PlanError(message("timeout= must be longer than zero", facts, hint))
    return timeout
