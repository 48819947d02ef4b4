"""Punctuates one of several streams up to where it is complete, by what bounds say of all of them.

The paper's S1 ... Sn are separate inputs of one operator, and what a row of one guarantees of another moves the
heartbeat of that one. Each stream is a source here, called by its name, and goes on by itself with its own heartbeat:
the operator that puts streams together takes the least of those, as of any punctuations (section 7.2). So there is one
such step for each stream. Input 0 has its rows; of the others only times and arrivals are looked at.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

    clicks ──────────┬─> related, of clicks ──> clicks, with what clicks and orders prove of clicks
       └─ arrivals ──│─┐
       ┌─ arrivals ──┘ │
    orders ────────────┴─> related, of orders ──> orders, with what clicks and orders prove of orders

In process rows of all streams are put in the order of their arrival first (`arrival_order.py`). In a shard a
micro-batch is taken in at once, by the statistics of all streams. Both are followed in the same way.

Invariants: rows go on in their order, those that are ahead to the late output; punctuations never go back. Cost: that
of the generator, by ticks of other streams and by own rows; what waits for its turn is held, of others only its times.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slackwater.columns.inline_punctuations import split_punctuations
from slackwater.events.batch import EventBatch
from slackwater.kernels.progress.ticks import ticks_of
from slackwater.operators.emission import Emission
from slackwater.operators.heartbeats.arrival_order import ArrivalOrder, ArrivalOrderState, ArrivedRows
from slackwater.operators.heartbeats.arrival_statistics import NO_GROUPS, grouped
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator, Share, Taken
from slackwater.operators.heartbeats.generator import complete_before_of
from slackwater.operators.heartbeats.heartbeats import HeartbeatsState, arrival_times
from slackwater.operators.heartbeats.tables import HeartbeatState
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    import pyarrow as pa

    from slackwater.events.batch import Times
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
    from slackwater.operators.heartbeats.generator import Binding
    from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    from slackwater.policies.per_source import SourceName
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True)
class RelatedStream:
    """One of the streams that bounds speak of."""

    name: str
    arrived: str | None
    """The column that says when each of its rows arrived; None where the clock does."""

    @property
    def key(self) -> bytes:
        """How it is called where sources are counted."""
        return self.name.encode()


@dataclass(frozen=True, slots=True)
class RelatedState(HeartbeatsState):
    """What the step remembers: in shards no row ever waits for its turn."""

    order: ArrivalOrderState | None = None
    input_complete: Instant = BEGINNING
    """The last punctuation of the input."""


class RelatedOperator(DrivenHeartbeatsOperator):
    """Follows the arrivals of all streams, of which the first goes on."""

    __slots__ = ("_input_complete", "_order", "_own", "_streams")
    state_types: ClassVar[tuple[type[Any], ...]] = (
        RelatedState,
        HeartbeatState,
        ArrivalOrderState,
        ArrivedRows,
        EventBatch,
    )
    splits = False  # its own state is not parted yet
    asks_who_is_quiet = True

    def __init__(
        self,
        schema: EventSchema,
        settings: HeartbeatSettings,
        streams: Sequence[RelatedStream],
        step: str = "related",
        resume: RelatedState | None = None,
        ahead_payload: pa.Schema | None = None,
    ) -> None:
        super().__init__(schema, settings, step, resume, ahead_payload)
        self._streams = streams
        (self._own,) = self._generator.places_of([streams[0].key]).tolist()
        order = None if resume is None else resume.order
        self._order = ArrivalOrder(len(streams), by_clock=self.by_clock, resume=order)
        self._input_complete = BEGINNING if resume is None else resume.input_complete

    def key(self, name: SourceName) -> Hashable:
        """How a stream that bounds name is called here."""
        return str(name).encode()

    def spelled(self, source: Hashable | None) -> str:
        """The name of a stream as people read it."""
        return source.decode() if isinstance(source, bytes) else super().spelled(source)

    # ---- in process --------------------------------------------------------------------------------------------------

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take in rows of any stream, and send on those of the first whose turn has come."""
        rows, _, punctuations = split_punctuations(batch)
        if port == 0:
            self._input_complete = max(self._input_complete, int(punctuations.max(initial=BEGINNING)))
        if rows.rows:
            column = self._streams[port].arrived
            arrivals = _NONE if column is None else arrival_times(rows.payload.column(column))
            self._order.take(port, rows.start, arrivals, rows if port == 0 else None)
        return self._go_on()

    def on_quiet(self, port: Port) -> Emission:
        """Go on without a stream of which nothing waits to be read."""
        self._order.note_quiet(port)
        return self._go_on()

    def on_end(self, port: Port) -> Emission:
        """Wait for this stream no longer."""
        self._order.end(port)
        return self._go_on()

    def idle_waiting_on(self) -> Port | None:
        """The stream that must be read before rows go on which arrived after its last."""
        return self._order.waits_for()

    def held_back(self) -> int:
        """How many rows wait for their turn, of all streams."""
        return self._order.rows

    def _go_on(self) -> Emission:
        released = self._order.release()
        if not any(released):
            return self._punctuated_alone()
        return Emission.together(self._followed(self._share(released)))

    def _share(self, released: Sequence[Sequence[ArrivedRows]]) -> Share:
        """What has arrived by now: statistics of all streams, and the rows of the first."""
        places = self._generator.places_of([stream.key for stream in self._streams]).tolist()
        tick = max(self._now // self._settings.grid, self._generator.tick + 1)
        taken: list[Taken] = []
        codes, ticks, times = [_NONE], [_NONE], [_NONE]
        for place, parts in zip(places, released, strict=True):
            for part in parts:
                counted, in_ticks = self._counted(part, tick, taken)
                codes.append(np.full(len(counted), place))
                times.append(counted)
                ticks.append(in_ticks)
        all_codes, all_ticks, all_times = (np.concatenate(some) for some in (codes, ticks, times))
        groups = grouped(all_codes, all_ticks, _NONE, all_times, by_time=False) if len(all_codes) else NO_GROUPS
        own_times, own_ticks = (
            np.concatenate([_NONE, *some]) for some in ((one.rows.start for one in taken), (one.ticks for one in taken))
        )
        return Share(groups, taken, own_ticks, np.full(len(own_times), self._own), own_times)

    def _counted(self, part: ArrivedRows, tick: int, taken: list[Taken]) -> tuple[Times, Times]:
        """The times of rows that count, and their ticks; own rows are taken."""
        arrivals = part.arrivals if not self.by_clock else np.full(len(part.times), self._now)
        if part.rows is not None:
            rows, arrivals, _, ahead = self._without_rows_ahead(part.rows, arrivals, _NONE)
            ticks = self._ticks_of(arrivals, tick)
            taken.append(Taken(rows, ticks, ahead))
            return rows.start, ticks
        times = part.times
        if self._settings.ahead is not None:
            fine = times <= self._latest_allowed(times, arrivals, self._settings.ahead)
            times, arrivals = times[fine], arrivals[fine]
        return times, self._ticks_of(arrivals, tick)

    def _ticks_of(self, arrivals: Times, tick: int) -> Times:
        """The ticks of some rows: by the clock all arrive now, and by a column none before the last that was over."""
        ticks = np.full(len(arrivals), tick)
        if not self.by_clock:
            ticks_of(arrivals, self._settings.grid, ticks)
            np.maximum(ticks, self._generator.tick, out=ticks)
        return ticks

    # ---- in shards ---------------------------------------------------------------------------------------------------

    def on_arrivals(self, arrived: ArrivalStatistics, chunks: Iterable[EventBatch]) -> Iterator[Emission]:
        """Take in a micro-batch: what is known of all rows of all streams, and own rows that are here, in chunks."""
        return self._followed(self.share_of(arrived, chunks))

    def _sources(self, rows: EventBatch) -> Times:
        return np.full(rows.rows, self._own)

    def look_again_at(self, now: Instant, pause: Duration, horizon: Instant) -> Instant | None:
        """When to look at the clock again though nothing comes, after a pause or later; None if nothing moves."""
        if not self.by_clock or self._complete_before() > horizon:
            return None
        tick = self._generator.any_moves_next_at(np.array([self._own]), pause)
        return None if tick is None else max(within_int64(tick * self._settings.grid), now + pause)

    # ---- in both -----------------------------------------------------------------------------------------------------

    def _followed(self, share: Share) -> Iterator[Emission]:
        """Let the generator follow what has arrived; own rows go on, with what it proves of their stream."""
        own = np.full(len(share.times), BEGINNING)
        if share.groups.shape[1]:
            if self.by_clock:
                self._generator.begin(int(share.groups[1, 0]))
            self._generator.follow_statistics(
                share.groups, share.ticks, share.sources, share.times, closes=self.by_clock, own=own
            )
        bounds, edges = (
            complete_before_of(own),
            pairwise(accumulate((len(one.ticks) for one in share.taken), initial=0)),
        )
        for (rows, _, ahead), (first, stop) in zip(share.taken, edges, strict=True):
            yield self._emission(rows, np.arange(rows.rows), bounds[first:stop], ahead)
        yield self._punctuated_alone()

    def _punctuated_alone(self) -> Emission:
        """A punctuation behind all rows that have gone on, if it is news."""
        bound = self._complete_before()
        if not self._order.waits(0):
            bound = FOREVER if self._order.has_ended(0) else max(bound, self._input_complete)
        nothing = EventBatch.inserts(self._schema.no_rows, _NONE)
        return self._emission(nothing, np.zeros(1, dtype=np.int64), np.array([bound]), ())

    # ---- silence -----------------------------------------------------------------------------------------------------

    def wakes_at(self) -> Instant | None:
        """When the clock will have moved the first stream though no row has come; None if it moves nothing."""
        settings, generator = self._settings, self._generator
        if settings.wakes_every is None:
            return None
        if not generator.begun:
            delayed = settings.rules.delay[self._streams[0].name] is not None
            return BEGINNING if delayed else None
        tick = generator.any_moves_next_at(np.array([self._own]), max(settings.wakes_every // settings.grid, 1))
        return None if tick is None else within_int64(tick * settings.grid)

    def on_wake(self, now: Instant) -> Emission:
        """Punctuate as far as silence until now lets the first stream be complete."""
        self._generator.advance(now // self._settings.grid)
        return self._punctuated_alone()

    # ---- steered from outside ----------------------------------------------------------------------------------------

    def punctuate(self, bound: Instant) -> Emission:
        """Punctuate at a bound, whatever waits for its turn."""
        self._input_complete = max(self._input_complete, bound)
        return super().punctuate(bound)

    def _punctuated_by_now(self) -> Emission:
        return self._punctuated_alone()

    # ---- looking at it -----------------------------------------------------------------------------------------------

    @property
    def _distinguishes(self) -> bool:
        return True

    def _binding(self) -> Binding | None:
        return self._generator.binding_of(self._own)

    def _complete_before(self) -> Instant:
        return self._generator.complete_of(self._own)

    def _newest(self) -> Instant:
        return self._generator.newest_of(self._own)

    def newest(self) -> Instant:
        """The greatest time of all rows of the first stream, wherever they are, that are not ahead of the clock."""
        return self._newest()

    def goes_on_at(self) -> Instant | None:
        """When the first stream is complete further though no row comes."""
        tick = self._generator.rises_next_at(self._own)
        return None if tick is None else tick * self._settings.grid

    def snapshot(self) -> RelatedState:
        """Return all there is to remember."""
        beats = super().snapshot()
        order = self._order.snapshot()
        return RelatedState(beats.generator, beats.ahead, beats.punctuated, order, self._input_complete)

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        self._order.check()


_NONE: Times = np.empty(0, dtype=np.int64)
