"""Holds one revised stream to its punctuations: an element that an earlier one had ruled out is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import BrokenPunctuation
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_element
from slackwater.kernels.progress.follow_punctuations import NOBODY, follow_revised

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.progress.instants import Instant


def punctuated_after(batch: EventBatch, before: Instant, where: str) -> Instant:
    """Return the greatest punctuation of a stream after a batch, where `before` was the greatest before it.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> batch = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> punctuated_after(EventBatch.concat([batch, batch.punctuation(4)]), 2, "example")
    4
    """
    times = batch.start, batch.prior_ends(), batch.ends()
    last, broken = follow_revised(*times, batch.kinds(), int(Kind.PUNCTUATE), before)
    if broken != NOBODY:
        contradicted = max([before, *batch.slice(0, broken).punctuations().tolist()])
        raise BrokenPunctuation.by(where, element_at(batch, broken), contradicted)
    return int(last)


def element_at(batch: EventBatch, at: int) -> str:
    """One element of a batch, spelled out for a message."""
    return show_element(batch, at)
