"""Events without an end are merged, settled and compared like all others: while a query runs, and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LASTING = {"at": pa.int64(), "until": pa.int64(), "x": pa.int64()}
_LAST_POINT = 2**63 - 2


def _rows(times: Iterable[int]) -> list[dict[str, Any]]:
    """Rows that have no end, but for each third."""
    return [{"at": at, "until": None if at % 3 else at + 2, "x": at} for at in times]


def _two(**known: bool) -> tuple[list[sw.PushSource], list[sw.OrderedStream]]:
    sources = [sw.PushSource(_LASTING, name=name) for name in ("blue", "green")]
    return sources, [sw.stream(source, time="at", until="until").assume_ordered(**known) for source in sources]


def test_ordered_replicas_of_open_ended_events_are_emitted_while_the_query_runs() -> None:
    """No key is known, so that events are counted; each goes out when a replica has come past its start."""
    sources, replicas = _two()
    seen: list[int] = []
    query = sw.merge_replicas(*replicas).open(lambda rows: seen.extend(rows["x"].to_pylist()))
    sources[0].push(_rows(range(1_000)))
    query.work()
    assert seen == list(range(999))
    sources[1].push(_rows(range(1_002)))
    query.work()
    assert seen == list(range(1_001))
    query.close()
    assert seen == list(range(1_002))


def test_disordered_replicas_of_open_ended_events_are_emitted_while_the_query_runs() -> None:
    """The guarantee of a patience is enough: what is only inserted cannot change once its start is complete."""
    sources = [sw.PushSource(_LASTING, name=name) for name in ("blue", "green")]
    replicas = [
        sw.stream(source, time="at", until="until").sort(3, every=sw.Every.rows(1), late=sw.Late.drop())
        for source in sources
    ]
    seen: list[int] = []
    query = sw.merge_replicas(*replicas).open(lambda rows: seen.extend(rows["x"].to_pylist()))
    for source in sources:
        source.push(_rows([1, 0, 3, 2, 10]))
    query.work()
    assert seen == [0, 1, 2, 3]
    query.close()
    assert seen == [0, 1, 2, 3, 10]


@pytest.mark.parametrize("attachable", [False, True])
def test_a_point_at_the_last_instant_is_emitted_at_the_end(attachable: bool) -> None:
    """Its end is FOREVER, which no guarantee passes."""
    rows = [{"at": 1}, {"at": _LAST_POINT}]
    replicas = [sw.stream(rows, time="at").assume_ordered() for _ in range(2)]
    assert sw.merge_replicas(*replicas, attachable=attachable).run().table["at"].to_pylist() == [1, _LAST_POINT]


def _changes(name: str, rows: Sequence[tuple[str | int | None, ...]]) -> sw.RevisedStream:
    columns = ("change", "at", "until", "until_before", "x")
    schema = pa.schema({"change": pa.string(), **dict.fromkeys(columns[1:], pa.int64())})
    table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], schema)
    return sw.changes(table, time="at", until="until", name=name)


_SENT = [
    ("insert", 1, None, None, 1),
    ("insert", 2, 5, None, 2),
    ("insert", 3, None, None, 3),
    ("adjust", 3, 6, None, 3),
    ("punctuate", 9, None, None, None),
]


def test_revised_replicas_hold_an_open_ended_event_and_what_is_behind_it_until_the_end() -> None:
    """It may still get an end; at the end of all replicas it goes out without one."""
    merged = sw.merge_replicas(_changes("blue", _SENT), _changes("green", _SENT))
    assert merged.run().table.to_pylist() == [
        {"at": 1, "until": None, "x": 1},
        {"at": 2, "until": 5, "x": 2},
        {"at": 3, "until": 6, "x": 3},
    ]


def test_half_frozen_emits_an_open_ended_event_of_revised_replicas_at_once() -> None:
    """Which is why it is recommended there: the end may follow as a revision."""
    agreement = sw.Agreement.half_frozen()
    merged = sw.merge_replicas(_changes("blue", _SENT), _changes("green", _SENT), agreement=agreement)
    assert merged.settle().run().table["x"].to_pylist() == [1, 2, 3]


def test_settle_emits_open_ended_events_at_the_end() -> None:
    """In order, with what waited behind them."""
    assert _changes("blue", _SENT).settle().run().table["until"].to_pylist() == [None, 5, 6]


def test_compare_replicas_reports_an_open_ended_event_as_soon_as_the_other_is_past_its_start() -> None:
    """Where replicas only insert, one that has come past the start without the event lacks it."""
    sources, replicas = _two()
    seen: list[dict[str, Any]] = []
    query = sw.compare_replicas(*replicas).open(lambda rows: seen.extend(rows.to_pylist()))
    sources[0].push(_rows([1, 2, 4]))
    sources[1].push(_rows([1, 4]))
    query.work()
    assert seen == [{"at": 2, "until": None, "x": 2, "replica": 1, "divergence": "missing"}]
    query.close()
    assert len(seen) == 1


def test_compare_replicas_reports_an_open_ended_event_of_revised_replicas_at_the_end() -> None:
    """Until then it may get an end."""
    lacking = [row for row in _SENT if row[1] != 1]
    found = sw.compare_replicas(_changes("blue", _SENT), _changes("green", lacking)).run().table
    assert found.to_pylist() == [{"at": 1, "until": None, "x": 1, "replica": 1, "divergence": "missing"}]


# ---- whoever waits says for what -----------------------------------------------------------------------------------


def _live_changes(keyed: bool) -> tuple[list[sw.PushSource], list[sw.RevisedStream]]:
    columns = {"change": pa.string(), **dict.fromkeys(("at", "until", "until_before", "x"), pa.int64())}
    sources = [sw.PushSource(columns, name=name) for name in ("blue", "green")]
    return sources, [sw.changes(source, time="at", until="until", keyed=keyed) for source in sources]


def _push(source: sw.PushSource, *rows: tuple[str | int | None, ...]) -> None:
    columns = ("change", "at", "until", "until_before", "x")
    source.push([dict(zip(columns, row, strict=True)) for row in rows])


@pytest.mark.parametrize("keyed", [True, False], ids=["R3", "R4"])
def test_whoever_waits_for_the_end_of_an_event_says_so(keyed: bool) -> None:
    """Which events, who lacks them, and what is held; nothing any more when they have got an end."""
    sources, replicas = _live_changes(keyed)
    merged = sw.merge_replicas(*replicas)
    assert "an event without an end holds up all behind it" in merged.explain()
    seen: list[int] = []
    query = merged.open(lambda rows: seen.extend(rows["x"].to_pylist()))
    _push(sources[0], ("insert", 1, 2, None, 1), ("insert", 3, None, None, 3), ("insert", 5, None, None, 5))
    _push(sources[0], ("insert", 6, 7, None, 6), ("insert", 40, None, None, 40), ("punctuate", 9, None, None, None))
    _push(sources[1], ("insert", 5, None, None, 5), ("insert", 5, 8, None, 55))
    query.work()
    blue, green = query.replicas()
    assert (blue.open_events.count, blue.open_events.first, blue.open_events.lacked_by) == (2, 3, (0, 1))
    assert str(blue).endswith(
        "the merged stream waits for the ends of 2 events that have none, the first at 3, "
        "of which this replica has all of them"
    )
    assert str(green).endswith("the first at 3, of which this replica lacks 1")
    assert (
        "merge_replicas#1 waits for the ends of 2 events that have none, the first at 3; replica 0 has all of them; "
        "replica 1 lacks 1"
    ) in str(query.progress())
    assert seen == [1]
    _push(sources[0], ("adjust", 3, 9, None, 3), ("adjust", 5, 10, None, 5), ("punctuate", 11, None, None, None))
    query.work()
    assert seen == [1, 3, 5, 6]
    assert query.replicas()[0].open_events.count == 0
    assert "waits for" not in f"{query.progress()}{query.replicas()[1]}"
    query.close()


def test_merges_that_do_not_wait_for_ends_name_no_events() -> None:
    """Of replicas that only insert, and where events are emitted when they are half frozen."""
    sources, replicas = _two()
    only_inserted = sw.merge_replicas(*replicas)
    assert "holds up" not in only_inserted.explain()
    query = only_inserted.open(lambda _: None)
    sources[0].push(_rows(range(1, 9)))
    query.work()
    assert query.replicas()[0].open_events.count == 0
    query.close()
    changes, revised = _live_changes(keyed=True)
    half_frozen = sw.merge_replicas(*revised, agreement=sw.Agreement.half_frozen())
    assert "holds up" not in half_frozen.explain()
    query = half_frozen.open(lambda _: None)
    _push(changes[0], ("insert", 1, None, None, 1), ("punctuate", 9, None, None, None))
    query.work()
    assert query.replicas()[0].open_events.count == 0
    query.close()
