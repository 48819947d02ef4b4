"""Sends on what comes, rows and punctuations: the operator of steps that only state something about a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.emission import Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.operator import StatelessOperator

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port


class PassOnOperator(InterestedOperator[None], StatelessOperator):
    """Sends every batch on as it is. Cost: none per row."""

    __slots__ = ()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Pass the batch on."""
        return Emission.of(batch)
