"""What replicas are for: copies that die, copies of different speed, snapshots, changing over; and the examples."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import SlackwaterError
from slackwater.events.elements import Insert, Punctuate
from slackwater.temporal.table import TemporalEvent, TemporalTable
from slackwater.testing.change_rows import change_rows, change_schema
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.events.elements import Element

_EXAMPLES = Path(__file__).parents[2] / "examples"
_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_COLUMNS = change_schema(_PAYLOAD)
_ROWS = pa.schema({"at": pa.int64(), "v": pa.int64()})
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)

_READERS: dict[str, Callable[[pa.Table], Any]] = {
    "assumed": lambda rows: sw.stream(rows, time="at").assume_ordered(),
    "sorted": lambda rows: sw.stream(rows, time="at").sort(patience=3, late=sw.Late.drop()),
    "settled": lambda rows: sw.changes(_inserted(rows), time="at").settle(),
}


def _inserted(rows: pa.Table) -> pa.Table:
    return rows.append_column("change", pa.array(["insert"] * rows.num_rows, pa.string()))


def _changes(elements: list[Element], *, keyed: bool = True) -> sw.RevisedStream:
    table = pa.Table.from_pylist(change_rows(elements, _PAYLOAD), _COLUMNS)
    return sw.changes(table, time="at", until="until", keyed=keyed)


def _events(table: pa.Table) -> list[Element]:
    ends = (sw.FOREVER if end is None else end for end in table["until"].to_pylist())
    return [Insert((row["k"], row["v"]), row["at"], end) for row, end in zip(table.to_pylist(), ends, strict=True)]


# ---- high availability -----------------------------------------------------------------------------------------------


@given(
    lives=st.lists(st.integers(0, 20), min_size=1, max_size=3),
    readers=st.lists(st.sampled_from(sorted(_READERS)), min_size=4, max_size=4),
    place=st.integers(0, 3),
    attachable=st.booleans(),
    cut=st.integers(1, 7),
)
def test_all_but_one_copy_may_die_at_any_time(
    lives: list[int], readers: list[str], place: int, attachable: bool, cut: int
) -> None:
    """Each row is emitted once, in order, whichever copy lives, and however the copies get their order."""
    rows = pa.Table.from_pylist([{"at": 2 * n, "v": n * n} for n in range(20)], _ROWS)
    lives.insert(min(place, len(lives)), 20)
    copies = [_READERS[reader](rows.slice(0, life)) for life, reader in zip(lives, readers, strict=False)]
    seen: list[pa.RecordBatch] = []
    with sw.high_availability(*copies, attachable=attachable).open(seen.append, batch_rows=cut) as query:
        query.run_to_end()
    assert pa.Table.from_batches(seen, _ROWS).to_pylist() == rows.to_pylist()


# ---- fast availability -----------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**6), copies=st.integers(2, 4))
def test_answers_come_when_the_fastest_copy_has_them(seed: int, copies: int) -> None:
    """After each round exactly what the copy has sent that has come furthest; in the end, everything."""
    rng = Random(seed)
    sources = [sw.PushSource(_ROWS, name=f"copy {n}") for n in range(copies)]
    streams = [sw.stream(source, time="at").assume_ordered() for source in sources]
    seen: list[dict[str, Any]] = []
    fast = sw.fast_availability(streams[0], streams[1], *streams[2:])
    with fast.open(lambda rows: seen.extend(rows.to_pylist()), clock=sw.ManualClock()) as query:
        sent = [0] * copies
        while max(sent) < 30:
            copy, more = rng.randrange(copies), rng.randint(1, 6)
            sources[copy].push([{"at": n // 2, "v": n} for n in range(sent[copy], sent[copy] + more)])
            sent[copy] += more
            query.work()
            assert [row["v"] for row in seen] == list(range(max(sent)))
    assert {row["change"] for row in seen} == {"insert"}


def test_copies_with_a_key_stay_in_order() -> None:
    """There is nothing to revise then."""
    copies = [
        _READERS["assumed"](_ROWS.empty_table()).tumbling(10).group_by("v").aggregate(n=sw.count()) for _ in range(2)
    ]
    assert isinstance(sw.fast_availability(*copies), sw.OrderedStream)


# ---- jumpstart -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [True, False])
@given(table=keyed_tables(), seed=st.integers(0, 10**6), since=st.integers(0, 25), cut=st.integers(1, 6))
def test_a_snapshot_and_what_is_live_since_make_the_whole_table(
    keyed: bool, table: TemporalTable, seed: int, since: int, cut: int
) -> None:
    """Ends that were not known when it was taken are made good; events that both have are emitted once."""
    rng = Random(seed)
    seed_rows: list[Element] = [
        Insert(event.payload, event.start, sw.FOREVER if event.end >= since and rng.random() < 0.5 else event.end)
        for event in table
        if event.start < since or rng.random() < 0.2
    ]
    rng.shuffle(seed_rows)
    how = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3, late_start=since)
    started = sw.jumpstart(
        _changes(seed_rows, keyed=keyed), _changes(present(table, seed, how), keyed=keyed), since=since
    )
    seen: list[pa.RecordBatch] = []
    with started.settle().open(seen.append, batch_rows=cut) as query:
        query.run_to_end()
    assert_same_table(_events(pa.Table.from_batches(seen, started.settle().schema)), table)


@pytest.mark.parametrize("last", [5, 6, 10])
@pytest.mark.parametrize("reader", sorted(_READERS))
def test_a_snapshot_may_be_any_stream_that_ends(reader: str, last: int) -> None:
    """Also one that would guarantee, by its end, that nothing follows: it is believed up to its time and no further.

    Of a live stream that has not come further than the snapshot, what it has sent is emitted.
    """
    rows = pa.Table.from_pylist([{"at": n, "v": n} for n in range(last)], _ROWS)
    live = sw.stream(rows.slice(4), time="at").assume_ordered()
    started = sw.jumpstart(_READERS[reader](rows.slice(0, 5)), live, since=5)
    assert started.settle().run().table.to_pylist() == rows.to_pylist()
    lines = started.explain().splitlines()
    assert any("complete_at_end#1 complete before 5" in line for line in lines)


def test_what_a_snapshot_holds_until_its_end_goes_out_while_the_live_stream_runs() -> None:
    """Its end was declared to be no cut: what its sort flushes then is believed, and not kept until all end."""
    source = sw.PushSource(_ROWS, name="live")
    rows = [{"at": n, "v": n} for n in (1, 0, 3, 2, 4)]
    seed = sw.stream(pa.Table.from_pylist(rows, _ROWS), time="at").sort(patience=9, late=sw.Late.drop())
    started = sw.jumpstart(seed, sw.stream(source, time="at").assume_ordered(), since=5)
    out: list[int] = []
    with started.settle().open(
        lambda released: out.extend(released["at"].to_pylist()), clock=sw.ManualClock()
    ) as query:
        source.push([{"at": n, "v": n} for n in range(5, 9)])
        query.work()
        assert out == list(range(7)), "7 lasts until 8, and is final when 8 has passed"
    assert out == list(range(9))


def test_a_live_stream_that_is_behind_its_snapshot_is_waited_for() -> None:
    """What the snapshot has sent stays emitted; what the live stream sends of the time before is left aside."""
    source = sw.PushSource(_COLUMNS, name="live")
    live = sw.changes(source, time="at", until="until")
    seed = _changes([Insert(("a", 1), 1, 3), Insert(("b", 1), 2, 30)], keyed=False)
    seen: list[dict[str, Any]] = []
    with sw.jumpstart(seed, live, since=10).open(lambda rows: seen.extend(rows.to_pylist())) as query:
        query.work()
        assert [(row["change"], row["k"]) for row in seen] == [("insert", "a"), ("insert", "b")]
        sent: list[Element] = [Insert(("z", 1), 1, 3), Insert(("b", 1), 2, 20), Insert(("c", 1), 12, 15), Punctuate(40)]
        source.push(change_rows(sent, _PAYLOAD))
        query.work()
        assert [(row["change"], row["k"], row["until"]) for row in seen[2:]] == [
            ("insert", "c", 15),
            ("adjust", "b", 20),
        ]


# ---- cutover ---------------------------------------------------------------------------------------------------------


@given(table=keyed_tables(), seed=st.integers(0, 10**6), since=st.integers(0, 25))
def test_changing_over_leaves_no_gap_and_no_repeat(table: TemporalTable, seed: int, since: int) -> None:
    """The old replica is cut off as soon as it is not needed any more; the new one sends the rest."""
    how = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3, late_start=since)
    sources = [sw.PushSource(_COLUMNS, name=name) for name in ("blue", "green")]
    blue, green = (sw.changes(source, time="at", until="until", keyed=True) for source in sources)
    seen: list[pa.RecordBatch] = []
    merged = sw.merge_replicas(blue, green, standby=[green])
    with merged.open(seen.append, clock=sw.ManualClock()) as query:
        sources[0].push(change_rows(present(table, seed, _REVISED), _PAYLOAD))
        sent = change_rows(present(table, seed + 1, how), _PAYLOAD)
        sources[1].push(sent[: len(sent) // 2])
        sw.cutover(query, blue, green, complete_from=since)
        sources[0].push(change_rows([], _PAYLOAD))
        sources[1].push(sent[len(sent) // 2 :])
    assert_same_table(_events(pa.Table.from_batches(seen, merged.schema)), table)


def test_changing_over_to_a_replica_that_cannot_join_is_an_error_that_says_why() -> None:
    """The old one has ended before the new one's time; nothing is detached."""
    sources = [sw.PushSource(_COLUMNS, name=name) for name in ("blue", "green")]
    blue, green = (sw.changes(source, time="at", until="until", keyed=True) for source in sources)
    with sw.merge_replicas(blue, green, standby=[green]).open(lambda _: None, clock=sw.ManualClock()) as query:
        sources[0].push(change_rows([Punctuate(5)], _PAYLOAD))
        sources[0].close()
        with pytest.raises(SlackwaterError) as error:
            sw.cutover(query, blue, green, complete_from=10)
        assert "the new replica cannot join any more" in str(error.value)
        assert "complete from 10 on; the merged stream is complete before 5" in str(error.value)
        assert [one.attached for one in query.replicas()] == [True, True]


# ---- the examples run ------------------------------------------------------------------------------------------------


def _printed(name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    runpy.run_path(str(_EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out.splitlines()


def test_the_example_of_high_availability_counts_every_window_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Though two copies die on the way."""
    printed = _printed("high_availability", capsys)
    assert [line for line in printed if line.startswith("--")] == ["-- frankfurt dies at 15", "-- dublin dies at 32"]
    counts = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in printed if line.startswith("[")}
    expected = {
        f"[{start}, {start + 10}) {sensor}": sum((at % 3 > 0) == (sensor == "in") for at in range(start, start + 10))
        for start in range(0, 60, 10)
        for sensor in ("in", "out")
    }
    assert counts == expected
    assert len(printed) == len(expected) + 2


def test_the_example_of_fast_availability_is_as_fast_as_the_faster_copy(capsys: pytest.CaptureFixture[str]) -> None:
    """In every round."""
    head, *rounds = _printed("fast_availability", capsys)
    assert head.split() == ["round", "blue", "green", "both"]
    counts = [tuple(map(int, line.split()[1:])) for line in rounds]
    assert [both for _, _, both in counts] == [max(blue, green) for blue, green, _ in counts]
    assert counts[-1] == (17, 21, 21)


def test_the_example_of_jumpstart_counts_the_morning_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Ends that the snapshot did not know come from the live stream."""
    printed = _printed("jumpstart", capsys)
    assert sorted(printed[1:7]) == [
        "  adjust bob [4, 17)",
        "  adjust cid [9, 14)",
        "  insert ann [3, 5)",
        "  insert bob [4, 16)",
        "  insert cid [9, None)",
        "  insert dot [13, 18)",
    ]
    leases = [TemporalEvent("", *span) for span in ((3, 5), (4, 17), (9, 14), (13, 18))]
    for line in printed[8:]:
        span, held = line.strip().rsplit(" ", 1)
        start = int(span.strip("[)").partition(",")[0])
        assert sum(lease.start <= start < lease.end for lease in leases) == int(held)
    assert len(printed) == 15


def test_the_example_of_cutover_sends_each_event_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Before and after."""
    printed = _printed("cutover", capsys)
    assert printed[1] == "merge_replicas#1, replica 0 (blue): not attached"
    assert printed[2].startswith("merge_replicas#1, replica 1 (green): joined")
    assert printed[-1] == "each once: True"
