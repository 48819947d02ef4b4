"""stream(), arrivals() and unstamped(): the three ways in, by who gives the events their times."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.source_lateness import SourceLateness
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.policies.punctuations import Punctuations, When
from slackwater.sources.delta import from_delta_table
from slackwater.sources.duckdb_tables import from_duckdb, is_duckdb_file
from slackwater.sources.files import from_path
from slackwater.sources.push import PushSource
from slackwater.sources.tables import from_pandas, from_reader, from_rows, from_table
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.ordered import OrderedStream

if TYPE_CHECKING:
    from slackwater.plan.feed import Feed
    from slackwater.policies.late import Late

ARRIVED_AT = "arrived_at"
"""The time column of streams that bring none."""


def stream(
    source: Any,
    *,
    time: str,
    until: str | None = None,
    name: str | None = None,
    schema: pa.Schema | None = None,
    punctuations: Punctuations | None = None,
    untimed_is_late: bool = False,
    late: Late | None = None,
    origin: str | None = None,
    arrived: str | None = None,
) -> DisorderedStream:
    """Make a stream of rows that bring their own times, in their order of arrival.

    `source` is an Arrow table, record batch or reader, a pandas or Polars frame, a relation of DuckDB, a DeltaTable, a
    path (Parquet, CSV, JSON lines, a folder of one of these or of a Delta table, a file of DuckDB), an iterable of
    mappings, a PushSource, a DataFrame of Spark, streaming or not, or what Spark reads for this library
    (`parquet_files`, `delta_table`, `jetstream`). `time` names the column of event times; `until` the column of their
    ends, exclusive, where null means "not known yet".
    `punctuations` says when a live source punctuates by the clock. A row that comes behind such a punctuation is
    late: by default it goes to the late output, with the bound it missed, and `late` says what else becomes of it. A
    sort() or in_bands() with a patience decides by its own policy, unless `late` was given here.

    `origin` names the column that says which source a row is from, where rows of several come together, and `arrived`
    the column with the instant at which each row arrived, for files and backfills: `sort(bounds=...)` goes by both.

    A row whose time is null stops the query. With `untimed_is_late=True` it is late instead, whenever it comes: the
    step that has a patience treats it as its policy says, by default in the late output, with a null `late_by`. Steps
    before that pass it on with a null time, and measures of disorder leave it out. It is for streams that are sorted
    with a patience, or taken in bands; assume_ordered(), sort() without a patience and `punctuations` are refused.

    >>> rows = [{"at": 3, "x": "a"}, {"at": 1, "x": "b"}]
    >>> stream(rows, time="at").run().table.to_pydict()
    {'at': [3, 1], 'x': ['a', 'b']}
    >>> result = stream([*rows, {"at": None, "x": "c"}], time="at", untimed_is_late=True).sort(patience=5).run()
    >>> result.table["x"].to_pylist(), result.late.to_pylist()
    (['b', 'a'], [{'at': None, 'x': 'c', 'late_bound': None, 'late_by': None}])
    """
    feed = feed_of(source, name, schema)
    event_schema = EventSchema.of(feed.schema, time, until, "stream")
    chosen = punctuations or Punctuations.none()
    if chosen.when is not When.NEVER:
        _require_punctuating(feed, event_schema, chosen)
    if _lets_untimed_in(untimed_is_late, feed, chosen):
        event_schema = event_schema.with_untimed_rows()
    extent = Extent.POINTS if until is None else Extent.INTERVALS
    facts = Properties(extent=extent, punctuated=chosen.when is not When.NEVER, untimed=untimed_is_late)
    _require_column(event_schema, origin, "origin")
    _require_arrivals(event_schema, arrived)
    node = SourceNode(name or feed.name, feed, event_schema, facts, chosen, origin, arrived)
    if chosen.when is not When.NEVER:
        return DisorderedStream(SourceLateness.behind(node, late))
    if late is not None:
        facts_given, hint = {"late": late}, "give it to sort(patience=..., late=...), which says when a row is late"
        raise PlanError(message("late= is for live sources that punctuate by the clock", facts_given, hint))
    return DisorderedStream(node)


def arrivals(
    source: Any,
    *,
    name: str | None = None,
    schema: pa.Schema | None = None,
    punctuations: Punctuations | None = None,
) -> OrderedStream:
    """Make a stream whose events happen when they arrive: stamped by the clock, so ordered by nature.

    The stamp is the time column "arrived_at". A step that waits for this source may ask it how far it has come; it
    then punctuates up to the present (on-demand punctuations, the default).

    - `source`, `name` and `schema` are those of stream(); `punctuations` decides when the source punctuates.

    >>> import slackwater as sw
    >>> sw.arrivals([{"user": "ann"}]).run(clock=sw.ManualClock(5_000_000)).table["arrived_at"].to_pylist()[0].second
    5
    """
    feed = feed_of(source, name, schema)
    return OrderedStream(_without_times(feed, name, Stamps.INTERNAL, punctuations or Punctuations.on_demand()))


def unstamped(source: Any, *, name: str | None = None, schema: pa.Schema | None = None) -> OrderedStream:
    """Make a stream whose events have no times until a step needs them (latent time-stamps).

    Rows pass a union as they come. A step that needs times stamps them with the time at which it processes them.

    >>> import slackwater as sw
    >>> sw.unstamped([{"user": "ann"}, {"user": "bob"}]).run().table["user"].to_pylist()
    ['ann', 'bob']
    """
    feed = feed_of(source, name, schema)
    return OrderedStream(_without_times(feed, name, Stamps.LATENT, Punctuations.none()))


def feed_of(source: Any, name: str | None = None, schema: pa.Schema | None = None) -> Feed:
    """Find out what a source is, and read it accordingly."""
    schema = pa.schema(schema) if isinstance(schema, Mapping) else schema
    feed = _feed_of(source, name, schema)
    if schema is not None and feed.schema != schema:
        hint = "leave schema= out: it is for iterables of mappings"
        raise PlanError(message("this source knows its own columns", {"source": feed.name}, hint))
    return feed


def feed_of_table(source: Any, table: str) -> Feed:
    """The table of a file of DuckDB; nothing else has several to choose from."""
    if isinstance(source, str | Path) and is_duckdb_file(path := Path(source)):
        return from_duckdb(path, table)
    facts, hint = (
        {"table": table, "source": source if isinstance(source, str | Path) else type(source).__name__},
        "leave it out",
    )
    raise PlanError(message("table= is for files of DuckDB", facts, hint))


def _feed_of(source: Any, name: str | None, schema: pa.Schema | None) -> Feed:
    match source:
        case PushSource():
            feed: Feed = source
        case str() | Path():
            feed = from_path(Path(source), name)
        case pa.Table() | pa.RecordBatch():
            feed = from_table(source, name or "table")
        case pa.RecordBatchReader():
            feed = from_reader(source, name or "reader")
        case _ if type(source).__module__.startswith("pandas.") and hasattr(source, "columns"):
            feed = from_pandas(source, name or "frame")
        case _ if type(source).__module__.startswith("deltalake.") and hasattr(source, "to_pyarrow_dataset"):
            feed = from_delta_table(source, name or "table")
        case _ if _is_of_spark(source):
            from slackwater.runners.spark.source import feed_on_spark  # loads Spark, which is there

            feed = feed_on_spark(source, name)
        case _ if hasattr(source, "__arrow_c_stream__"):
            feed = from_reader(pa.RecordBatchReader.from_stream(source), name or "reader")
        case _ if hasattr(source, "__iter__") and not isinstance(source, bytes | bytearray | Mapping):
            feed = from_rows(source, name or "rows", schema)
        case _:
            hint = "pass an Arrow table or reader, a pandas or Spark frame, a path, mappings, or a PushSource"
            raise PlanError(message("this is not a source of rows", {"got": type(source).__name__}, hint))
    return feed


def _is_of_spark(source: Any) -> bool:
    """Whether it is a DataFrame, or what the Spark runner makes of one, without loading either."""
    kinds = ("pyspark.", "slackwater.runners.spark.")
    return any(kind.__module__.startswith(kinds) for kind in type(source).__mro__)


def _without_times(feed: Feed, name: str | None, stamps: Stamps, punctuations: Punctuations) -> SourceNode:
    if ARRIVED_AT in feed.schema.names:
        raise SchemaMismatch.clash("arrivals", ARRIVED_AT, "rename the column, or use stream(time='arrived_at')")
    time = TimeColumn(ARRIVED_AT, pa.timestamp("us", "UTC"))
    schema = EventSchema(feed.schema, time, None, (ARRIVED_AT, *feed.schema.names))
    return SourceNode(name or feed.name, feed, schema, Properties(order=Order.TIES, stamps=stamps), punctuations)


def _lets_untimed_in(untimed_is_late: bool, feed: Feed, chosen: Punctuations) -> bool:
    """Refuse rows without a time where the source punctuates by the clock: none of its rows may be late."""
    if not isinstance(untimed_is_late, bool):
        raise PlanError(message("untimed_is_late= is True or False", {"got": repr(untimed_is_late)}))
    if untimed_is_late and chosen.when is not When.NEVER:
        facts, hint = {"source": feed.name, "punctuations": chosen}, "leave punctuations out, and have patience instead"
        raise PlanError(message("untimed_is_late=True does not go with punctuations of the source", facts, hint))
    return untimed_is_late


def _require_column(schema: EventSchema, name: str | None, what: str) -> None:
    """Refuse a column that there is not, or that is the time itself."""
    if name is not None and name not in schema.payload.names:
        facts = {what: name, "columns": ", ".join(schema.payload.names)}
        raise SchemaMismatch(message(f"{what}= names a column beside those of times", facts))


def _require_arrivals(schema: EventSchema, arrived: str | None) -> None:
    """Refuse a column of arrivals that has no instants."""
    _require_column(schema, arrived, "arrived")
    if arrived is not None:
        kind = schema.payload.field(arrived).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            hint = "cast it to a timestamp, or to whole numbers"
            raise SchemaMismatch.wrong_type("stream", arrived, kind, "instants: timestamps or whole numbers", hint)


def _require_punctuating(feed: Feed, schema: EventSchema, chosen: Punctuations) -> None:
    """Refuse punctuations that a source with times of its own could not make."""
    facts = {"source": feed.name, "punctuations": chosen}
    if not feed.live:
        raise PlanError(message("only a live source punctuates by the clock", facts, "leave punctuations out"))
    if chosen.skew is None:
        hint = 'say the greatest skew between two arrivals: Punctuations.on_demand(skew="2s")'
        raise PlanError(message("punctuating by the clock needs a skew where rows bring their own times", facts, hint))
    if not schema.calendar:
        hint = "use a timestamp column, or push punctuating events yourself"
        raise PlanError(message("punctuating by the clock needs calendar time, not sequence numbers", facts, hint))
