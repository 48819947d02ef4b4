"""Holds one revised stream to its word: an element that an earlier punctuation had ruled out is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import BrokenPunctuation
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_element
from slackwater.kernels.progress.follow_punctuations import NOBODY, follow_revised

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.progress.instants import Instant


def said_after(batch: EventBatch, said: Instant, where: str) -> Instant:
    """Return the greatest punctuation of a stream after a batch, where `said` was the greatest before it.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> batch = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> said_after(EventBatch.concat([batch, batch.punctuation(4)]), 2, "example")
    4
    """
    times = batch.start, batch.prior_ends(), batch.ends()
    last, broken = follow_revised(*times, batch.kinds(), int(Kind.PUNCTUATE), said)
    if broken != NOBODY:
        before = [said, *batch.slice(0, broken).punctuations().tolist()]
        raise BrokenPunctuation.by(where, element_at(batch, broken), max(before))
    return int(last)


def element_at(batch: EventBatch, at: int) -> str:
    """One element of a batch, spelled out for a message."""
    return show_element(batch, at)
