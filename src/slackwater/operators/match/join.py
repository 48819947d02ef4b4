"""Pairs the events of two ordered streams that have the same key and are close in time (window join).

Each event pairs with those of the other stream that are still in its window, and then waits in its own window for
those to come. The windows are lifetimes (Overlap) or distances between starts (Within).
Paper: Bai et al., ICDE 2007, figures 1, 5 and 6; the join is that of Kang, Naughton, Viglas.

Invariant: results are in order, since each starts at the later of its two starts.
Ties: of simultaneous results, those of left events come first, then by the order of the inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.match.chains import START, UNTIL
from slackwater.kernels.match.match_alive import match_alive
from slackwater.operators.match.alive_rows import first_instant_beyond
from slackwater.operators.match.matched_schema import matched_schema
from slackwater.operators.match.matching_operator import MatchingOperator, MatchingState
from slackwater.policies.matching import Overlap, Within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.policies.matching import Matching
    from slackwater.progress.frontier import Port

LEFT, RIGHT = 0, 1
"""The ports of a join."""


class JoinOperator(MatchingOperator):
    """Joins input 0 (left) and input 1 (right). Cost: per new row, per result and per expired row."""

    __slots__ = ("_matching",)

    def __init__(
        self,
        left: EventSchema,
        right: EventSchema,
        on: Sequence[str],
        matching: Matching,
        *,
        step: str = "join",
        waits: bool = True,
        resume: MatchingState | None = None,
    ) -> None:
        self._matching = matching
        output = matched_schema(left, right, on, isinstance(matching, Overlap), step)
        super().__init__((left, right), on, output, 2, step, waits, resume)

    def _match(self, left: EventBatch | None, right: EventBatch | None) -> EventBatch | None:
        lefts, rights = self._sides
        first_left, first_right = lefts.rows, rights.rows
        for port, rows in ((LEFT, left), (RIGHT, right)):
            if rows is not None:
                self._keep(port, rows, self._partners_until(port, rows))
        for side in self._sides:
            side.reserve_chains(len(self._keys))
        in_left, in_right = match_alive(
            *(lefts.nodes, lefts.chains, lefts.tally, first_left, lefts.rows),
            *(rights.nodes, rights.chains, rights.tally, first_right, rights.rows),
        )
        if not len(in_left):
            return None
        start = np.maximum(lefts.nodes[in_left, START], rights.nodes[in_right, START])
        end = None
        if isinstance(self._matching, Overlap):
            end = np.minimum(lefts.nodes[in_left, UNTIL], rights.nodes[in_right, UNTIL])
        return self._matched(lefts.gather(in_left), rights.gather(in_right, self._kept_of_right), start, end)

    def _partners_until(self, port: Port, rows: EventBatch) -> Times:
        """The first instant at which a later event of the other input no longer matches, for each row."""
        match self._matching:
            case Overlap():
                return rows.ends()
            case Within(left_before_right, right_before_left):
                return first_instant_beyond(rows.start, left_before_right if port == LEFT else right_before_left)
