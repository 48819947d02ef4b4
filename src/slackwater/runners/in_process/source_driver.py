"""Sources at their place in the graph: they read, stamp, and say how far they have come, on demand or by the clock.

A source stamped by the clock punctuates up to the present. One with times of its own punctuates t + elapsed - skew,
taken over all its events: the greatest of (t - arrival), plus now, minus skew. Paper: Bai et al., ICDE 2007, section 5.

Rows that nobody is interested in are read, held to the source's punctuations, counted, and left out.

Invariant: punctuations never go back. A row behind one that was made by the clock is late, and passed on to the step
that finds late rows; one behind a punctuation that the source brought itself is an error that names it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.errors import BrokenPunctuation, SlackwaterError, SourceFailed
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.changes import ChangeLog, concerned_from
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_row
from slackwater.kernels.progress.follow_punctuations import NOBODY, follow_punctuations
from slackwater.operators.assume_ordered import AssumeOrderedOperator
from slackwater.operators.interest import Interest
from slackwater.operators.late_changes import LateChangesOperator
from slackwater.plan.feed import GivesTogether, HeedsFeedback
from slackwater.plan.properties import Stamps
from slackwater.policies.punctuations import When
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.progress.punctuation import Ground, Punctuation
from slackwater.progress.saturating import within_int64
from slackwater.runners.graph_parts import Output
from slackwater.runners.result import Counters

if TYPE_CHECKING:
    from slackwater.plan.feed import Pushes, Reader
    from slackwater.plan.node import SourceNode


class SourceDriver(Output):
    """Feeds one source's rows and punctuations into the graph."""

    __slots__ = (
        "_apart",
        "_dropped",
        "_giving",
        "_heeding",
        "_interest",
        "_lead",
        "_no_rows",
        "_promised",
        "_punctuated",
        "_reader",
        "_schema",
        "_stamps",
        "broken",
        "end_sent",
        "live",
        "newest",
        "next_beat",
        "policy",
    )  # fmt: skip

    def __init__(self, name: str, node: SourceNode, reader: Reader, now: Instant, *, together: bool = False) -> None:
        super().__init__(name, Counters())
        self.live = node.feed.live
        self.policy = node.punctuations
        self.next_beat = now + self.policy.every
        self.end_sent = False
        self.broken = False
        """Whether its reader has raised, so that it cannot be read any more."""

        self._dropped = 0
        self.newest: Instant = BEGINNING
        """The greatest time of its rows."""

        self._reader = reader
        # Both asked once: to look whether an object has methods takes as long as a small batch.
        self._heeding = reader if isinstance(reader, HeedsFeedback) else None
        together = together and not any(_holds_words_apart(field.type) for field in node.feed.schema)
        # Whether pushes that wait are taken together, and those that must be taken one by one all the same.
        self._giving = reader if together and isinstance(reader, GivesTogether) else None
        self._apart: deque[tuple[pa.RecordBatch, Instant]] = deque()
        self._schema = node.schema
        self._stamps = node.properties.stamps
        self._no_rows = node.schema.no_rows
        self._promised: Instant = BEGINNING
        self._punctuated: Instant = BEGINNING
        self._lead: int | None = None
        self._interest = Interest()

    @property
    def punctuates_by_clock(self) -> bool:
        """Whether asking again later may help, though no row comes."""
        return self.policy.when is When.ON_DEMAND and not self.end_sent

    def read(self, max_rows: int) -> EventBatch | None:
        """Take the next rows of interest, stamped; None when there are no rows now."""
        pushes = [self._apart.popleft()] if self._apart else self._poll(max_rows)
        if pushes is None:
            return None
        try:
            batch = self._batch_of(pushes)
        except SlackwaterError:
            if len(pushes) == 1:
                raise
            # One of them cannot be read. Those before it count, as they would if each had been taken by itself.
            self._apart.extend(pushes[1:])
            batch = self._batch_of(pushes[:1])
        self.counters.rows_in += batch.rows
        wanted = batch if self._breaks_order(batch) else self._interest.rows_of(batch)
        self.newest = max(self.newest, int(batch.start.max(initial=BEGINNING)))
        self._count_ignored()
        return wanted

    def _breaks_order(self, batch: EventBatch) -> bool:
        """Whether rows go back in time that were declared to be in order: then who checks that must see all of them.

        Who checks does not see the rows that are left out here, but learns how far they came.
        """
        readers = (arc.consumer.operator for arc in self.arcs)
        checks = [reader for reader in readers if isinstance(reader, AssumeOrderedOperator)]
        for check in checks:
            check.expect_from(self.newest)
        return any(check.is_broken_by(batch) for check in checks)

    def drop(self, max_rows: int) -> bool:
        """Take the next rows and forget them: all that the source led to has been cut off. Say whether there were."""
        pushes = list(self._apart) if self._apart else self._poll(max_rows)
        self._apart.clear()
        if pushes is None:
            return False
        rows = sum(rows.num_rows for rows, _ in pushes)
        self._dropped += rows
        self.counters.rows_in += rows
        self._count_ignored()
        return True

    def begin_anew(self) -> None:
        """Forget what its rows have guaranteed: whoever sends them has started again."""
        self._promised = self._punctuated = self.newest = BEGINNING
        self._lead = None

    def _count_ignored(self) -> None:
        self.counters.ignored = self._interest.ignored + self._dropped

    def ignore_before(self, bound: Instant) -> None:
        """Leave out rows that only concern time before the bound, and let the reader know."""
        if self._stamps is Stamps.LATENT:
            return  # its rows have no times yet
        self._interest.begin_at(bound)
        if self._heeding is not None:
            self._heeding.ignore_before(bound)

    def _batch_of(self, pushes: Pushes) -> EventBatch:
        """Make events of rows that are taken together; each push keeps the instant of its arrival."""
        rows = pushes[0][0] if len(pushes) == 1 else pa.concat_batches([rows for rows, _ in pushes])
        if self._stamps is not Stamps.EXTERNAL:
            stamps = np.array([arrived for _, arrived in pushes], dtype=np.int64)
            return EventBatch(rows, np.repeat(stamps, [rows.num_rows for rows, _ in pushes]))
        batch = self._schema.read(rows, f"source {self.name!r}")
        self._keep_word(batch)
        self._note_lead(batch, pushes)
        return batch

    def _poll(self, max_rows: int) -> Pushes | None:
        try:
            if self._giving is not None:
                return self._giving.poll_together(max_rows)
            polled = self._reader.poll(max_rows)
        except SlackwaterError:
            self.broken = True
            raise
        except Exception as cause:
            self.broken = True
            raise SourceFailed.unreadable(self.name, cause) from cause
        return None if polled is None else [polled]

    def _keep_word(self, batch: EventBatch) -> None:
        """Hold a source that brings punctuations of its own to them."""
        if batch.kind is None and self._punctuated == BEGINNING:
            return
        if any(isinstance(arc.consumer.operator, LateChangesOperator) for arc in self.arcs):
            return  # who has a policy for changes that come too late
        punctuated, broken = follow_punctuations(
            concerned_from(batch), batch.kinds(), int(Kind.PUNCTUATE), self._punctuated
        )
        if broken != NOBODY:
            came = show_row(ChangeLog(self._schema).show(batch.slice(broken, broken + 1)), 0)
            before = max(self._punctuated, int(batch.slice(0, broken).punctuations().max(initial=BEGINNING)))
            raise BrokenPunctuation.by(f"source {self.name!r}", came, self._schema.time.show(before))
        self._punctuated = int(punctuated)

    def _note_lead(self, batch: EventBatch, pushes: Pushes) -> None:
        """Learn how far rows are ahead of the clock. One behind a punctuation is late, which the next step finds."""
        if self.policy.skew is None or not batch.rows:
            return
        firsts = np.cumsum([0, *(rows.num_rows for rows, _ in pushes[:-1])])
        newest = np.maximum.reduceat(batch.start, firsts).tolist()
        lead = max(time - arrived for time, (_, arrived) in zip(newest, pushes, strict=True))
        self._lead = lead if self._lead is None else max(self._lead, lead)

    def punctuation(self, ground: Ground) -> Punctuation | None:
        """How far the source has come, if that is further than its last punctuation."""
        now = None if self._apart else self._reader.quiet_until()
        if now is None:
            return None
        if self._stamps is Stamps.INTERNAL:
            complete_before = now
        elif self._lead is not None and self.policy.skew is not None:
            # Only a source that has ended is complete for all times.
            complete_before = min(within_int64(now + self._lead - self.policy.skew), FOREVER - 1)
        else:
            return None
        if complete_before <= self._promised:
            return None
        self._promised = complete_before
        return Punctuation(complete_before, ground)

    def batch_of(self, punctuation: Punctuation) -> EventBatch:
        """Make a batch of a punctuation."""
        return punctuation_like(self._no_rows, punctuation.complete_before)

    @property
    def quiet(self) -> bool:
        """Whether no row waits to be read."""
        return not self._apart and self._reader.quiet_until() is not None

    @property
    def exhausted(self) -> bool:
        """Whether no row will come any more."""
        return not self._apart and self._reader.ended

    def close(self) -> None:
        """Close the reading."""
        self._reader.close()


def _holds_words_apart(kind: pa.DataType) -> bool:
    """Whether batches of a type have words of their own, which need not fit those of another batch."""
    nested = (kind.field(place).type for place in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind)) or any(map(_holds_words_apart, nested))
