"""The torture cases of Slackwater's own operators: streams to feed them, and what they mean by a slow oracle.

A new operator is found by itself and has no case here; the test that compares the two fails until it has one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.aggregate.aggregate import AggregateOperator
from slackwater.operators.aggregate.banded import BandedAggregateOperator
from slackwater.operators.aggregate.cut_at_changes import CutAtChangesOperator
from slackwater.operators.aggregate.early import EarlyAggregateOperator
from slackwater.operators.aggregate.map_windows import MapWindowsOperator
from slackwater.operators.assume_ordered import AssumeOrderedOperator
from slackwater.operators.emission import band_output
from slackwater.operators.map_batches import MapBatchesOperator
from slackwater.operators.match.followed_by import FollowedByOperator
from slackwater.operators.match.join import JoinOperator
from slackwater.operators.pass_through import PassThroughOperator
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.select import SelectOperator
from slackwater.operators.sort import SortOperator
from slackwater.operators.stamp import StampOperator
from slackwater.operators.union import UnionOperator
from slackwater.operators.where import WhereOperator
from slackwater.operators.window import WindowOperator
from slackwater.policies.aggregates import count, count_distinct, max, mean, min, sum, top_k  # noqa: A004
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.matching import Overlap, Within
from slackwater.policies.windows import Hopping, Sliding, Tumbling, Window
from slackwater.progress.instants import FOREVER
from slackwater.testing.by_column_cases import by_column_cases
from slackwater.testing.by_origin_cases import by_origin_cases
from slackwater.testing.deduplicating_cases import deduplicating_cases
from slackwater.testing.heartbeat_cases import heartbeat_cases
from slackwater.testing.merging_cases import merging_cases
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.oracles.matching import followed_by_oracle, join_oracle
from slackwater.testing.oracles.punctuate import punctuate_oracle
from slackwater.testing.oracles.windows import map_windows_oracle, window_oracle
from slackwater.testing.releasing_cases import releasing_cases
from slackwater.testing.revising_cases import revising_cases
from slackwater.testing.settling_cases import settling_cases
from slackwater.testing.strategies import disordered_batches, ordered_batches
from slackwater.testing.torture import TICK, Streams, TortureCase
from slackwater.testing.upserting_cases import upserting_cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hypothesis.strategies import SearchStrategy

    from slackwater.events.elements import Row
    from slackwater.operators.operator import Operator
    from slackwater.policies.aggregates import Aggregate

PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
"""The payload of the streams in these cases: a key that may be null, and a number."""

POINTS = EventSchema(PAYLOAD, TimeColumn("at", pa.int64()), None, ("at", "k", "v"))
"""Point events by sequence number."""

INTERVALS = EventSchema(
    PAYLOAD, TimeColumn("at", pa.int64()), TimeColumn("until", pa.int64()), ("at", "until", "k", "v")
)
"""Events with lifetimes."""

AGGREGATES: Mapping[str, Aggregate] = {
    "n": count(),
    "present": count("v"),
    "total": sum("v"),
    "least": min("v"),
    "most": max("v"),
    "mean": mean("v"),
    "distinct": count_distinct("v"),
    "top": top_k("v", 2),
}
"""Every aggregate there is."""


def _one(**options: Any) -> SearchStrategy[Streams]:
    return st.tuples(ordered_batches(PAYLOAD, **options))


def _two(**options: Any) -> SearchStrategy[Streams]:
    return st.tuples(ordered_batches(PAYLOAD, **options), ordered_batches(PAYLOAD, **options))


def _inserts(streams: Streams, port: int = 0) -> list[Insert]:
    return [element for element in elements_of(streams[port]) if isinstance(element, Insert)]


def _row(event: Insert) -> tuple[Any, ...]:
    assert isinstance(event.payload, tuple)
    return event.payload


def _with_times(event: Insert, *times: int | None) -> Insert:
    """The event with its shown times in front of its payload, as steps that replace times keep them."""
    return Insert((*times, *_row(event)), event.start, event.end)


def _window(window: Window, *, ordered: bool) -> TortureCase:
    def oracle(streams: Streams) -> Iterable[Insert]:
        for event in _inserts(streams):
            yield from window_oracle([_with_times(event, event.start)], window)  # type: ignore[misc]

    streams = _one() if ordered else st.tuples(disordered_batches(PAYLOAD))
    return TortureCase(
        f"{window} on {'ordered' if ordered else 'disordered'} events",
        WindowOperator,
        lambda state: WindowOperator(window, POINTS, ordered=ordered, resume=state),
        streams,
        oracle,
        ordered=ordered and not isinstance(window, Hopping),
        divided=(POINTS,),
    )


def _aggregate(keys: tuple[str, ...], *, ordered: bool) -> TortureCase:
    return TortureCase(
        f"aggregate by {keys} of {'ordered' if ordered else 'disordered'} events",
        AggregateOperator,
        lambda state: AggregateOperator(INTERVALS, keys, AGGREGATES, ordered=ordered, resume=state),
        st.tuples((ordered_batches if ordered else disordered_batches)(PAYLOAD, intervals=True)),
        lambda streams: aggregate_oracle(_inserts(streams), PAYLOAD.names, keys, AGGREGATES),
        divided=(INTERVALS,) if keys else (),
    )


def _in_windows(streams: Streams) -> Streams:
    """The same elements in windows of ten: so few groups that most rows revise an answer."""
    (batch,) = streams
    start = batch.start - batch.start % 10
    return (EventBatch(batch.payload, start, start + 10, batch.kind),)


def _aggregate_early(keys: tuple[str, ...], *, ordered: bool) -> TortureCase:
    return TortureCase(
        f"aggregate_early by {keys} of {'ordered' if ordered else 'disordered'} events",
        EarlyAggregateOperator,
        lambda state: EarlyAggregateOperator(INTERVALS, keys, AGGREGATES, ordered=ordered, resume=state),
        st.tuples((ordered_batches if ordered else disordered_batches)(PAYLOAD)).map(_in_windows),
        lambda streams: aggregate_oracle(_inserts(streams), PAYLOAD.names, keys, AGGREGATES),
        ordered=False,
    )


def _cut(keys: tuple[str, ...]) -> TortureCase:
    def oracle(streams: Streams) -> Iterable[Insert]:
        events = _inserts(streams)
        places = [PAYLOAD.names.index(key) for key in keys]
        for event in events:
            group = [e for e in events if [_row(e)[i] for i in places] == [_row(event)[i] for i in places]]
            changes = sorted({t for e in group if e.start < e.end for t in (e.start, e.end)})
            inside = [t for t in changes if event.start <= t <= event.end]
            for first, stop in itertools.pairwise(inside):
                yield Insert(event.payload, first, stop)

    return TortureCase(
        f"cut_at_changes by {keys}",
        CutAtChangesOperator,
        lambda state: CutAtChangesOperator(INTERVALS, keys, resume=state),
        _one(intervals=True),
        oracle,
        ordered=False,
    )


_DOUBLED = pa.schema({"twice": pa.int64(), "k": pa.string()})


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Twice the number, and the key."""
    return pa.record_batch({"twice": pc.multiply(rows.column("v"), 2), "k": rows.column("k")}, schema=_DOUBLED)


_PLACED = pa.schema({"k": pa.string(), "place": pa.int64(), "of": pa.int64()})


def _placed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Number the rows of a window, and leave out those that are not positive: all of some windows."""
    count = rows.num_rows
    columns = [rows.column("k"), pa.array(range(count), pa.int64()), pa.array([count] * count, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=_PLACED).filter(pc.greater(rows.column("v"), 0))


def _placed_oracle(rows: Sequence[Row]) -> Iterable[Row]:
    return [(k, place, len(rows)) for place, (k, v) in enumerate(rows) if isinstance(v, int) and v > 0]


def _map_windows(schema: EventSchema, *, ordered: bool) -> TortureCase:
    intervals = schema is INTERVALS
    extent, order = "intervals" if intervals else "points", "ordered" if ordered else "disordered"
    return TortureCase(
        f"map_windows of {order} {extent}",
        MapWindowsOperator,
        lambda state: MapWindowsOperator(schema, _placed, _PLACED, ordered=ordered, resume=state),
        st.tuples((ordered_batches if ordered else disordered_batches)(PAYLOAD, intervals=intervals)),
        lambda streams: map_windows_oracle(_inserts(streams), _placed_oracle),
    )


def _punctuate(every: Every, late: Late, *patiences: int) -> TortureCase:
    cadence = every.resolved(calendar=False)

    def oracle(streams: Streams) -> Iterable[Insert]:
        expected = punctuate_oracle([list(elements_of(streams[0]))], patiences, cadence, late, points=False)
        return [element for element in expected.bands[0] if isinstance(element, Insert)]

    return TortureCase(
        f"punctuate {every} with patience {patiences}, late rows {late}",
        PunctuateOperator,
        lambda state: PunctuateOperator(INTERVALS, patiences, cadence, late, resume=state),
        st.tuples(disordered_batches(PAYLOAD, intervals=True)),
        oracle,
        ordered=False,
    )


def _sort(schema: EventSchema) -> TortureCase:
    intervals = schema is INTERVALS
    return TortureCase(
        f"sort {'intervals' if intervals else 'points'}",
        SortOperator,
        lambda state: SortOperator(schema, resume=state),
        st.tuples(disordered_batches(PAYLOAD, intervals=intervals)),
        _inserts,
        divided=(schema,),
    )


def _in_bands(keys: tuple[str, ...], band: int) -> TortureCase:
    def oracle(streams: Streams) -> Iterable[Insert]:
        events = [event for port in range(band + 1) for event in _inserts(streams, port)]
        for answer in aggregate_oracle(events, PAYLOAD.names, keys, AGGREGATES):
            yield Insert((*_row(answer), band), answer.start, answer.end)

    return TortureCase(
        f"in_bands by {keys}, band {band} of 3",
        BandedAggregateOperator,
        lambda state: BandedAggregateOperator(INTERVALS, keys, AGGREGATES, 3, resume=state),
        st.tuples(*[disordered_batches(PAYLOAD, intervals=True, max_rows=12)] * 3),
        oracle,
        output=band_output(band) if band else None,
        divided=(INTERVALS,) * 3 if keys else (),
    )


def _matching(
    name: str, build: Callable[[Any], Operator[Any]], streams: SearchStrategy[Streams], oracle: Callable[..., Any]
) -> TortureCase:
    operator = type(build(None))
    divided = (POINTS, POINTS) if "by key" in name else ()
    return TortureCase(name, operator, build, streams, oracle, divided=divided)


def _shown(streams: Streams, port: int, *, intervals: bool = False) -> list[Insert]:
    """Events as a join keeps them: their times in front, and no end as null."""
    return [
        _with_times(event, event.start, None if event.end == FOREVER else event.end)
        if intervals
        else _with_times(event, event.start)
        for event in _inserts(streams, port)
    ]


CASES: tuple[TortureCase, ...] = (
    TortureCase(
        "where",
        WhereOperator,
        lambda _: WhereOperator(POINTS, nw.col("v") > 0),
        _one(),
        lambda streams: [e for e in _inserts(streams) if _row(e)[1] is not None and _row(e)[1] > 0],
        divided=(POINTS,),
    ),
    TortureCase(
        "select",
        SelectOperator,
        lambda _: SelectOperator(POINTS, {"k": "k", "twice": nw.col("v") * 2}),
        _one(),
        lambda streams: [
            Insert((k, None if v is None else v * 2), e.start, e.end) for e in _inserts(streams) for k, v in [_row(e)]
        ],
        divided=(POINTS,),
    ),
    TortureCase(
        "map_batches",
        MapBatchesOperator,
        lambda _: MapBatchesOperator(POINTS, _doubled, _DOUBLED, ("at",), "map_batches"),
        _one(),
        lambda streams: [
            Insert((None if v is None else v * 2, k), e.start, e.end) for e in _inserts(streams) for k, v in [_row(e)]
        ],
        divided=(POINTS,),
    ),
    TortureCase(
        "assume_ordered",
        AssumeOrderedOperator,
        lambda state: AssumeOrderedOperator(POINTS, resume=state),
        _one(),
        _inserts,
    ),
    TortureCase(
        "stamp",
        StampOperator,
        lambda state: StampOperator(POINTS.no_rows, state),
        _one(),
        lambda streams: [Insert(e.payload, TICK, TICK + 1) for e in _inserts(streams)],
    ),
    TortureCase(
        "pass_through of two",
        PassThroughOperator,
        lambda _: PassThroughOperator(),
        _two(),
        lambda streams: [*_inserts(streams, 0), *_inserts(streams, 1)],
        ordered=False,
        divided=(POINTS, POINTS),
    ),
    TortureCase(
        "union of two",
        UnionOperator,
        lambda state: UnionOperator(2, POINTS.no_rows, resume=state),
        _two(),
        lambda streams: [*_inserts(streams, 0), *_inserts(streams, 1)],
        divided=(POINTS, POINTS),
    ),
    TortureCase(
        "union of three interval streams",
        UnionOperator,
        lambda state: UnionOperator(3, POINTS.no_rows, resume=state),
        st.tuples(*[ordered_batches(PAYLOAD, intervals=True, max_rows=12)] * 3),
        lambda streams: [event for port in range(3) for event in _inserts(streams, port)],
        divided=(INTERVALS,) * 3,
    ),
    *(_window(window, ordered=ordered) for window in (Tumbling(5, 2), Hopping(7, 3), Hopping(2, 5), Sliding(4))
      for ordered in (True, False)),
    *(_aggregate(keys, ordered=ordered) for keys in ((), ("k",)) for ordered in (True, False)),
    *(_aggregate_early(keys, ordered=ordered) for keys in ((), ("k",)) for ordered in (True, False)),
    *(_map_windows(schema, ordered=ordered) for schema in (POINTS, INTERVALS) for ordered in (True, False)),
    _cut(()),
    _cut(("k",)),
    _punctuate(Every.rows(3), Late.divert(), 5),
    _punctuate(Every.time(4), Late.adjust(), 5),
    _punctuate(Every.time(4), Late.drop(), 2, 10),
    _sort(POINTS),
    _sort(INTERVALS),
    *(_in_bands(keys, band) for keys in ((), ("k",)) for band in range(3)),
    _matching(
        "join within 3 by key",
        lambda state: JoinOperator(POINTS, POINTS, ("k",), Within.of(3), resume=state),
        _two(max_rows=15),
        lambda s: join_oracle(_shown(s, 0), _shown(s, 1), [(1, 1)], Within.of(3)),
    ),
    _matching(
        "join while both last, no key",
        lambda state: JoinOperator(INTERVALS, INTERVALS, (), Overlap(), resume=state),
        _two(intervals=True, max_rows=8),
        lambda s: join_oracle(_shown(s, 0, intervals=True), _shown(s, 1, intervals=True), [], Overlap()),
    ),
    _matching(
        "followed_by within 4 by key",
        lambda state: FollowedByOperator(POINTS, POINTS, ("k",), 4, resume=state),
        _two(max_rows=15),
        lambda s: followed_by_oracle(_shown(s, 0), _shown(s, 1), [(1, 1)], 4),
    ),
    *deduplicating_cases(PAYLOAD),
    *upserting_cases(PAYLOAD),
    *heartbeat_cases(POINTS, "k", "v"),
    *by_origin_cases(POINTS, INTERVALS, AGGREGATES),
    *merging_cases(PAYLOAD),
    *by_column_cases(PAYLOAD),
    *releasing_cases(POINTS),
    *revising_cases(PAYLOAD),
    *settling_cases(PAYLOAD),
)  # fmt: skip
"""All cases, several for operators with several ways to work."""
