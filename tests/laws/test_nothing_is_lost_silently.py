"""Law 1: every input row is in the output, or late, or still held, and the counts add up at any time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.pipelines import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

_PUSHES = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 5), min_size=1, max_size=4)), max_size=20)


@given(pushes=_PUSHES)
def test_rows_in_are_rows_out_plus_rows_held(pushes: list[tuple[int, list[int]]]) -> None:
    """After every push, and at the end, nothing is missing and nothing is doubled."""
    sources = [sw.PushSource(ROWS, name=name) for name in "ab"]
    delivered: list[int] = []
    union = sw.union(*(sw.stream(source, time="at").assume_ordered() for source in sources))
    query = union.open(lambda rows: delivered.extend(rows.column("v").to_pylist()), clock=sw.ManualClock())
    times, pushed = [0, 0], 0
    for port, steps in pushes:
        for step in steps:
            times[port] += step
            sources[port].push({"at": times[port], "k": "x", "v": pushed})
            pushed += 1
        query.work()
        held = query.counters()["union#1"].buffered
        assert len(delivered) + held == pushed
        assert query.counters()["union#1"].rows_in == pushed
    query.close()
    assert sorted(delivered) == list(range(pushed))
    assert query.counters()["union#1"].buffered == 0


@given(starts=st.lists(st.integers(-50, 50), max_size=30), size=st.integers(1, 20))
def test_every_row_is_counted_in_exactly_one_tumbling_window(starts: list[int], size: int) -> None:
    """The counts of all windows add up to the rows that came in."""
    table = pa.table({"at": pa.array(sorted(starts), pa.int64())})
    windows = sw.stream(table, time="at").assume_ordered().tumbling(size).aggregate(n=sw.count()).run().table
    assert sum(windows.column("n").to_pylist()) == len(starts)


_POLICIES = [sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]
_DISORDERED = st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=6), max_size=8)
_CADENCES = st.sampled_from([sw.Every.rows(1), sw.Every.rows(5), sw.Every.time(6), sw.Every.batch()])


def _numbers(seen: list[int]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: seen.extend(rows.column("v").to_pylist())


def _push(source: sw.PushSource, rows: list[tuple[int, int]], first: int) -> None:
    """Push rows that last for some time, numbered from `first` on."""
    source.push([{"at": at, "to": at + lasts, "v": first + i} for i, (at, lasts) in enumerate(rows)])


def _lasting() -> tuple[sw.PushSource, sw.DisorderedStream]:
    source = sw.PushSource({"at": pa.int64(), "to": pa.int64(), "v": pa.int64()})
    return source, sw.stream(source, time="at", until="to")


@pytest.mark.parametrize("late", _POLICIES, ids=str)
@given(pushes=_DISORDERED, patience=st.integers(0, 20), every=_CADENCES, batch_rows=st.integers(1, 5))
def test_rows_into_a_sort_are_rows_out_late_and_held_after_every_step(
    late: sw.Late, pushes: list[list[tuple[int, int]]], patience: int, every: sw.Every, batch_rows: int
) -> None:
    """Under every policy; what is diverted is there, and what is dropped is counted."""
    source, stream = _lasting()
    delivered: list[int] = []
    diverted: list[int] = []
    query = stream.sort(patience, every=every, late=late).open(
        _numbers(delivered), clock=sw.ManualClock(), on_late=_numbers(diverted), batch_rows=batch_rows
    )
    pushed = 0
    for rows in pushes:
        _push(source, rows, pushed)
        pushed += len(rows)
        more = True
        while more:
            more = query.step()
            checked, ordered = (query.counters()[step] for step in ("punctuate#1", "sort#1"))
            assert checked.rows_in + source.waiting == pushed
            assert checked.rows_in == checked.rows_out + checked.late
            assert ordered.rows_in == checked.rows_out == len(delivered) + ordered.buffered
            assert len(diverted) == (checked.late if late == sw.Late.divert() else 0)
    query.close()
    assert len(delivered) + query.counters()["punctuate#1"].late == pushed
    assert len({*delivered, *diverted}) == len(delivered) + len(diverted)


@pytest.mark.parametrize("late", _POLICIES, ids=str)
@given(pushes=_DISORDERED, every=_CADENCES, batch_rows=st.integers(1, 5))
def test_rows_into_bands_are_rows_out_late_and_held_after_every_step(
    late: sw.Late, pushes: list[list[tuple[int, int]]], every: sw.Every, batch_rows: int
) -> None:
    """What the last stream has not delivered is late, or waits in the sort of a band or in a union."""
    source, stream = _lasting()
    streams = stream.in_bands(2, 7, 20, every=every, late=late)
    delivered: list[list[int]] = [[] for _ in streams]
    outputs = [(stream, _numbers(seen)) for stream, seen in zip(streams, delivered, strict=True)]
    query = sw.Query(outputs, clock=sw.ManualClock(), on_late=lambda _: None, batch_rows=batch_rows)
    pushed = 0
    for rows in pushes:
        _push(source, rows, pushed)
        pushed += len(rows)
        more = True
        while more:
            more = query.step()
            counters = query.counters()
            held = sum(counters[step].buffered for step in counters)
            assert pushed == source.waiting + counters["punctuate#1"].late + held + len(delivered[-1])
    query.close()
    assert len(set(delivered[-1])) == len(delivered[-1]) == pushed - query.counters()["punctuate#1"].late
    assert set(delivered[0]) <= set(delivered[1]) <= set(delivered[2])


@pytest.mark.parametrize("late", _POLICIES, ids=str)
@pytest.mark.parametrize("keep", ["first", "last"])
@given(
    pushes=_DISORDERED,
    patience=st.integers(0, 20),
    within=st.sampled_from([0, 3, 9, sw.FOREVER]),
    every=_CADENCES,
    batch_rows=st.integers(1, 5),
)
def test_rows_into_deduplicate_are_rows_out_late_held_and_duplicates_after_every_step(
    late: sw.Late,
    keep: str,
    pushes: list[list[tuple[int, int]]],
    patience: int,
    within: int,
    every: sw.Every,
    batch_rows: int,
) -> None:
    """Three keys; what is left out as a duplicate is counted, at once and whichever row is kept."""
    source, stream = _lasting()
    delivered: list[int] = []
    diverted: list[int] = []
    keyed = stream.select("v", k=nw.col("v") % 3)
    query = keyed.deduplicate("k", within=within, keep=keep, patience=patience, every=every, late=late).open(
        _numbers(delivered), clock=sw.ManualClock(), on_late=_numbers(diverted), batch_rows=batch_rows
    )
    pushed = 0
    for rows in pushes:
        _push(source, rows, pushed)
        pushed += len(rows)
        more = True
        while more:
            more = query.step()
            checked, kept = (query.counters()[step] for step in ("punctuate#1", "deduplicate#1"))
            assert checked.rows_in + source.waiting == pushed == source.waiting + checked.rows_out + checked.late
            assert kept.rows_in == checked.rows_out == len(delivered) + kept.buffered + kept.duplicates
    query.close()
    checked, kept = (query.counters()[step] for step in ("punctuate#1", "deduplicate#1"))
    assert pushed == len(delivered) + checked.late + kept.duplicates
    assert len({*delivered, *diverted}) == len(delivered) + len(diverted)


@given(
    times=st.lists(st.integers(0, 60), max_size=40),
    patiences=st.sets(st.integers(0, 30), min_size=1, max_size=3).map(sorted),
    every=_CADENCES,
)
def test_every_row_is_counted_in_the_last_band_or_late(times: list[int], patiences: list[int], every: sw.Every) -> None:
    """And each band counts at least what the band before it does."""
    table = pa.table({"at": pa.array(times, pa.int64())})
    results = sw.stream(table, time="at").tumbling(9).in_bands(*patiences, every=every, n=sw.count()).run()
    counts = [sum(result.table.column("n").to_pylist()) for result in results]
    assert counts == sorted(counts)
    assert counts[-1] + results[-1].late.num_rows == len(times)


# ---- replicas ------------------------------------------------------------------------------------------------------

_SEEN = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.lists(
            st.tuples(st.integers(0, 6), st.sampled_from([None, 1, 4]), st.sampled_from("ab")), min_size=1, max_size=4
        ),
    ),
    max_size=14,
)
"""Pushes of replicas that share few rows: who, and how far each row is from the one before, how long, and what."""

_LASTING = {"at": pa.int64(), "until": pa.int64(), "k": pa.string()}


def _reasons(seen: Counter[str]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: seen.update(rows.column("left_out").to_pylist())


def _merge_of(kind: str, sources: list[sw.PushSource], left_out: sw.LeftOutRows) -> sw.OrderedStream:
    streams: list[sw.OrderedStream] = []
    for one in (sw.stream(source, time="at", until="until") for source in sources):
        if kind == "disordered":
            streams.append(one.sort(2, every=sw.Every.rows(1), late=sw.Late.drop()))
        elif kind == "windows":
            streams.append(one.assume_ordered().tumbling(3).group_by("k").aggregate(n=sw.count()))
        else:
            streams.append(one.assume_ordered())
    return sw.merge_replicas(*streams, attachable=kind == "attachable", left_out=left_out)


@pytest.mark.parametrize("kind", ["ordered", "attachable", "disordered", "windows"])
@given(pushes=_SEEN, diverts=st.booleans())
def test_rows_into_a_merge_are_rows_out_and_held_and_left_out_after_every_step(
    kind: str, pushes: list[tuple[int, list[tuple[int, int | None, str]]]], diverts: bool
) -> None:
    """With gaps wherever they may be, and events that have no end; what is diverted is what is counted."""
    sources = [sw.PushSource(_LASTING, name=name) for name in ("blue", "green", "grey")]
    merged, out = _merge_of(kind, sources, sw.LeftOutRows(diverts)), 0
    diverted: Counter[str] = Counter()

    def note(rows: pa.RecordBatch) -> None:
        nonlocal out
        out += rows.num_rows

    def add_up() -> None:
        counters = query.counters()
        merge = counters["merge_replicas#1"]
        left_out = merge.duplicates + merge.contradicted + merge.passed_over + merge.revised + merge.ignored
        assert merge.rows_in == merge.rows_out + merge.unsent + left_out
        assert merge.rows_out == out + (
            counters["sort#4" if kind == "disordered" else "sort#1"].buffered if sorts else 0
        )
        for one in query.replicas():
            assert one.left_out.contradicted <= merge.contradicted
        if diverts:
            assert diverted == Counter({"contradicted": merge.contradicted, "passed over": merge.passed_over})

    query = merged.open(note, clock=sw.ManualClock(), on_left_out=_reasons(diverted))
    sorts = any(name.startswith("sort") for name in query.counters())
    at = [0, 0, 0]
    for who, rows in pushes:
        for step, lasts, k in rows:
            at[who] += step - (2 if kind == "disordered" else 0)
            sources[who].push({"at": at[who], "until": None if lasts is None else at[who] + lasts, "k": k})
        query.work()
        add_up()
    query.close()
    add_up()
    assert query.counters()["merge_replicas#1"].unsent == 0


_KNOWN_OF_REPLICAS = [
    None,
    sw.Bounds.disorder(1) & sw.Bounds.uniform(9) & sw.Bounds.lull("2s"),
    sw.Bounds.in_order() & sw.Bounds.idle("2s"),
    sw.Bounds.uniform({0: 2, ...: 5}, after="1s", latency="1s") & sw.Bounds.lull("3s"),
]
"""Bounds that replicas keep, or break."""


@pytest.mark.parametrize("bounds", _KNOWN_OF_REPLICAS, ids=str)
@given(pushes=_SEEN, batch_rows=st.integers(1, 5))
def test_rows_into_a_merge_by_column_are_rows_out_late_held_and_left_out_after_every_step(
    bounds: sw.Bounds | None, pushes: list[tuple[int, list[tuple[int, int | None, str]]]], batch_rows: int
) -> None:
    """Replicas with gaps that appear at any time, of whom nobody may lead in the end; in silence, too."""
    source = sw.PushSource({**_LASTING, "who": pa.int64()})
    late: list[int] = []
    left_out: Counter[str] = Counter()
    stream = sw.stream(source, time="at", until="until")
    clock = sw.ManualClock()
    query = stream.merge_replicas(by="who", patience=3, left_out=sw.LeftOutRows.divert(), bounds=bounds).open(
        lambda _: None,
        clock=clock,
        on_late=lambda rows: late.append(rows.num_rows),
        on_left_out=_reasons(left_out),
        batch_rows=batch_rows,
    )

    def add_up() -> None:
        merge = query.counters()["merge_replicas#1"]
        counted = merge.duplicates + merge.contradicted + merge.passed_over
        assert merge.late == sum(late)
        assert merge.rows_in == merge.rows_out + merge.unsent + merge.late + counted
        assert left_out == Counter({"contradicted": merge.contradicted, "passed over": merge.passed_over})

    at = [0, 0, 0]
    for who, rows in pushes:
        for step, lasts, k in rows:
            at[who] += step - 1
            source.push({"at": at[who], "until": None if lasts is None else at[who] + lasts, "k": k, "who": who})
        query.work()
        add_up()
        clock.advance(1_000_000 * (1 + at[who] % 3))
        query.work()
        add_up()
    query.close()
    add_up()
    assert query.counters()["merge_replicas#1"].unsent == 0
