"""What users write, as a type checker sees it; mypy reads this file, nothing runs it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_type

import narwhals as nw
import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator


def ordered_counts(path: str) -> sw.OrderedStream:
    """A file, windows, groups."""
    flights = sw.stream(path, time="departed", until="landed")
    assert_type(flights, sw.DisorderedStream)
    long_ones = flights.where(nw.col("distance") > 500).select("carrier", speed=nw.col("distance") / nw.col("minutes"))
    assert_type(long_ones, sw.DisorderedStream)
    ordered = long_ones.assume_ordered()
    assert_type(ordered, sw.OrderedStream)
    assert_type(ordered.where(nw.col("speed") > 1.0), sw.OrderedStream)
    hourly = ordered.tumbling("1h", offset=timedelta(minutes=15)).group_by("carrier")
    return hourly.aggregate(n=sw.count(), speed=sw.mean("speed"), best=sw.top_k("speed", 3))


def two_sources() -> sw.Result:
    """Live sources, a union, a clock that is moved by hand."""
    web = sw.PushSource({"user": pa.string()}, name="web", capacity=1_000)
    app = sw.PushSource(pa.schema({"user": pa.string()}))
    both = sw.union(sw.arrivals(web), sw.arrivals(app, punctuations=sw.Punctuations.on_demand()))
    web.push({"user": "ann"})
    app.push([{"user": "bob"}], timeout=1.0)
    clock = sw.ManualClock(100)
    clock.advance(5)
    now: int = clock.now()
    assert now < sw.FOREVER
    result = both.join(sw.arrivals([{"user": "ann"}]), on="user", within="5s").run(clock=clock)
    assert_type(result, sw.Result)
    return result


def driven_by_hand(stream: sw.OrderedStream) -> dict[str, Any]:
    """A query that is worked, looked at, and closed."""
    seen: list[pa.RecordBatch] = []
    with stream.open(seen.append, clock=sw.SystemClock(), batch_rows=1_000, buffer_limit=100_000) as query:
        assert_type(query, sw.Query)
        query.work()
        held: int = query.counters()["source#1"].buffered
        assert held == 0
        return query.snapshot()


def parameters_have_names_and_types(stream: sw.OrderedStream, bands: sw.PatienceBands, session: Any) -> None:
    """What is misspelt, or of another type, is seen before anything runs."""
    stream.open(print, batch_rows="1000")  # type: ignore[arg-type]
    stream.open(print, shards=2)  # type: ignore[call-arg]
    sw.Query([(stream, print)], buffer_limit=1.5)  # type: ignore[arg-type]
    bands.open(print, batch_row=1_000)  # type: ignore[call-arg]
    stream.start(checkpoint="c", main="out", shards="2")  # type: ignore[arg-type]
    stream.start(checkpoint="c", main="out", batch_rows=2)  # type: ignore[call-arg]
    bands.start(checkpoint="c", main=["a", "b"], shard=2)  # type: ignore[call-arg]
    bands.start(checkpoint="c", main="out", late="late", timeout=timedelta(seconds=30), shards=2, chunk_rows=1_000)
    sw.start_together([(stream, "out")], checkpoint="c", chunks=2)  # type: ignore[call-arg]
    stream.to_spark(shards=2, memory="64MB", chunk_rows=1_000)
    stream.start(checkpoint="c", main="out", memory=1.5)  # type: ignore[arg-type]
    stream.to_spark(shard=2)  # type: ignore[call-arg]
    sw.parquet_files(session, "in", maxFilesPerTrigger=1, pathGlobFilter="*.parquet")
    sw.parquet_files(session, "in", maxFilesPerTigger=1)  # type: ignore[call-arg]


def read_along(stream: sw.DisorderedStream) -> Iterator[int]:
    """Batches as they come, and a function over Arrow rows as a predicate."""

    def positive(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([value > 0 for value in rows.column("v").to_pylist()])

    for rows in stream.where(positive).batches():
        yield rows.num_rows


def with_late_rows(stream: sw.OrderedStream, path: str) -> int:
    """Rows that came too late: read, called back with, written, and in the result."""
    assert_type(stream.late, sw.DisorderedStream)
    late: list[pa.RecordBatch] = []
    with stream.open(lambda _: None, on_late=late.append) as query:
        query.work()
    for _ in stream.batches(on_late=late.append):
        pass
    stream.write_parquet(path, late=f"late-{path}")
    result = stream.for_each(lambda _: None, on_late=late.append)
    return result.counters["source#1"].late + sum(table.num_rows for table in result.late_by_source.values())


def together(one: sw.OrderedStream, other: sw.DisorderedStream) -> int:
    """Several streams in one run."""
    results = sw.run_together(one, other)
    assert_type(results, list[sw.Result])
    return sum(result.table.num_rows for result in results)


def put_in_order(path: str) -> sw.OrderedStream:
    """Patience, how often the bound moves, and what becomes of late rows."""
    flights = sw.stream(path, time="departed")
    assert_type(flights.sort(), sw.OrderedStream)
    assert_type(flights.sort(timedelta(hours=6), every=sw.Every.rows(1_000), late=sw.Late.drop()), sw.OrderedStream)
    ordered = flights.tumbling("1h").sort(patience="6h", every=sw.Every.time("1m"), late=sw.Late.divert())
    assert_type(ordered, sw.OrderedStream)
    assert_type(ordered.late.where(nw.col("distance") > 500).sort(), sw.OrderedStream)
    result = ordered.run()
    late: pa.Table = result.late
    return ordered.where(nw.col("distance") > late.num_rows)


def in_bands(path: str) -> list[sw.Result]:
    """A stream for each patience: of events, of aggregates, of a query of one's own."""
    flights = sw.stream(path, time="departed")
    events = flights.in_bands("10m", timedelta(hours=1), "1d", every=sw.Every.batch(), late=sw.Late.adjust())
    assert_type(events, sw.PatienceBands)
    early, fuller, final = events
    assert_type(early, sw.OrderedStream)
    assert_type(events[-1], sw.OrderedStream)
    assert_type([stream.late for stream in events[1:]], list[sw.DisorderedStream])
    hourly = flights.tumbling("1h").group_by("carrier").in_bands("10m", "1d", n=sw.count(), delay=sw.mean("delay"))
    assert_type(hourly, sw.PatienceBands)
    assert_type(flights.tumbling("1h").in_bands("10m", n=sw.count()), sw.PatienceBands)

    def longest(part: sw.OrderedStream) -> sw.OrderedStream:
        return part.group_by("carrier").aggregate(delay=sw.max("delay"))

    own = flights.tumbling("1h").in_bands(
        "10m", "1d", partial=longest, merge=lambda both: longest(both.where(nw.col("delay") > 0))
    )
    seen: list[pa.RecordBatch] = []
    with own.open(seen.append, on_late=seen.append, clock=sw.ManualClock()) as query:
        assert_type(query, sw.Query)
    patiences: tuple[str, ...] = own.patiences
    text: str = hourly.explain()
    assert patiences
    assert text
    assert_type(hourly.run(), list[sw.Result])
    return sw.run_together(early, fuller.where(nw.col("delay") > 0), final.late, *hourly)


def revised(path: str) -> sw.OrderedStream:
    """A log of changes, row by row, and settled."""
    leases = sw.changes(path, time="start", until="end", prior="ended_before", kind="op", keyed=True)
    assert_type(leases, sw.RevisedStream)
    kept = leases.where(nw.col("user") != "root").select("user", day=nw.col("start").dt.date())
    assert_type(kept, sw.RevisedStream)
    assert_type(kept.settle(), sw.OrderedStream)
    assert_type(kept.run(), sw.Result)
    assert_type(kept.late, sw.DisorderedStream)
    return kept.settle().tumbling("1h").aggregate(n=sw.count())


def replicas(blue: sw.OrderedStream, green: sw.RevisedStream, red: sw.DisorderedStream) -> sw.OrderedStream:
    """Of any kind; emitted when they are frozen, or before."""
    assert_type(sw.merge_replicas(blue, green, red, standby=[green], attachable=True), sw.OrderedStream)
    early = sw.merge_replicas(blue, green, agreement=sw.Agreement.first(), complete_from={green: datetime(2026, 1, 1)})  # noqa: DTZ001 - UTC, as columns without a zone
    assert_type(early, sw.OrderedStream | sw.RevisedStream)
    assert_type(early.settle(), sw.OrderedStream)
    assert_type(sw.high_availability(blue, green, red), sw.OrderedStream)
    assert_type(sw.fast_availability(blue, green), sw.OrderedStream | sw.RevisedStream)
    started = sw.jumpstart(red, green, since=5)
    assert_type(started, sw.RevisedStream)
    with started.open(lambda _: None) as query:
        query.attach(green, complete_from=7, instead_of=blue)
        sw.cutover(query, blue, green, complete_from=9)
        query.detach(blue)
        lines: list[str] = [str(standing) for standing in query.replicas() if not standing.joined]
        assert lines
    return started.settle()


def racing_plans(rows: sw.DisorderedStream) -> sw.Result:
    """Two plans of one query, and what shows one of them that it need not go on."""

    def scored(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("score", batch["x"])

    assert_type(rows.map_batches(scored), sw.DisorderedStream)
    plan = rows.assume_ordered().map_batches(scored, schema=pa.schema({"score": pa.int64()}))
    assert_type(plan, sw.OrderedStream)
    race = sw.Race(plan, plan.where(nw.col("score") > 0), batch_rows=100)
    race.run_plan(0)
    source = sw.PushSource({"x": pa.int64()})
    plan.open(source.push).ignore_before(source.wanted_from)
    assert_type(race.merged, sw.OrderedStream)
    return race.merged.run()
