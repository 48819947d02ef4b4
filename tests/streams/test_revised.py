"""RevisedStream: the changes themselves, what may be done to them row by row, and what they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch
from slackwater.events.elements import Adjust, Insert
from slackwater.streams.revised import NotOnRevised
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.change_rows import change_rows, change_schema, events_of
from slackwater.testing.merging_cases import tables_with_duplicates
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from slackwater.events.elements import Element

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


def _changes(elements: Iterable[Element]) -> sw.RevisedStream:
    table = pa.Table.from_pylist(change_rows(elements, _PAYLOAD), change_schema(_PAYLOAD))
    return sw.changes(table, time="at", until="until", name="leases")


def _elements(log: pa.Table, *payload: str) -> list[Element]:
    """A log of changes, spelled out again."""
    sent: list[Element] = []
    for row in log.to_pylist():
        values = tuple(row[name] for name in payload)
        end, before = (sw.FOREVER if row[name] is None else row[name] for name in ("until", "until_before"))
        if row["change"] == "insert":
            sent.append(Insert(values, row["at"], end))
        else:
            sent.append(Adjust(values, row["at"], before, end))
    return sent


_LEASES = _changes(
    [Insert(("a", 1), 3, 9), Insert(("b", 2), 1, 7), Adjust(("a", 1), 3, 9, 5), Adjust(("b", 2), 1, 7, 1)]
)


# ---- row by row ------------------------------------------------------------------------------------------------------


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6))
def test_where_and_select_answer_for_events_and_revisions_alike(table: TemporalTable, seed: int) -> None:
    """The log that comes out is a stream by itself, and has what is left of the table."""
    changes = _changes(present(table, seed, _REVISED))
    kept = changes.where((nw.col("k") == "a") & (nw.col("at") > 2)).select("k", later=nw.col("at") + nw.col("v"))
    expected = [
        Insert((event.payload[0], event.start + event.payload[1]), event.start, event.end)  # type: ignore[index]
        for event in table
        if event.payload[0] == "a" and event.start > 2  # type: ignore[index]
    ]
    log = _elements(kept.run().table, "k", "later")
    assert_same_table(log, expected)  # an adjust without its event would be refused here
    assert_same_table(_settled(kept, "k", "later"), expected)


def _settled(changes: sw.RevisedStream, *payload: str) -> list[Element]:
    rows = changes.settle().run().table.to_pylist()
    ends = [sw.FOREVER if row["until"] is None else row["until"] for row in rows]
    return [Insert(tuple(row[name] for name in payload), row["at"], end) for row, end in zip(rows, ends, strict=True)]


def test_functions_see_no_ends() -> None:
    """Those that ask for all columns are given the others."""
    seen: set[str] = set()

    def note(rows: pa.RecordBatch) -> pa.Array:
        seen.update(rows.schema.names)
        return pc.is_valid(rows.column("k"))

    noted = _LEASES.where(note).select("k", known=note)
    seen.clear()  # what it was tried on when it was written does not count
    noted.run()
    assert seen == {"at", "k", "v"}


@pytest.mark.parametrize(
    "step",
    [
        lambda stream: stream.where(nw.col("until") > 4),
        lambda stream: stream.where(lambda rows: pc.greater(rows.column("until"), 4)),
        lambda stream: stream.select(ends="until"),
        lambda stream: stream.select((nw.col("until") - nw.col("at")).alias("length")),
    ],
    ids=["expression", "function", "name", "computed"],
)
def test_a_step_that_reads_ends_is_refused_and_says_so(step: Any) -> None:
    """When it is written, with the column and what to do."""
    with pytest.raises(PlanError) as refused:
        step(_LEASES)
    assert "reads the ends of events, which are revised later\n    column  until\n    hint: settle()" in str(
        refused.value
    )
    step(_LEASES.settle())


def test_other_mistakes_are_refused_in_their_own_words() -> None:
    """A column that nobody has, a computation over many rows."""
    with pytest.raises(PlanError, match="cannot be computed on this stream"):
        _LEASES.where(nw.col("price") > 4)
    with pytest.raises(SchemaMismatch, match="price"):
        _LEASES.select("price")
    with pytest.raises(PlanError, match="a computation over many rows"):
        _LEASES.where(nw.col("v") > nw.col("v").mean())


def test_the_end_column_stays_where_it_is_named() -> None:
    """As every time column; it may be placed, not replaced."""
    assert _LEASES.select("v", "until").schema.names == ["at", "v", "until", "change", "until_before"]
    with pytest.raises(SchemaMismatch, match="cannot replace a time column"):
        _LEASES.select(until="v")


def test_a_key_is_lost_with_a_column_that_made_it_one() -> None:
    """As on other streams."""
    rows = change_rows([Insert(("a", 1), 3, 9)], _PAYLOAD)
    keyed = sw.changes(rows, time="at", until="until", keyed=True, schema=change_schema(_PAYLOAD))
    assert keyed.where(nw.col("v") > 0).select("v", "k").properties.keyed
    assert not keyed.select("k").properties.keyed


# ---- what it shows ---------------------------------------------------------------------------------------------------


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6))
def test_run_shows_every_change_in_the_order_it_was_emitted(table: TemporalTable, seed: int) -> None:
    """Nothing but the punctuations is missing, so that the log can be read again."""
    sent = [one for one in present(table, seed, _REVISED) if isinstance(one, Insert | Adjust)]
    log = _changes(sent).run().table
    assert _elements(log, "k", "v") == sent
    again = sw.changes(log, time="at", until="until")
    assert temporal_table_of(_settled(again, "k", "v")) == temporal_table_of(sent)


def test_the_log_has_the_columns_of_the_events_and_two_more() -> None:
    """Which is the schema of the stream, in all ways out."""
    log = _LEASES.run().table
    assert log.schema == _LEASES.schema
    assert log.schema.names == ["at", "until", "k", "v", "change", "until_before"]
    assert log.column("change").to_pylist() == ["insert", "insert", "adjust", "remove"]
    batches = list(_LEASES.batches())
    assert pa.Table.from_batches(batches).equals(log)
    called: list[pa.RecordBatch] = []
    result = _LEASES.for_each(called.append)
    assert pa.Table.from_batches(called).equals(log)
    assert result.table.schema == log.schema


def test_a_log_is_written_as_it_is_shown(tmp_path: Path) -> None:
    """And is a source of changes by itself."""
    _LEASES.write_parquet(tmp_path / "log.parquet")
    again = sw.changes(tmp_path / "log.parquet", time="at", until="until")
    assert again.run().table.equals(_LEASES.run().table)
    assert again.settle().run().table.to_pylist() == [{"at": 3, "until": 5, "k": "a", "v": 1}]


def test_a_column_that_the_log_needs_for_itself_is_no_harm_to_settle() -> None:
    """It only keeps the changes from being shown."""
    rows = [{"op": "insert", "at": 1, "change": "paint"}]
    stream = sw.changes(rows, time="at", kind="op")
    with pytest.raises(SchemaMismatch, match="two columns of one name"):
        stream.run()
    assert stream.settle().run().table.to_pylist() == [{"at": 1, "change": "paint"}]


def test_disorder_is_that_of_the_events_and_not_of_their_revisions() -> None:
    """Two inserts, one behind the other."""
    profile = _LEASES.disorder()
    assert (profile.events, profile.inversions) == (2, 1)


# ---- settle ----------------------------------------------------------------------------------------------------------


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6), cut=st.integers(1, 7))
def test_settle_is_the_table_in_order_of_time(table: TemporalTable, seed: int, cut: int) -> None:
    """Each event once, however it was sent and cut; the very same rows in the very same order."""
    seen: list[dict[str, Any]] = []
    settled = _changes(present(table, seed, _REVISED)).settle()
    with settled.open(lambda rows: seen.extend(rows.to_pylist()), batch_rows=cut) as query:
        query.run_to_end()
    assert_same_table(events_of(seen), table)
    assert [row["at"] for row in seen] == sorted(row["at"] for row in seen)
    assert seen == _changes(present(table, seed + 1, _REVISED)).settle().run().table.to_pylist()


def test_what_follows_settle_is_what_follows_every_ordered_stream() -> None:
    """Windows, aggregates, joins; and it says how it was done."""
    counts = _LEASES.settle().tumbling(10).aggregate(n=sw.count())
    assert counts.run().table["n"].to_pylist() == [1]
    settled = _LEASES.settle()
    assert settled.properties.ordered
    assert settled.properties.insert_only
    assert settled.settle() is settled
    line = settled.explain().splitlines()[0]
    assert line.startswith("settle#1")
    assert line.endswith(
        "an event goes out when its end cannot change any more, and all that began before it have gone"
    )


def test_dictionaries_of_few_words_are_settled() -> None:
    """Words of several batches come together."""
    columns = pa.schema({"change": pa.string(), "at": pa.int64(), "k": pa.dictionary(pa.int8(), pa.string())})
    source = sw.PushSource(columns)
    for at in range(3):
        source.push({"change": "insert", "at": 2 - at, "k": f"word {at}"})
    source.close()
    assert sw.changes(source, time="at").settle().run().table["k"].to_pylist() == ["word 2", "word 1", "word 0"]


@pytest.mark.parametrize(
    "step", ["sort", "tumbling", "aggregate", "group_by", "join", "union", "map_windows", "followed_by", "in_bands"]
)
def test_steps_that_need_settled_events_point_to_settle(step: str) -> None:
    """They are no attributes; what is on no stream at all is just not there."""
    with pytest.raises(NotOnRevised) as refused:
        getattr(_LEASES, step)
    assert str(refused.value) == (
        f"{step} cannot follow a stream whose events are revised later\n"
        "    stream  source leases time=at until=until\n"
        f"    hint: settle() it first: stream.settle().{step}(...)"
    )
    assert not hasattr(_LEASES, step)
    with pytest.raises(AttributeError, match="no attribute 'sorted'"):
        _ = _LEASES.sorted  # type: ignore[attr-defined]


def test_streams_that_take_others_refuse_revised_ones() -> None:
    """With the same advice, wherever they are handed over."""
    ordered = _LEASES.settle()
    with pytest.raises(PlanError, match="union takes streams"):
        ordered.union(_LEASES)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="join takes streams"):
        ordered.join(_LEASES, on="k")  # type: ignore[arg-type]


def test_an_event_that_is_open_holds_the_order_back_until_it_is_closed() -> None:
    """What began later waits for it, also when it has long been final."""
    source = sw.PushSource(change_schema(_PAYLOAD))
    seen: list[str] = []
    settled = sw.changes(source, time="at", until="until").settle()
    with settled.open(lambda rows: seen.extend(rows.column("k").to_pylist()), clock=sw.ManualClock()) as query:
        sent: list[Element] = [Insert(("long", 1), 1), Insert(("short", 1), 2, 4)]
        source.push([*change_rows(sent, _PAYLOAD), {"change": "punctuate", "at": 100}])
        query.work()
        assert seen == []
        source.push(change_rows([Adjust(("long", 1), 1, sw.FOREVER, 100)], _PAYLOAD))
        source.push({"change": "punctuate", "at": 101})
        query.work()
        assert seen == ["long", "short"]


def test_a_query_over_changes_goes_on_from_a_snapshot() -> None:
    """With the events that were held."""
    sent: list[Element] = [Insert(("a", 1), 3, 9), Insert(("b", 2), 1, 7), Adjust(("a", 1), 3, 9, 5)]
    rows = change_rows(sent, _PAYLOAD)
    seen: list[dict[str, Any]] = []

    def query(source: sw.PushSource, resume: Any = None) -> sw.Query:
        stream = sw.changes(source, time="at", until="until", keyed=True).where(nw.col("v") > 0).settle()
        return stream.open(lambda batch: seen.extend(batch.to_pylist()), clock=sw.ManualClock(), resume=resume)

    first, second = (sw.PushSource(change_schema(_PAYLOAD), name="leases") for _ in range(2))
    running = query(first)
    first.push(rows[:2])
    running.work()
    resumed = query(second, running.snapshot())
    second.push(rows[2:])
    resumed.close()
    table = [TemporalEvent((row["k"], row["v"]), row["at"], row["until"]) for row in seen]
    assert_same_table(TemporalTable(table), sent)
