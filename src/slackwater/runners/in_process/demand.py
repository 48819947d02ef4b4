"""Sources at their place in the graph: they read, stamp, and say how far they have come, on demand or by the clock.

A source stamped by the clock promises the present. A source with times of its own promises t + elapsed - skew, taken
over all its events: the greatest of (t - arrival), plus now, minus skew.
Paper: Bai et al., ICDE 2007, section 5.

Rows that nobody is interested in are read, held to the source's promises, counted, and left out.

Invariant: promises never go back, and a row that breaks one is an error that names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenPunctuation, SlackwaterError, SourceFailed
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.changes import ChangeLog, concerned_from
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_row
from slackwater.kernels.follow_punctuations import NOBODY, follow_punctuations
from slackwater.operators.interest import Interest
from slackwater.plan.feed import HeedsFeedback
from slackwater.plan.properties import Stamps
from slackwater.policies.punctuations import When
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.progress.punctuation import Origin, Punctuation
from slackwater.progress.saturating import within_int64
from slackwater.runners.in_process.ports import Output
from slackwater.runners.runner import Counters

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.plan.feed import Reader
    from slackwater.plan.node import SourceNode


class SourceDriver(Output):
    """Feeds one source's rows and punctuations into the graph."""

    __slots__ = (
        "_interest", "_lead", "_no_rows", "_promised", "_reader", "_said", "_schema", "_stamps",
        "end_sent", "live", "newest", "next_beat", "policy",
    )  # fmt: skip

    def __init__(self, name: str, node: SourceNode, reader: Reader, now: Instant) -> None:
        super().__init__(name, Counters())
        self.live = node.feed.live
        self.policy = node.punctuations
        self.next_beat = now + self.policy.every
        self.end_sent = False
        self.newest: Instant = BEGINNING
        """The greatest time of its rows."""

        self._reader = reader
        self._schema = node.schema
        self._stamps = node.properties.stamps
        self._no_rows = node.schema.no_rows
        self._promised: Instant = BEGINNING
        self._said: Instant = BEGINNING
        self._lead: int | None = None
        self._interest = Interest()

    @property
    def promises_by_clock(self) -> bool:
        """Whether asking again later may help, though no row comes."""
        return self.policy.when is When.ON_DEMAND and not self.end_sent

    def read(self, max_rows: int) -> EventBatch | None:
        """Take the next rows of interest, stamped; None when there are no rows now."""
        polled = self._poll(max_rows)
        if polled is None:
            return None
        rows, arrived = polled
        if self._stamps is not Stamps.EXTERNAL:
            batch = EventBatch(rows, np.full(rows.num_rows, arrived, dtype=np.int64))
        else:
            batch = self._schema.read(rows, f"source {self.name!r}")
            self._keep_word(batch)
            self._keep_promise(batch, arrived)
        self.counters.rows_in += batch.rows
        self.newest = max(self.newest, int(batch.start.max(initial=BEGINNING)))
        wanted = self._interest.rows_of(batch)
        self.counters.ignored = self._interest.ignored
        return wanted

    def ignore_before(self, bound: Instant) -> None:
        """Leave out rows that only concern time before the bound, and tell the reader, who may not read them at all."""
        if self._stamps is Stamps.LATENT:
            return  # its rows have no times yet
        self._interest.begin_at(bound)
        if isinstance(self._reader, HeedsFeedback):
            self._reader.ignore_before(bound)

    def _poll(self, max_rows: int) -> tuple[pa.RecordBatch, Instant] | None:
        try:
            return self._reader.poll(max_rows)
        except SlackwaterError:
            raise
        except Exception as cause:
            raise SourceFailed.unreadable(self.name, cause) from cause

    def _keep_word(self, batch: EventBatch) -> None:
        """Hold a source that brings punctuations of its own to them."""
        if batch.kind is None and self._said == BEGINNING:
            return
        said, broken = follow_punctuations(concerned_from(batch), batch.kinds(), int(Kind.PUNCTUATE), self._said)
        if broken != NOBODY:
            came = show_row(ChangeLog(self._schema).show(batch.slice(broken, broken + 1)), 0)
            before = max(self._said, int(batch.slice(0, broken).punctuations().max(initial=BEGINNING)))
            raise BrokenPunctuation.by(f"source {self.name!r}", came, self._schema.time.show(before))
        self._said = int(said)

    def _keep_promise(self, batch: EventBatch, arrived: Instant) -> None:
        if not batch.rows:
            return
        if self._promised > BEGINNING and batch.start.min() < self._promised:
            row = int(np.flatnonzero(batch.start < self._promised)[0])
            came = show_row(self._schema.show(batch.slice(row, row + 1)), 0)
            raise BrokenPunctuation.by(f"source {self.name!r}", came, self._schema.time.show(self._promised))
        lead = int(batch.start.max()) - arrived
        self._lead = lead if self._lead is None else max(self._lead, lead)

    def promise(self, origin: Origin) -> Punctuation | None:
        """Say how far the source has come, if that is further than was said before."""
        now = self._reader.quiet_until()
        if now is None:
            return None
        if self._stamps is Stamps.INTERNAL:
            complete_before = now
        elif self._lead is not None and self.policy.skew is not None:
            # Only a source that has ended promises all times.
            complete_before = min(within_int64(now + self._lead - self.policy.skew), FOREVER - 1)
        else:
            return None
        if complete_before <= self._promised:
            return None
        self._promised = complete_before
        return Punctuation(complete_before, origin)

    def batch_of(self, punctuation: Punctuation) -> EventBatch:
        """Make a batch of a punctuation."""
        return punctuation_like(self._no_rows, punctuation.complete_before)

    @property
    def quiet(self) -> bool:
        """Whether no row waits to be read."""
        return self._reader.quiet_until() is not None

    @property
    def exhausted(self) -> bool:
        """Whether no row will come any more."""
        return self._reader.ended

    def close(self) -> None:
        """Close the reading."""
        self._reader.close()
