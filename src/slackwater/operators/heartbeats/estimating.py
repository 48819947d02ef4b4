"""A heartbeat generator that learns its bounds from the rows that it follows.

It is the generator of declared bounds, whose tables have a place for every estimate: what was learnt is written there,
at the end of each tick, and counts as if somebody had stated it. Beside it the heartbeats by declared bounds alone are
followed, so that it is known which rows only an estimate made late.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 6.

Invariants: the same rows in the same ticks give the same estimates, however they are cut into batches; where estimates
are taken back heartbeats stay where they were, and rise by declared bounds alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slackwater.kernels.progress import heartbeat_tables as kernel
from slackwater.kernels.progress import learnt_tables as estimates
from slackwater.kernels.progress.follow_arrivals import follow_estimating
from slackwater.kernels.progress.follow_statistics import estimate_statistics
from slackwater.kernels.progress.replay_arrivals import replay_estimating
from slackwater.kernels.progress.ticks import evaluate_estimating
from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.operators.heartbeats.learnt import Learnt
from slackwater.operators.heartbeats.observed_loss import ObservedLoss
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from slackwater.operators.heartbeats.generator import Binding, Column
    from slackwater.operators.heartbeats.source_words import Words
    from slackwater.operators.heartbeats.tables import HeartbeatState
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.instants import Duration


def generator_for(
    rules: Rules,
    grid: Duration = 1,
    resume: HeartbeatState | None = None,
    key: Callable[[SourceName], Hashable] = lambda name: name,
) -> HeartbeatGenerator:
    """The generator for some rules: one that learns, if any of them is estimated."""
    made = HeartbeatGenerator if rules.estimation is None else EstimatingGenerator
    return made(rules, grid, resume, key)


class EstimatingGenerator(HeartbeatGenerator):
    """Follows the arrivals of a stream, and learns how far behind its rows are.

    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> rules = Bounds.greatest().only("a").rules(Units(calendar=False, clock_calendar=False))
    >>> generator = EstimatingGenerator(rules)
    >>> ticks, times = np.array([1, 2, 3]), np.array([10, 4, 20])
    >>> generator.follow(ticks, generator.places_of("aaa"), times, closes=True)[1].tolist()
    [11, 14]
    """

    __slots__ = ("_learnt",)

    def __init__(
        self,
        rules: Rules,
        grid: Duration = 1,
        resume: HeartbeatState | None = None,
        key: Callable[[SourceName], Hashable] = lambda name: name,
    ) -> None:
        self._learnt: Learnt | None = None
        super().__init__(rules, grid, resume, key)
        self._learnt = Learnt(rules, grid, self._tables.room)
        for place in range(len(self.names)):
            self._learnt.add(place, self._tables)
        if resume is not None:
            assert resume.learnt is not None
            self._learnt.restore(resume.learnt, len(self.names), self._tables)

    def _add(self, name: Hashable) -> int:
        place = super()._add(name)
        if self._learnt is not None:
            self._learnt.add(place, self._tables)
        return place

    def follow_instant(self, tick: int, words: Words, times: Column) -> tuple[Column, Column]:
        """Take in rows that all arrive in one tick, which is over then: each of them is learnt from."""
        return self.follow(np.full(len(times), tick), words.places(), times, closes=True)

    def _follow(self, *columns: Any) -> int:
        assert self._learnt is not None
        return follow_estimating(self._tables.given, self._learnt.given, *columns)

    def _follow_groups(self, *columns: Any) -> int:
        assert self._learnt is not None
        return estimate_statistics(self._tables.given, self._learnt.given, *columns)

    def _evaluate(self, tick: int) -> None:
        assert self._learnt is not None
        evaluate_estimating(self._tables.given, self._learnt.given, tick)

    def _replay(self, *recorded: Any) -> None:
        assert self._learnt is not None
        replay_estimating(self._tables.all, self._learnt.all, *recorded)

    # ---- looking at it ----------------------------------------------------------------------------------------------

    def observed(self) -> ObservedLoss:
        """How many rows were late by estimates so far."""
        assert self._learnt is not None
        rows, lost, back, times = self._learnt.numbers[
            [estimates.COUNTED, estimates.LOST, estimates.TAKEN_BACK, estimates.TIMES_TAKEN_BACK]
        ].tolist()
        chosen = self._rules.estimation
        assert chosen is not None
        return ObservedLoss(rows, lost, chosen.loss, taken_back=bool(back), times_taken_back=times)

    def estimates(self) -> dict[Hashable, list[int]]:
        """For each source the deltas that hold for it now, by the kinds of bounds that are learnt; -1 for none."""
        deltas = self._tables.says[self._declared :, kernel.DELTA, 1 : len(self.names)].T.tolist()
        return dict(zip(self.names[1:], deltas, strict=True))

    def binding(self) -> Binding | None:
        """The source that the others wait for, and what its heartbeat was set by.

        Estimates change: whose row it was is only known while that is the newest of its source.
        """
        found = super().binding()
        if found is None or found.rule < self._declared or found.arrived is not None:
            return found
        return replace(found, sender=None, time=BEGINNING)

    def goes_by_estimate(self, binding: Binding) -> bool:
        """Whether it is an estimate that a source is waited for by."""
        assert self._learnt is not None
        if binding.rule >= self._declared:
            return True
        place = self._place_of(binding)
        delay, declared = self._tables.sources[kernel.DELAY, place], self._learnt.aside[estimates.DECLARED_DELAY, place]
        return binding.rule == kernel.BY_CLOCK and (declared == kernel.NONE or delay != declared)

    def estimate_now(self, binding: Binding) -> Duration | None:
        """The delta, or the delay, that the estimate has now which a heartbeat was set by; None if it is taken back."""
        place = self._place_of(binding)
        by_clock = binding.rule == kernel.BY_CLOCK
        found = self._tables.sources[kernel.DELAY] if by_clock else self._tables.says[binding.rule, kernel.DELTA]
        return None if found[place] == kernel.NONE else int(found[place])

    def _place_of(self, binding: Binding) -> int:
        return kernel.UNSEEN if binding.source is None else self._places[binding.source]

    @property
    def _declared(self) -> int:
        """How many rules are declared; estimated ones follow."""
        return len(self._rules.declared)

    def snapshot(self) -> HeartbeatState:
        """All that is remembered."""
        assert self._learnt is not None
        return self._tables.snapshot(tuple(self.names[1:]), self._learnt.snapshot(len(self.names)))

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        assert self._learnt is not None
        declared = self._learnt.aside[estimates.DECLARED_HEARTBEAT, : len(self.names)]
        assert (declared <= self._tables.sources[kernel.HEARTBEAT, : len(self.names)]).all(), declared
