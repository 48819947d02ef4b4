"""Pairs each event of one ordered stream with the next event of its key on another one, if that comes soon enough.

"Next" is strictly later. Events that are simultaneous have no order between them, so if several are next they all
match; one event may be the next of many.

Invariant: results are in order, since each starts when the later event does.
Ties: simultaneous results come in the order of the later events, then of the earlier ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BadDuration, message
from slackwater.events.gather import gather
from slackwater.kernels.match.chains import append_nodes
from slackwater.kernels.match.match_next import match_next
from slackwater.operators.match.alive_rows import first_instant_beyond
from slackwater.operators.match.matched_schema import matched_schema
from slackwater.operators.match.matching_operator import MatchingOperator, MatchingState
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.progress.instants import Duration

FIRST, THEN = 0, 1
"""The ports of followed_by."""


class FollowedByOperator(MatchingOperator):
    """Matches input 0 (first) with what follows on input 1 (then). Cost: per new row, result and expired row."""

    __slots__ = ("_within",)

    def __init__(
        self,
        first: EventSchema,
        then: EventSchema,
        on: Sequence[str],
        within: Duration,
        *,
        step: str = "followed_by",
        waits: bool = True,
        resume: MatchingState | None = None,
    ) -> None:
        if not 0 <= within <= FOREVER:
            raise BadDuration(message(f"{step} needs a duration that is not negative and fits int64", {"got": within}))
        self._within = within
        output = matched_schema(first, then, on, interval=False, step=step)
        super().__init__((first, then), on, output, 1, step, waits, resume)

    def _match(self, left: EventBatch | None, right: EventBatch | None) -> EventBatch | None:
        (firsts,) = self._sides
        new = firsts.rows
        if left is not None:
            self._keep(FIRST, left, first_instant_beyond(left.start, self._within))
        if right is None:
            append_nodes(firsts.nodes, firsts.chains, firsts.tally, new, firsts.rows)
            return None
        shown = self._inputs[THEN].keep_times(right)
        # Keys that no first event has need no code.
        codes = self._keys.find(shown)
        start = np.ascontiguousarray(right.start)
        found, followed_by = match_next(firsts.nodes, firsts.chains, firsts.tally, new, firsts.rows, start, codes)
        if not len(found):
            return None
        then = gather(shown.select(self._kept_of_right), followed_by)
        return self._matched(firsts.gather(found), then, start[followed_by], None)
