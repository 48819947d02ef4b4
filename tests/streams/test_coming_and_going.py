"""Replicas that come and go while a query runs: no gap, no repeat, and everybody knows how each of them stands."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError, RunError, SlackwaterError, StepFailed
from slackwater.events.elements import Insert, Punctuate
from slackwater.temporal.table import TemporalTable
from slackwater.testing.change_rows import change_rows, change_schema, events_of
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from slackwater.events.elements import Element

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_COLUMNS = change_schema(_PAYLOAD)


class _Replica:
    """A live replica: its source, its stream, and what it still has to send."""

    def __init__(self, name: str, sent: list[Element] | None = None, *, keyed: bool = True) -> None:
        self.source = sw.PushSource(_COLUMNS, name=name)
        self.stream = sw.changes(self.source, time="at", until="until", keyed=keyed)
        self.left = list(sent or [])

    def send(self, *elements: Element) -> None:
        self.source.push(change_rows(elements, _PAYLOAD))

    def send_some(self, rng: Random) -> None:
        some, self.left = self.left[: (n := rng.randint(1, 4))], self.left[n:]
        if some:
            self.send(*some)


class _Out:
    """Takes rows, and spells them out."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.to_pylist()

    @property
    def events(self) -> list[Insert]:
        return events_of(self.rows)

    @property
    def words(self) -> list[str]:
        return [row["k"] for row in self.rows]


def _event(word: str, start: int, end: int | None = None) -> Insert:
    return Insert((word, 1), start, start + 1 if end is None else end)


# ---- the law ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("early", [True, False])
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_one_replica_after_another_sends_the_table_without_a_gap_or_a_repeat(
    keyed: bool, early: bool, data: st.DataObject, seed: int
) -> None:
    """Each sends what lasts until its own time or longer, joins while the one before is there, and takes over."""
    table: TemporalTable = data.draw(keyed_tables())
    if not keyed:
        table = TemporalTable([event for event in table for _ in range(1 + event.start % 3)], table.complete_before)
    rng, froms = Random(seed), data.draw(st.lists(st.integers(0, 25), min_size=1, max_size=3))
    how = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)
    first = _Replica("first", present(table, seed, how), keyed=keyed)
    others = [
        _Replica(f"from {since}", present(table, seed + 1 + n, _since(how, since)), keyed=keyed)
        for n, since in enumerate(froms)
    ]
    agreement = sw.Agreement.first() if early else sw.Agreement.frozen()
    waiting = [other.stream for other in others]
    merged = sw.merge_replicas(first.stream, *waiting, agreement=agreement, standby=waiting)
    out = _Out()
    with merged.settle().open(out, clock=sw.ManualClock()) as query:
        current = first
        for since, new in zip(froms, others, strict=True):
            for _ in range(rng.randint(0, 4)):
                current.send_some(rng)
                query.work()
            query.attach(new.stream, complete_from=since)
            while query.waits_to_join(new.stream):
                rng.choice([current, new] if new.left else [current]).send_some(rng)
                query.work()
            query.detach(current.stream)
            current = new
        while current.left:
            current.send_some(rng)
            query.work()
    assert_same_table(out.events, table)


def _since(how: Presentation, since: int) -> Presentation:
    return Presentation(**{**{name: getattr(how, name) for name in how.__dataclass_fields__}, "late_start": since})


@given(table=keyed_tables(), seed=st.integers(0, 10**6), since=st.integers(0, 25))
def test_replicas_that_die_and_come_back_change_nothing_while_one_lives(
    table: TemporalTable, seed: int, since: int
) -> None:
    """Again and again, at any moment, with another presentation each time."""
    rng, how = Random(seed), Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)
    steady, mortal = (_Replica(name, present(table, seed, how)) for name in ("steady", "mortal"))
    out = _Out()
    with sw.merge_replicas(steady.stream, mortal.stream, attachable=True).open(out, clock=sw.ManualClock()) as query:
        lives = 0
        while steady.left:
            rng.choice([steady, mortal]).send_some(rng)
            query.work()
            if rng.random() < 0.3:
                mortal.source.close()
                query.work()
                lives += 1
                again = _Replica("mortal", present(table, seed + lives, _since(how, since)))
                query.attach(again.stream, complete_from=since, instead_of=mortal.stream)
                mortal = again
    assert_same_table(out.events, table)


# ---- waiting, attached, joined, detached -----------------------------------------------------------------------------


def test_a_replica_that_waits_is_not_read_until_it_is_attached() -> None:
    """What its source has stays there, and counts from then on."""
    blue, green = _Replica("blue"), _Replica("green")
    out = _Out()
    merged = sw.merge_replicas(blue.stream, green.stream, standby=[green.stream])
    with merged.open(out, clock=sw.ManualClock()) as query:
        green.send(_event("g", 5), Punctuate(9))
        blue.send(_event("b", 1), Punctuate(3))
        query.work()
        assert (green.source.waiting, out.words) == (2, ["b"])
        query.attach(green.stream, complete_from=3)
        query.work()
        assert (green.source.waiting, out.words) == (0, ["b", "g"])


def test_a_source_that_somebody_listens_to_is_read_though_another_replica_of_it_waits() -> None:
    """One replica comes from a step behind the source of the other; that one waits, and the source does not."""
    blue = _Replica("blue")
    waiting = blue.stream.where(nw.col("v") >= 0)
    out = _Out()
    with sw.merge_replicas(blue.stream, waiting, standby=[waiting]).open(out, clock=sw.ManualClock()) as query:
        blue.send(_event("b", 1), Punctuate(3))
        query.work()
        assert (blue.source.waiting, out.words) == (0, ["b"])


@pytest.mark.parametrize("keyed", [True, False])
def test_an_event_at_the_very_time_that_is_settled_goes_out_at_once(keyed: bool) -> None:
    """The output is complete before 5; an event at 5 is not late for it, and the first to send it is believed."""
    blue, green = _Replica("blue", keyed=keyed), _Replica("green", keyed=keyed)
    out = _Out()
    merged = sw.merge_replicas(blue.stream, green.stream, agreement=sw.Agreement.first())
    with merged.open(out, clock=sw.ManualClock()) as query:
        blue.send(_event("a", 1), Punctuate(5))
        query.work()
        blue.send(_event("b", 5, 90))
        query.work()
        assert out.words == ["a", "b"]


def test_guarantees_of_a_replica_count_when_it_has_joined() -> None:
    """Not before the merged stream has come as far as it sends everything from."""
    blue, green = _Replica("blue"), _Replica("green")
    out = _Out()
    merged = sw.merge_replicas(blue.stream, green.stream, standby=[green.stream])
    with merged.open(out, clock=sw.ManualClock()) as query:
        query.attach(green.stream, complete_from=10)
        green.send(_event("g", 12), Punctuate(30))
        query.work()
        assert query.waits_to_join(green.stream)
        assert out.words == []
        blue.send(_event("b", 4), Punctuate(10))
        query.work()
        assert not query.waits_to_join(green.stream)
        assert out.words == ["b", "g"]


def test_a_replica_that_is_detached_is_read_and_not_listened_to() -> None:
    """Its feeder is not held up; what it sends goes nowhere; it may end, and be attached again before that."""
    blue, green = _Replica("blue"), _Replica("green")
    out = _Out()
    with sw.merge_replicas(blue.stream, green.stream, attachable=True).open(out, clock=sw.ManualClock()) as query:
        query.detach(green.stream)
        green.send(_event("lost", 2), Punctuate(9))
        query.work()
        assert (green.source.waiting, out.words) == (0, [])
        query.attach(green.stream, complete_from=0)
        blue.send(_event("b", 1), Punctuate(3))
        green.send(_event("g", 12), Punctuate(20))
        query.work()
        assert out.words == ["b", "g"]
        query.detach(green.stream)
        green.source.close()
        query.work()
        blue.send(_event("c", 30), Punctuate(40))
    assert out.words == ["b", "g", "c"]


@pytest.mark.parametrize("leaves", ["detached", "waiting"])
def test_a_replica_that_is_not_attached_does_not_keep_the_stream_from_ending(leaves: str) -> None:
    """When all that are attached have ended, so has the merged stream."""
    blue, green = _Replica("blue"), _Replica("green")
    out = _Out()
    waiting = [green.stream] if leaves == "waiting" else []
    query = sw.merge_replicas(blue.stream, green.stream, standby=waiting, attachable=True).open(out)
    if leaves == "detached":
        query.detach(green.stream)
    blue.send(_event("b", 1))
    blue.source.close()
    assert query.run_to_end().counters["merge_replicas#1"].rows_out == 1
    assert out.words == ["b"]
    with pytest.raises(PlanError, match="this merge has ended"):
        query.attach(green.stream, complete_from=0)


def test_a_detached_replica_that_ends_after_the_merged_stream_ends_nothing_else() -> None:
    """Another stream of the same query goes on."""
    blue, green, other = _Replica("blue"), _Replica("green"), _Replica("other")
    merged, out = sw.merge_replicas(blue.stream, green.stream, agreement=sw.Agreement.first()), _Out()
    query = sw.Query([(merged, out), (other.stream, lambda _: None)], clock=sw.ManualClock())
    query.detach(green.stream)
    blue.source.close()
    query.work()
    green.source.close()
    query.work()
    assert not query.finished
    other.source.close()
    query.work()
    assert query.finished


def test_the_stream_ends_when_the_last_that_had_not_ended_is_detached() -> None:
    """What the others had sent is taken for everything."""
    blue, green = _Replica("blue"), _Replica("green")
    out = _Out()
    query = sw.merge_replicas(blue.stream, green.stream).open(out, clock=sw.ManualClock())
    green.send(_event("g", 1))
    green.source.close()
    query.work()
    assert (out.words, query.finished) == ([], False)
    query.detach(blue.stream)
    assert (out.words, query.finished) == (["g"], True)


def test_ordered_replicas_are_detached_as_others_are() -> None:
    """In every case; there must be one left."""
    sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
    counts = [sw.stream(source, time="at").assume_ordered().tumbling(10).aggregate(n=sw.count()) for source in sources]
    seen: list[int] = []
    query = sw.merge_replicas(*counts).open(lambda rows: seen.extend(rows.column("n").to_pylist()))
    query.detach(counts[0])
    sources[0].push([{"at": 1}, {"at": 50}])
    sources[1].push([{"at": 2}, {"at": 3}, {"at": 11}])
    query.work()
    assert seen == [2]
    with pytest.raises(PlanError, match="the only replica that is attached"):
        query.detach(counts[1])
    with pytest.raises(PlanError, match="this replica is not attached"):
        query.detach(counts[0])
    query.close()
    assert seen == [2, 1]


# ---- taking the place of one that died -------------------------------------------------------------------------------


def test_a_replica_that_died_comes_back_as_a_new_source_in_its_place() -> None:
    """With the steps that were written on it; its late rows still go where they went."""

    def windows(source: sw.PushSource) -> sw.OrderedStream:
        stream = sw.stream(source, time="at").where(nw.col("at") >= 0).sort(patience=2)
        return stream.tumbling(10).aggregate(n=sw.count())

    def source(name: str) -> sw.PushSource:
        return sw.PushSource({"at": pa.int64()}, name=name)

    blue, green, again = source("blue"), source("green"), source("green again")
    first, second = windows(blue), windows(green)
    seen: list[int] = []
    late: list[int] = []
    query = sw.merge_replicas(first, second, attachable=True).open(
        lambda rows: seen.extend(rows.column("n").to_pylist()),
        on_late=lambda rows: late.extend(rows.column("at").to_pylist()),
        clock=sw.ManualClock(),
    )
    for at in (1, 2, 3):
        blue.push({"at": at})
        green.push({"at": at})
    query.work()
    query.detach(second)  # before its source is closed: an aggregate takes an end for the end of all rows
    green.close()
    query.work()
    assert [one.ended for one in query.replicas()] == [False, True]
    query.attach(windows(again), complete_from=10, instead_of=second)
    blue.push([{"at": 12}, {"at": 25}])
    query.work()
    again.push([{"at": 12}, {"at": 25}, {"at": 40}, {"at": 5}])
    query.work()
    assert late == [5]
    assert [one.name for one in query.replicas()] == ["blue", "green again"]
    query.detach(first)
    blue.close()
    again.push({"at": 61})
    query.work()
    assert not query.finished
    query.close()
    assert seen == [3, 1, 1, 1, 1]
    assert query.finished


def test_a_snapshot_taken_after_a_replica_was_replaced_is_of_the_same_plan() -> None:
    """The new one stands in the place of the old, under its name."""
    blue, green, again = _Replica("blue"), _Replica("green"), _Replica("green")
    out = _Out()
    query = sw.merge_replicas(blue.stream, green.stream, attachable=True).open(out, clock=sw.ManualClock())
    green.source.close()
    query.work()
    query.attach(again.stream, complete_from=sw.BEGINNING, instead_of=green.stream)
    again.send(_event("g", 3), _event("h", 30, 35), Punctuate(20))
    query.work()
    state = query.snapshot()
    fresh = [_Replica("blue"), _Replica("green")]
    merged = sw.merge_replicas(*(one.stream for one in fresh), attachable=True)
    resumed = merged.open(out, clock=sw.ManualClock(), resume=state)
    fresh[0].send(_event("h", 30, 35), Punctuate(40))
    resumed.work()
    assert out.words == ["g", "h"]


def test_who_takes_part_is_part_of_a_snapshot() -> None:
    """A replica that was attached stays so, one that was detached, too."""
    out = _Out()

    def opened(resume: Any = None) -> tuple[list[_Replica], sw.Query]:
        replicas = [_Replica("blue"), _Replica("green")]
        blue, green = (one.stream for one in replicas)
        merged = sw.merge_replicas(blue, green, standby=[green])
        return replicas, merged.open(out, clock=sw.ManualClock(), resume=resume)

    (blue, green), query = opened()
    query.attach(green.stream, complete_from=sw.BEGINNING)
    query.detach(blue.stream)
    (blue, green), query = opened(query.snapshot())
    assert [one.attached for one in query.replicas()] == [False, True]
    blue.send(_event("b", 1), Punctuate(9))
    green.send(_event("g", 1), Punctuate(9))
    query.work()
    assert out.words == ["g"]
    green.source.close()
    query.work()
    assert query.finished


# ---- how each stands -------------------------------------------------------------------------------------------------


def test_standings_are_emitted_in_words() -> None:
    """Also that nobody is left who could bring the merged stream as far as a replica sends from."""
    blue, green, red = _Replica("blue"), _Replica("green"), _Replica("red")
    merged = sw.merge_replicas(blue.stream, green.stream, red.stream, standby=[green.stream, red.stream])
    with merged.open(_Out(), clock=sw.ManualClock()) as query:
        blue.send(_event("b", 1), Punctuate(7))
        query.work()
        query.attach(green.stream, complete_from=10)
        waits = "waits to join, complete from 10 on; the merged stream is complete before 7"
        assert [str(one) for one in query.replicas()] == [
            "merge_replicas#1, replica 0 (blue): joined, complete before 7",
            f"merge_replicas#1, replica 1 (green): {waits}",
            "merge_replicas#1, replica 2 (red): not attached",
        ]
        blue.source.close()
        query.work()
        assert str(query.replicas()[0]) == "merge_replicas#1, replica 0 (blue): joined, complete before 7, ended"
        standing = query.replicas()[1]
        assert standing.alone
        assert str(standing).endswith(f"{waits}, and no other replica is left to bring it further")
        query.detach(blue.stream)
        assert query.replicas()[1].alone


def test_times_are_given_as_users_write_them() -> None:
    """A datetime on calendar time, a number on sequence numbers, and nothing else."""
    columns = pa.schema({"at": pa.timestamp("ms", "UTC"), "k": pa.string()})
    blue, green = (
        sw.stream(sw.PushSource(columns, name=name), time="at").assume_ordered() for name in ("blue", "green")
    )
    with sw.merge_replicas(blue, green, standby=[green]).open(lambda _: None) as query:
        with pytest.raises(PlanError, match="write a datetime"):
            query.attach(green, complete_from=10)
        query.attach(green, complete_from=datetime(2026, 11, 16, 5, tzinfo=UTC))
        standing = query.replicas()[1]
        assert standing.complete_from == 1_794_805_200_000_000
        assert "complete from 2026-11-16T05:00:00.000000Z on" in str(standing)
    numbers = _Replica("blue"), _Replica("green")
    with sw.merge_replicas(*(one.stream for one in numbers), standby=[numbers[1].stream]).open(_Out()) as query:
        with pytest.raises(PlanError, match="write a plain int"):
            query.attach(numbers[1].stream, complete_from=datetime(2026, 11, 16, tzinfo=UTC))
        query.attach(numbers[1].stream, complete_from=sw.BEGINNING)
        assert query.replicas()[1].joined


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_attached_is_refused_and_changes_nothing() -> None:
    """Strangers, those that are attached, those that have ended, merges that were not made for it."""
    blue, green, red = _Replica("blue"), _Replica("green"), _Replica("red")
    out = _Out()
    query = sw.merge_replicas(blue.stream, green.stream, standby=[green.stream]).open(out, clock=sw.ManualClock())
    with pytest.raises(PlanError, match="this is not a replica of this query"):
        query.attach(red.stream, complete_from=0)
    with pytest.raises(PlanError, match="this replica is attached already"):
        query.attach(blue.stream, complete_from=0)
    with pytest.raises(PlanError, match="this replica is attached, and has not ended"):
        query.attach(red.stream, complete_from=0, instead_of=blue.stream)
    with pytest.raises(PlanError, match="one of the same plan"):
        query.attach(red.stream.where(nw.col("v") > 0), complete_from=0, instead_of=green.stream)
    query.attach(green.stream, complete_from=0)
    green.source.close()
    query.work()
    with pytest.raises(PlanError, match="this replica has ended"):
        query.attach(green.stream, complete_from=0)
    with pytest.raises(SlackwaterError, match="being read already"):
        query.attach(_same_source(blue), complete_from=0, instead_of=green.stream)
    blue.send(_event("b", 1), Punctuate(5))
    query.work()
    assert out.words == ["b"]
    fixed = sw.merge_replicas(_Replica("blue").stream, red.stream).open(out)
    fixed.detach(red.stream)
    with pytest.raises(PlanError, match="attachable=True"):
        fixed.attach(red.stream, complete_from=0)


def _same_source(replica: _Replica) -> sw.RevisedStream:
    return sw.changes(replica.source, time="at", until="until", keyed=True)


def test_a_replica_that_shares_its_source_with_others_cannot_be_replaced() -> None:
    """Whoever else reads it would lose it."""
    shared, green = _Replica("shared"), _Replica("green")
    one, other = shared.stream.select("k", "v"), shared.stream.where(nw.col("v") > 0)
    query = sw.merge_replicas(one, other, attachable=True).open(_Out())
    query.detach(other)
    with pytest.raises(PlanError, match="shares a step with others"):
        query.attach(green.stream.where(nw.col("v") > 0), complete_from=0, instead_of=other)


def test_replicas_come_and_go_between_steps_only() -> None:
    """Not in a callback, where the graph is at work; and not when the query has failed."""
    blue, green = _Replica("blue"), _Replica("green")
    refused: list[str] = []

    def attach(rows: pa.RecordBatch) -> None:
        with pytest.raises(PlanError) as error:
            query.attach(green.stream, complete_from=0)
        refused.append(str(error.value).splitlines()[0])
        if rows.column("k").to_pylist() == ["fail"]:
            raise ValueError("seven")

    query = sw.merge_replicas(blue.stream, green.stream, standby=[green.stream]).open(attach, clock=sw.ManualClock())
    blue.send(_event("b", 1), Punctuate(5))
    query.work()
    assert refused == ["replicas come and go between two steps of a query"]
    blue.send(_event("fail", 6), Punctuate(9))
    with pytest.raises(StepFailed, match="seven"):
        query.work()
    with pytest.raises(RunError, match="has failed and cannot go on"):
        query.attach(green.stream, complete_from=0)
    with pytest.raises(RunError, match="has failed and cannot go on"):
        query.detach(blue.stream)
