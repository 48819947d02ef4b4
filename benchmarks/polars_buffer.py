"""Sorting while the stream flows as a Polars user would write it: a sorted frame, to which each batch is added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from online_rivals import Feed


class PolarsBuffer:
    """At a punctuation: concatenate, sort stably, cut. Polars runs as it comes, with all cores."""

    def __init__(self, feed: Feed, columns: Mapping[str, NDArray[Any]]) -> None:
        self.at, self.feed = feed.start, feed
        frame: Any = pl.from_arrow(pa.table(dict(columns)))
        self.frame: pl.DataFrame = frame
        self.buffer = self.frame[: feed.start].sort("at", maintain_order=True)
        self.released(feed.opening)

    def advance(self, events: int) -> None:
        """Take the next batch."""
        stop = self.at + events
        new = self.frame[self.at : stop].sort("at", maintain_order=True)
        self.buffer = self.buffer.merge_sorted(new, "at") if len(self.buffer) else new
        self.released(int(self.feed.between(self.at, stop)[-1]))
        self.at = stop

    def released(self, bound: int) -> pl.DataFrame:
        """Cut off what is complete."""
        cut = int(self.buffer["at"].search_sorted(bound, side="left"))
        out, self.buffer = self.buffer[:cut], self.buffer[cut:]
        return out
