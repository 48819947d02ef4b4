"""Streams that are revised, in shards without Spark around them: as sources, within plans, and as what is written."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from without_spark import cut, in_shards

import slackwater as sw
from slackwater.errors import BrokenPunctuation, PlanError
from slackwater.progress.instants import FOREVER
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.idle_sources import IdleTimeout
from slackwater.temporal.table import TemporalEvent, TemporalTable
from slackwater.testing.change_rows import change_rows, change_schema
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_ROWS = pa.schema({"at": pa.int64(), "k": pa.string(), "n": pa.int64()})
_LOG = change_schema(pa.schema({"k": pa.string(), "n": pa.int64()}))
_BATCH = sw.Every.batch()
_PATIENT = 16


def _early(stream: sw.DisorderedStream) -> sw.RevisedStream:
    windows = stream.tumbling(5).group_by("k")
    return windows.aggregate_early(_PATIENT, every=_BATCH, n=sw.count(), total=sw.sum("n"))


def _sorted(stream: sw.DisorderedStream) -> sw.OrderedStream:
    return stream.sort(_PATIENT, every=_BATCH)


WRITTEN: dict[str, Callable[[list[sw.DisorderedStream]], Any]] = {
    "upserts": lambda s: sw.upserts(s[0], key="k", patience=_PATIENT, every=_BATCH),
    "upserts, chosen": lambda s: (
        sw.upserts(s[0], key="k", patience=_PATIENT, every=_BATCH).where(nw.col("n") > 0).select("n")
    ),
    "early answers": lambda s: _early(s[0]),
    "early answers of replicas": lambda s: sw.merge_replicas(*map(_early, s), agreement=sw.Agreement.first()),
    "fast availability": lambda s: sw.fast_availability(*map(_sorted, s)),
    "half frozen": lambda s: sw.merge_replicas(
        *map(_sorted, s), agreement=sw.Agreement.half_frozen().revising(sw.Revise.ALWAYS)
    ),
    "a quorum of revised replicas": lambda s: sw.merge_replicas(*map(_early, s), agreement=sw.Agreement.quorum_of(1.0)),
}


def _rows(rng: Random, count: int) -> pa.Table:
    """Rows of which none is late by the patience of replicas."""
    made = [
        {"at": max(0, n - rng.choice([0, 0, 3, 9])), "k": rng.choice("abc"), "n": rng.randint(-2, 2)}
        for n in range(count)
    ]
    return pa.Table.from_pylist(made, _ROWS)


def _settled(shown: Any, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Counter[str]:
    """The table that changes come to, applied as they come."""
    names: dict[str, Any] = {
        "time": shown.node.schema.time.name,
        "sequence": "sequence" if "sequence" in schema.names else None,
    }
    until = shown.node.schema.until
    names["until"] = None if until is None else until.name
    log = sw.changes(pa.Table.from_pylist(list(rows), schema), punctuated=False, **names)
    return Counter(map(repr, log.settle().run().table.to_pylist()))


@pytest.mark.parametrize("name", WRITTEN)
@FEWER
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), store=st.booleans())
def test_what_shards_write_of_a_revised_stream_comes_to_the_same_table(
    name: str, seed: int, shards: int, store: bool
) -> None:
    """In the order of their numbers, up to every micro-batch, changes can be applied; in the end they say the same."""
    rng = Random(seed)
    table = _rows(rng, rng.randint(0, 50))
    sources = [sw.stream(sw.PushSource(_ROWS), time="at") for _ in range(2)]
    stream = WRITTEN[name](sources)
    plan = ShardPlan.of({"main": stream.node}, shards)
    assert plan.shards == shards
    schema = plan.shown_as["main"].shown
    turns = [cut(table, Random(seed), 4)] * len(plan.pipelines)
    written: list[dict[str, Any]] = []
    for given_out in in_shards(plan, turns, rng, store=store):
        written += sorted(given_out["main"], key=lambda row: (row["sequence"], rng.random()))
        found = _settled(stream, sorted(written, key=lambda row: row["sequence"]), schema)
    wanted = WRITTEN[name]([sw.stream(table, time="at") for _ in range(2)])
    assert found == Counter(map(repr, wanted.settle().run().table.to_pylist()))


READ: dict[str, Callable[..., Any]] = {
    "settled": lambda log: log.settle(),
    "chosen": lambda log: log.where(nw.col("n") > 0).select("k").settle(),
    "with a key": lambda log: log.assume_keyed().settle(),
}


def _log(seed: int, *, punctuations: float = 0.2) -> pa.Table:
    rng = Random(seed)
    events = [
        TemporalEvent((rng.choice("abc"), n), start, rng.choice([start + 1, start + 4, FOREVER]))
        for n, start in enumerate(sorted(rng.randint(0, 30) for _ in range(rng.randint(0, 20))))
    ]
    how = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=punctuations)
    elements = present(TemporalTable(events, FOREVER), seed, how)
    return pa.Table.from_pylist(change_rows(elements, pa.schema({"k": pa.string(), "n": pa.int64()})), _LOG)


def _shuffled(table: pa.Table, rng: Random) -> pa.Table:
    return table.take(pa.array(rng.sample(range(table.num_rows), table.num_rows), pa.int64()))


def _changes(source: Any, **options: Any) -> sw.RevisedStream:
    return sw.changes(source, time="at", until="until", **options)


def _in_shards(stream: Any, turns: Sequence[pa.Table], rng: Random, shards: int, *, store: bool) -> list[Any]:
    plan = ShardPlan.of({"main": stream.node}, shards)
    assert plan.shards == shards
    return [rows for one in in_shards(plan, [turns], rng, store=store) for rows in one["main"]]


@pytest.mark.parametrize("name", READ)
@FEWER
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 5), store=st.booleans())
def test_a_log_in_shards_comes_to_the_same_table_in_whatever_order_a_micro_batch_is(
    name: str, seed: int, shards: int, cuts: int, store: bool
) -> None:
    """Changes of one event, and punctuations, stand in any order in it."""
    rng, log = Random(seed), _log(seed)
    turns = [_shuffled(turn, rng) for turn in cut(log, rng, cuts)]
    found = _in_shards(READ[name](_changes(sw.PushSource(_LOG))), turns, rng, shards, store=store)
    wanted = READ[name](_changes(log)).run().table.to_pylist()
    assert Counter(map(repr, found)) == Counter(map(repr, wanted))


@FEWER
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]))
def test_a_log_that_is_read_and_written_again_says_the_same(seed: int, shards: int) -> None:
    """Between micro-batches, too: what was read of it is written at once."""
    rng, log = Random(seed), _log(seed)
    stream = _changes(sw.PushSource(_LOG))
    plan = ShardPlan.of({"main": stream.node}, shards)
    schema, written = plan.shown_as["main"].shown, list[dict[str, Any]]()
    read = 0
    turns = cut(log, rng, 3)
    for turn, one in zip([*turns, log.slice(0, 0)], in_shards(plan, [turns], rng, store=True), strict=True):
        read += turn.num_rows
        written += one["main"]
        ordered = sorted(written, key=lambda row: row["sequence"])
        so_far = _changes(log.slice(0, read), punctuated=True).settle().run().table.to_pylist()
        assert _settled(stream, ordered, schema) == Counter(map(repr, so_far))


def _change(change: str, at: int, until: int | None = None, before: int | None = None, n: int = 0) -> dict[str, Any]:
    return {"change": change, "at": at, "until": until, "until_before": before, "k": "a", "n": n}


def test_a_change_behind_a_punctuation_of_an_earlier_micro_batch_is_refused_or_diverted() -> None:
    """Of the same one it is in time: a micro-batch is one instant. A later change of it is late, too."""
    turns = [
        pa.Table.from_pylist(rows, _LOG)
        for rows in (
            [_change("punctuate", 5), _change("insert", 3, 9)],
            [_change("insert", 4, 8, n=1), _change("insert", 6, 7)],
            [_change("adjust", 4, 12, 8, n=1)],
        )
    ]
    for stream in (_changes(sw.PushSource(_LOG)), _changes(sw.PushSource(_LOG)).settle()):
        with pytest.raises(BrokenPunctuation, match="punctuation"):
            _in_shards(stream, turns, Random(1), 2, store=True)
    dropped = _changes(sw.PushSource(_LOG), late=sw.Late.drop()).settle()
    found = _in_shards(dropped, turns, Random(1), 2, store=True)
    assert sorted((row["at"], row["until"]) for row in found) == [(3, 9), (6, 7)]


def test_an_event_of_no_length_is_put_there_and_not_removed() -> None:
    """Though another of the same start and payload is taken away at the same instant."""
    turns = [
        pa.Table.from_pylist(rows, _LOG)
        for rows in ([_change("insert", 3, 9)], [_change("insert", 3, 3), _change("remove", 3, None, 9)])
    ]
    found = _in_shards(_changes(sw.PushSource(_LOG)), turns, Random(1), 1, store=False)
    assert [(row["change"], row["until"]) for row in found] == [("insert", 9), ("remove", 3), ("insert", 3)]


def test_a_timeout_says_nothing_of_a_log() -> None:
    """It says itself how far it is complete."""
    plan = ShardPlan.of({"main": _changes(sw.PushSource(_LOG)).settle().node}, 2)
    with pytest.raises(PlanError, match="log of changes"):
        IdleTimeout.in_plan(plan, 5)


def test_columns_of_the_log_are_not_those_of_events() -> None:
    """A name that the log needs is refused before Spark starts."""
    rows = pa.schema({"at": pa.int64(), "k": pa.string(), "sequence": pa.int64()})
    stream = sw.upserts(sw.PushSource(rows), time="at", key="k", patience=4)
    with pytest.raises(PlanError, match="sequence"):
        ShardPlan.of({"main": stream.node}, 1)
