"""Takes the changes of a log that come at one instant together: what they come to goes out, and then how far it is.

Changes of one event may stand in any order within an instant, as in a micro-batch of Spark, whose rows come in none.
Each takes an event from the temporal table or puts one there, or does both; their sum does not depend on their order.
So of each start and payload the ends that are taken away are paired with those that are put there: a pair is an adjust,
what is left of the former are removals, of the latter inserts. An event that came and went within the instant is not
seen.

Invariant: nothing is held between two instants. No change goes out that concerns time before the greatest punctuation
of an earlier instant, unless somebody who looks after late changes reads them.
Cost: O(changes) look-ups, and O(log changes) for each to order the ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.columns.row_codec import RowCodec
from slackwater.columns.row_numbers import RowNumbers
from slackwater.errors import BrokenPunctuation
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.changes import ChangeLog, concerned_from
from slackwater.events.gather import gather
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_row
from slackwater.kernels.columns.number_pairs import number_pairs
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

    Column = NDArray[np.int64]

_ADJUST, _INSERT = np.int8(Kind.ADJUST), np.int8(Kind.INSERT)


@dataclass(frozen=True)
class NetChangesState:
    """What is remembered: the greatest punctuation, and the changes of an instant that has not ended."""

    high_water: Instant = BEGINNING
    waiting: tuple[EventBatch, ...] = ()


class NetChangesOperator(Operator[NetChangesState]):
    """Sends the net changes of each instant. One ends with a batch that has a punctuation, or when the runner says so.

    >>> import pyarrow as pa
    >>> from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "until": pa.int64(), "x": pa.string()}), "at", "until")
    >>> step = NetChangesOperator(schema)
    >>> log = [Adjust(("a",), 2, 9, 5), Insert(("b",), 3, 4), Insert(("a",), 2, 9), Punctuate(4)]
    >>> for batch in step.on_batch(0, batch_of(log, schema.payload)).batches:
    ...     print(*elements_of(batch))
    insert(('a',), 2, 5) insert(('b',), 3, 4)
    punctuate(4)
    """

    __slots__ = ("_checked", "_codec", "_complete", "_peak", "_schema", "_waiting", "_where")
    state_types = (NetChangesState, EventBatch)

    def __init__(
        self, schema: EventSchema, step: str = "changes", resume: NetChangesState | None = None, *, checked: bool = True
    ) -> None:
        state = resume or NetChangesState()
        self._schema = schema
        self._where = f"step {step!r}"
        self._checked = checked
        self._codec = RowCodec(schema.payload, step)
        self._complete = state.high_water
        self._waiting = list(state.waiting)
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Take changes in; a punctuation among them ends the instant when the batch does."""
        if batch.rows:
            self._waiting.append(batch.data())
            self._peak = max(self._peak, self.buffered())
        bounds = batch.punctuations() if len(batch) > batch.rows else ()
        return self.end_instant(int(max(bounds))) if len(bounds) else NOTHING

    def end_instant(self, punctuated: Instant) -> Emission:
        """Send what the changes since the last instant come to; and that no later one concerns time before a bound."""
        net = self._net(EventBatch.concat(self._waiting)) if self._waiting else None
        self._waiting = []
        if net is not None and self._checked:
            self._refuse_late(net)
        if punctuated <= self._complete:
            return NOTHING if net is None else Emission.of(net)
        self._complete = punctuated
        return Emission.of(*([] if net is None else [net]), punctuation_like(self._schema.no_rows, punctuated))

    def _net(self, changes: EventBatch) -> EventBatch:
        """What changes come to, event by event, in the order in which these are first met."""
        of_payload = RowNumbers().number(self._codec.encode(changes.payload))
        events, firsts = number_pairs(of_payload, changes.start)
        adjusts, ends = changes.kinds() == _ADJUST, changes.ends()
        puts = ~adjusts | (ends != changes.start)
        event = np.concatenate([events[adjusts], events[puts]])
        end = np.concatenate([changes.prior_ends()[adjusts], ends[puts]])
        more = np.repeat(np.array([-1, 1]), [len(event) - int(puts.sum()), int(puts.sum())])
        (taken, priors), (put, news) = _balance(event, end, more)
        # An adjust to the start would be a removal, so an event of no length is put there by itself.
        of_put = np.full(len(put), -1)
        lasting = np.flatnonzero(news != changes.start[firsts[put]])
        of_taken, of_put[lasting] = _paired(taken, put[lasting], len(changes))
        paired, alone = of_taken >= 0, of_put < 0

        rows = firsts[np.concatenate([taken, put[alone]])]
        starts = changes.start[rows]
        closes = starts[: len(taken)].copy()
        closes[paired] = news[lasting][of_taken[paired]]
        order = np.argsort(rows, kind="stable")
        return EventBatch(
            gather(changes.payload, rows[order]),
            starts[order],
            np.concatenate([closes, news[alone]])[order],
            np.repeat(np.array([_ADJUST, _INSERT]), [len(closes), len(rows) - len(closes)])[order],
            np.concatenate([priors, news[alone]])[order],
        )

    def _refuse_late(self, net: EventBatch) -> None:
        late = np.flatnonzero(concerned_from(net) < self._complete)
        if len(late):
            first = int(late[0])
            came = show_row(ChangeLog(self._schema).show(net.slice(first, first + 1)), 0)
            raise BrokenPunctuation.by(self._where, came, self._schema.time.show(self._complete))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Send what is left."""
        return self.end_instant(self._complete)

    def buffered(self) -> int:
        """How many changes of an instant wait that has not ended."""
        return sum(batch.rows for batch in self._waiting)

    def peak_buffered(self) -> int:
        """The most changes that waited: all of an instant are taken in before any goes."""
        return self._peak

    def idle_waiting_on(self) -> Port | None:
        """The input, within an instant."""
        return 0 if self._waiting else None

    def snapshot(self) -> NetChangesState:
        """Return what is remembered."""
        return NetChangesState(self._complete, tuple(self._waiting))


def _balance(event: Column, end: Column, more: Column) -> tuple[tuple[Column, Column], tuple[Column, Column]]:
    """Which ends of which events there are less of, and which more: each as often as that, by event, then by end."""
    order = np.lexsort((end, event))
    event, end = event[order], end[order]
    begins = np.flatnonzero(np.r_[True, (event[1:] != event[:-1]) | (end[1:] != end[:-1])])
    sums = np.add.reduceat(more[order], begins)
    less, greater = np.maximum(-sums, 0), np.maximum(sums, 0)
    return (
        (np.repeat(event[begins], less), np.repeat(end[begins], less)),
        (np.repeat(event[begins], greater), np.repeat(end[begins], greater)),
    )


def _paired(ones: Column, others: Column, most: int) -> tuple[Column, Column]:
    """Pair the first of each event with the first of the other side, and so on; -1 where one has no partner."""
    one_keys, other_keys = _numbered(ones, most), _numbered(others, most)
    return _place_in(one_keys, other_keys), _place_in(other_keys, one_keys)


def _numbered(events: Column, most: int) -> Column:
    """Events, given in order, with the number that each has among its like; there are fewer than `most` doubled."""
    first = np.searchsorted(events, events)
    return events * (2 * most + 1) + np.arange(len(events)) - first


def _place_in(keys: Column, known: Column) -> Column:
    """Where each key stands among others; -1 where it does not."""
    if not len(known):
        return np.full(len(keys), -1)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[places] == keys, places, -1)
