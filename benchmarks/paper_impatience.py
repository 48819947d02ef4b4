"""The paper's own Impatience sort as a contender: events dealt one by one, Huffman merge, speculative run selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.testing.reference.patience_sorter import PatienceSorter

if TYPE_CHECKING:
    from online_rivals import Feed, Sink


class PaperImpatience:
    """Impatience sort as section III of the paper has it, compiled; all punctuations of an advance in one call."""

    def __init__(self, feed: Feed, sink: Sink) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        self.sorter = PatienceSorter()
        self.sorter.push(feed.times[: feed.start])
        self.sorter.punctuate(feed.opening)

    def advance(self, events: int) -> None:
        """Take the next events."""
        stop = self.at + events
        bounds = self.feed.between(self.at, stop)
        stops = self.feed.every * np.arange(1, len(bounds) + 1)
        self.sink(self.sorter.push_punctuated(self.feed.times[self.at : stop], stops, bounds))
        self.at = stop
