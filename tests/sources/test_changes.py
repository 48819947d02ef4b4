"""changes(): revised streams from every kind of source, held to what they guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadElement, BrokenPunctuation, PlanError, ReplicasGone, SchemaMismatch, UnknownEvent
from slackwater.events.elements import Insert
from slackwater.plan.properties import Order
from slackwater.testing.change_rows import change_rows, change_schema
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from slackwater.temporal.table import TemporalTable

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_COLUMNS = change_schema(_PAYLOAD)
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)

_ROWS: list[dict[str, Any]] = [
    {"change": "insert", "at": 3, "until": 9, "k": "a", "v": 1},
    {"change": "insert", "at": 1, "until": None, "k": "b", "v": 1},
    {"change": "adjust", "at": 3, "until": 5, "until_before": 9, "k": "a", "v": 1},
    {"change": "punctuate", "at": 3},
    {"change": "adjust", "at": 1, "until": 4, "until_before": None, "k": "b", "v": 1},
]
_SETTLED = [{"at": 1, "until": 4, "k": "b", "v": 1}, {"at": 3, "until": 5, "k": "a", "v": 1}]


def _table(rows: list[dict[str, Any]] = _ROWS) -> pa.Table:
    return pa.Table.from_pylist(rows, _COLUMNS)


def _push(rows: list[dict[str, Any]]) -> sw.PushSource:
    source = sw.PushSource(_COLUMNS, name="leases")
    for row in rows:
        source.push(row)
    source.close()
    return source


@pytest.mark.parametrize(
    "source",
    [
        lambda: _ROWS,
        lambda: iter(_ROWS),
        _table,
        lambda: _table().to_reader(),
        lambda: _table().to_pandas().convert_dtypes(),
        lambda: _push(_ROWS),
    ],
    ids=["rows", "iterator", "table", "reader", "pandas", "push"],
)
def test_every_source_of_rows_is_a_source_of_changes(source: Callable[[], Any]) -> None:
    """The same changes, the same events."""
    changes = sw.changes(source(), time="at", until="until")
    assert changes.settle().run().table.to_pylist() == _SETTLED


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_files_are_sources_of_changes(tmp_path: Path, suffix: str) -> None:
    """Of every format that streams are read from."""
    path = tmp_path / f"log.{suffix}"
    match suffix:
        case "parquet":
            pa.parquet.write_table(_table(), path)
        case "csv":
            pa.csv.write_csv(_table(), path)
        case _:
            path.write_text("\n".join(str(row).replace("'", '"').replace("None", "null") for row in _ROWS) + "\n")
    settled = sw.changes(path, time="at", until="until").settle().run().table
    assert settled.select(["at", "until", "k", "v"]).to_pylist() == _SETTLED


def test_a_stream_of_changes_says_what_it_is() -> None:
    """In no order, revised, punctuated unless declared not to be, without a key unless declared to have one."""
    facts = sw.changes(_ROWS, time="at", until="until").properties
    assert (facts.order, facts.insert_only, facts.punctuated, facts.keyed) == (Order.NONE, False, True, False)
    keyed = sw.changes(_table(), time="at", until="until", keyed=True, punctuated=False).properties
    assert (keyed.keyed, keyed.punctuated) == (True, False)
    checked, source = sw.changes(_ROWS, time="at", until="until", keyed=True, name="leases").explain().splitlines()
    assert " ".join(checked.split()).startswith("assume_keyed#1 disordered, intervals, punctuated, keyed, revised")
    assert checked.endswith("declared to have a key; the first event that comes twice is an error")
    assert " ".join(source.split()).startswith(
        "└─ source#1 leases time=at until=until disordered, intervals, punctuated"
    )


@pytest.mark.parametrize("live", [False, True])
@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6))
def test_changes_come_to_the_table_that_they_send(live: bool, table: TemporalTable, seed: int) -> None:
    """However it is sent; equal events count."""
    rows = change_rows(present(table, seed, _REVISED), _PAYLOAD)
    source = _push(rows) if live else _table(rows)
    settled = sw.changes(source, time="at", until="until").settle().run().table.to_pylist()
    ends = [sw.FOREVER if row["until"] is None else row["until"] for row in settled]
    sent = [Insert((row["k"], row["v"]), row["at"], end) for row, end in zip(settled, ends, strict=True)]
    assert sorted(map(str, sent)) == sorted(str(Insert(one.payload, one.start, one.end)) for one in table)
    assert [row["at"] for row in settled] == sorted(row["at"] for row in settled)


def test_a_live_source_of_changes_lets_events_go_as_it_punctuates() -> None:
    """And shows each change as it comes."""
    source = sw.PushSource(_COLUMNS, name="leases")
    changes = sw.changes(source, time="at", until="until")
    seen: list[dict[str, Any]] = []
    settled: list[dict[str, Any]] = []
    outputs = [
        (changes, lambda rows: seen.extend(rows.to_pylist())),
        (changes.settle(), lambda rows: settled.extend(rows.to_pylist())),
    ]
    with sw.Query(outputs, clock=sw.ManualClock()) as query:
        source.push(_ROWS)
        query.work()
        assert [row["change"] for row in seen] == ["insert", "insert", "adjust", "adjust"]
        assert settled == []
        source.push({"change": "punctuate", "at": 5})
        query.work()
        assert settled == _SETTLED[:1]  # the other ends at 5: that may still be revised
        source.push({"change": "punctuate", "at": 6})
        query.work()
        assert settled == _SETTLED


# ---- held to its word -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [True, False])
def test_a_row_that_contradicts_a_punctuation_before_it_is_refused_with_the_row(cut: bool) -> None:
    """In the same batch or a later one; an adjust concerns its ends, not its start."""
    rows = [
        {"change": "insert", "at": 1, "until": 9, "k": "a", "v": 1},
        {"change": "punctuate", "at": 5},
        {"change": "adjust", "at": 1, "until": 7, "until_before": 9, "k": "a", "v": 1},
        {"change": "adjust", "at": 1, "until": 4, "until_before": 7, "k": "a", "v": 1},
    ]
    source = sw.PushSource(_COLUMNS, name="leases")
    for part in [rows[:2], rows[2:]] if cut else [rows]:
        source.push(part)
    source.close()
    with pytest.raises(BrokenPunctuation) as broken:
        sw.changes(source, time="at", until="until").run()
    assert str(broken.value) == (
        "source 'source#1' got a row behind a punctuation that its input had sent\n"
        "    element          {'at': 1, 'until': 4, 'k': 'a', 'v': 1, 'change': 'adjust', 'until_before': 7}\n"
        "    complete before  5\n"
        "    hint: punctuate later at the source, or keep the element out of the stream"
    )


def test_a_declared_key_that_the_rows_break_is_an_error_that_names_the_event() -> None:
    """At the source, whoever reads it.

    A merge would have taken the second insert for a revision: there the replica leaves, and the other one goes on.
    """
    twice = [_ROWS[0], {**_ROWS[0], "until": 7}]
    stream = sw.changes(twice, time="at", until="until", keyed=True, schema=_COLUMNS)
    with pytest.raises(BadElement, match=r"insert\(\('a', 1\), 3, 7\)"):
        stream.run()
    sound = sw.changes(_ROWS, time="at", until="until", keyed=True, schema=_COLUMNS)
    merged = sw.merge_replicas(stream, sound).run()
    assert merged.table.to_pylist() == _SETTLED
    assert sum(step.left for step in merged.counters.values()) == 1
    with pytest.raises(ReplicasGone, match="expects time and payload to be a key"):
        sw.merge_replicas(stream, stream).run()


@given(table=keyed_tables(), seed=st.integers(0, 10**6), cut=st.integers(1, 5))
def test_a_stream_with_a_key_passes(table: TemporalTable, seed: int, cut: int) -> None:
    """Removed events may come back; nothing is held, doubled or lost."""
    rows = change_rows(present(table, seed, _REVISED), _PAYLOAD)
    plain, checked = (sw.changes(_table(rows), time="at", until="until", keyed=keyed) for keyed in (False, True))
    seen: list[dict[str, Any]] = []
    with checked.open(lambda batch: seen.extend(batch.to_pylist()), batch_rows=cut) as query:
        query.run_to_end()
    assert seen == plain.run().table.to_pylist()


def test_settle_refuses_an_adjust_of_an_event_that_is_not_there() -> None:
    """And names it."""
    rows = [{"change": "adjust", "at": 1, "until": 3, "until_before": 5, "k": "a", "v": 1}]
    with pytest.raises(UnknownEvent, match=r"adjust\(\('a', 1\), 1, 5, 3\)"):
        sw.changes(rows, time="at", until="until").settle().run()


def test_what_cannot_be_a_stream_of_changes_is_refused_when_it_is_written() -> None:
    """Missing columns, flags that are none, a live stream that would never settle."""
    with pytest.raises(SchemaMismatch, match="until_before"):
        sw.changes([{"change": "insert", "at": 1, "until": 2}], time="at", until="until")
    with pytest.raises(PlanError, match="keyed= is True or False"):
        sw.changes(_ROWS, time="at", until="until", keyed="k")  # type: ignore[arg-type]
    silent = sw.changes(sw.PushSource(_COLUMNS), time="at", until="until", punctuated=False)
    with pytest.raises(PlanError, match="settle would never emit a row"):
        silent.settle()
    with pytest.raises(PlanError, match="needs an ordered or punctuated stream"):
        sw.merge_replicas(silent, silent)
