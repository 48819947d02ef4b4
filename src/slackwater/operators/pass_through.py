"""Puts latent streams together as their rows come: without times there is no order to keep, so nobody waits.

Paper: Bai et al., ICDE 2007, section 5 (latent time-stamps).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.emission import Emission
from slackwater.operators.operator import StatelessOperator

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port


class PassThroughOperator(StatelessOperator):
    """Sends on what comes, from any number of inputs; punctuations of single inputs would go too far."""

    __slots__ = ()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - all ports are alike
        """Pass on the rows."""
        return Emission.of(batch.data())
