"""Replicas in one stream, distinguished by a column: merged as streams of their own would be, free to come and go."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadTime, LateEvent
from slackwater.events.elements import Insert
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, diverting_steps
from slackwater.testing.by_column_cases import in_order_of_arrival, interleaved, until_dead

if TYPE_CHECKING:
    from collections.abc import Sequence

_Row = dict[str, Any]

_BATCH = sw.Every.batch()
_PATIENCE = 4
_NAMES = ("blue", None, "green")
_SCHEMA = pa.schema({"at": pa.int64(), "until": pa.int64(), "k": pa.string(), "replica": pa.string()})
_OF_ONE = _SCHEMA.remove(_SCHEMA.get_field_index("replica"))
_LONG_AGO = -1_000


def _pushed(source: sw.PushSource, rows: Sequence[_Row], schema: pa.Schema) -> None:
    if rows:
        source.push(pa.RecordBatch.from_pylist([{name: row[name] for name in schema.names} for row in rows], schema))


def _counted(rows: Sequence[_Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(sorted(row.items())) for row in rows)


class _Running:
    """A merge by column that runs: rows in, what has come out so far."""

    def __init__(self, patience: int = _PATIENCE, **options: Any) -> None:
        self.source = sw.PushSource(_SCHEMA)
        stream = sw.stream(self.source, time="at", until="until").merge_replicas(
            by="replica", patience=patience, **{"every": _BATCH, **options}
        )
        self.main: list[_Row] = []
        self.late: list[_Row] = []
        self.query = stream.open(
            lambda rows: self.main.extend(rows.to_pylist()),
            clock=sw.ManualClock(),
            on_late=lambda rows: self.late.extend(rows.to_pylist()),
        )

    def take(self, *rows: tuple[str | None, int]) -> None:
        """Take a batch of rows, each given by its replica and its time."""
        sent = [{"at": at, "until": at + 9, "k": f"{at}", "replica": name} for name, at in rows]
        _pushed(self.source, sent, _SCHEMA)
        self.query.work()

    def times(self) -> list[int]:
        """The times of all events that have come out."""
        return [row["at"] for row in self.main]

    def end(self) -> None:
        """Let the stream end."""
        self.source.close()
        self.query.run_to_end()


# ---- as streams of their own ----------------------------------------------------------------------------------------


def _pieces(rows: Sequence[_Row], cuts: int, rng: Random) -> list[list[_Row]]:
    """A replica's rows in pieces, of which the first has one at least; rows of long ago in all but the first."""
    edges = sorted(rng.randint(1, max(1, len(rows))) for _ in range(cuts - 1))
    pieces = [list(rows[a:b]) for a, b in zip([0, *edges], [*edges, len(rows)], strict=True)]
    for piece in pieces[1:] if rows else []:
        for _ in range(rng.choice([0, 0, 1, 2])):
            late = {"at": _LONG_AGO + rng.randint(0, 3), "until": rng.randint(0, 9), "k": rng.choice("ab")}
            piece.insert(rng.randint(0, len(piece)), late)
    return pieces


def _together(pieces: Sequence[Sequence[_Row]], rng: Random) -> list[_Row]:
    named = [[{**row, "replica": name} for row in piece] for name, piece in zip(_NAMES, pieces, strict=True)]
    return interleaved(named, rng)


def _as_streams_of_their_own(turns: Sequence[Sequence[Sequence[_Row]]], every: sw.Every) -> tuple[Any, Any]:
    sources = [sw.PushSource(_OF_ONE, name=str(name)) for name in _NAMES]
    ordered = [sw.stream(one, time="at", until="until").sort(_PATIENCE, every=every) for one in sources]
    merged = sw.merge_replicas(*ordered)
    main: list[_Row] = []
    late: list[_Row] = []
    bindings = [(merged, lambda rows: main.extend(rows.to_pylist()))]
    for step, name in zip(diverting_steps(merged.node), _NAMES, strict=True):

        def take(rows: pa.RecordBatch, name: str | None = name) -> None:
            late.extend({**row, "replica": name} for row in rows.to_pylist())

        bindings.append((sw.DisorderedStream(SideOutput(step, LATE)), take))  # type: ignore[arg-type]
    with sw.Query(bindings, clock=sw.ManualClock()) as query:
        for turn in turns:
            for source, piece in zip(sources, turn, strict=True):
                _pushed(source, piece, _OF_ONE)
            query.work()
        for source in sources:
            source.close()
        query.run_to_end()
    return main, late


@given(data=st.data(), seed=st.integers(0, 10**6), cuts=st.integers(1, 5), by_rows=st.booleans())
def test_replicas_by_column_are_merged_as_streams_of_their_own_are(
    data: st.DataObject, seed: int, cuts: int, by_rows: bool
) -> None:
    """The same events, in order, and the same late rows with the same bounds, however the replicas are interleaved."""
    rng = Random(seed)
    starts = data.draw(st.lists(st.integers(0, 25), max_size=20))
    events = [Insert((rng.choice("ab"),), at, at + rng.randint(1, 9)) for at in starts]
    replicas = [in_order_of_arrival(events, _PATIENCE, rng) for _ in _NAMES]
    dying = data.draw(st.integers(0, len(_NAMES) - 1))
    replicas[:dying] = [until_dead(replica, rng) for replica in replicas[:dying]]
    rows = [[{"at": e.start, "until": e.end, "k": e.payload[0]} for e in replica] for replica in replicas]  # type: ignore[index]
    turns = list(zip(*(_pieces(replica, cuts, rng) for replica in rows), strict=True))
    every = sw.Every.rows(1) if by_rows else _BATCH
    expected, expected_late = _as_streams_of_their_own(turns, every)
    running = _Running(every=every)
    for turn in turns:
        _pushed(running.source, _together(turn, rng), _SCHEMA)
        running.query.work()
    running.end()
    assert _counted(running.main) == _counted(expected)
    assert running.times() == sorted(running.times())
    assert _counted(running.late) == _counted(expected_late)


# ---- coming and going -----------------------------------------------------------------------------------------------


def test_a_replica_that_appears_ahead_does_not_silence_the_older_ones() -> None:
    """It may have sent, before it appeared, what the others have still to send: all from 31 to 35 was, here.

    Its own events count at once.
    """
    running = _Running(patience=5)
    running.take(("old", 0), ("old", 1))
    running.take(("new", 30), *(("new", at) for at in range(36, 41)))
    for at in range(2, 90):
        running.take(("old", at), *[("new", at + 10)] * (at > 30))
    running.end()
    assert running.times() == list(range(100))
    assert not running.late


def test_a_replica_that_has_caught_up_leads_when_the_older_one_dies() -> None:
    """What it sends goes out while the query runs, not only at its end."""
    running = _Running(patience=5)
    running.take(("old", 0))
    for at in range(1, 40):
        running.take(*[("old", at)] * (at < 30), *[("new", at)] * (at > 10))
    assert running.times() == list(range(33))
    assert not running.late


def test_until_the_others_have_come_a_patience_past_its_first_rows_a_new_replica_does_not_lead() -> None:
    """An event exactly a patience past them may have been sent before: the older replica has still to send it.

    The new one's first row is 10, and its patience 5: it would be in time, if 15 had come before. Nobody has sent 14,
    so that the merged stream is complete before 15 as soon as the old one has come to 20.
    """
    running = _Running(patience=5)
    running.take(("old", 0))
    running.take(("new", 10), ("old", 10))
    running.take(("old", 20), ("new", 20))
    running.take(("new", 23), ("new", 30))
    assert running.times() == [0, 10]
    running.take(("old", 15))
    running.take(("old", 23))
    assert running.times() == [0, 10, 15, 20, 23]
    assert not running.late


@given(seed=st.integers(0, 10**6), every=st.sampled_from([_BATCH, sw.Every.rows(1), sw.Every.time(3)]))
def test_while_replicas_come_and_go_every_event_is_emitted_once(seed: int, every: sw.Every) -> None:
    """Each overlaps with the one before it for long enough, and lacks what it sent before it appeared."""
    rng, patience = Random(seed), 4
    arrivals: list[tuple[float, str, int]] = []
    for life in range(4):
        first, last = 60 * life, 60 * life + 100  # by the clock of the senders; times are no more than a patience off
        pace = rng.uniform(-6, 6)
        for at in range(300):
            sent = at + rng.randint(0, patience)
            if (first <= sent or not life) and (sent <= last or life == 3):
                arrivals.append((sent + pace, f"replica {life}", at))
    arrivals.sort()
    running = _Running(patience=patience, every=every)
    while arrivals:
        size = rng.randint(1, 30)
        running.take(*((name, at) for _, name, at in arrivals[:size]))
        arrivals = arrivals[size:]
    assert running.times() == list(range(len(running.main)))
    assert len(running.main) > 250
    running.end()
    assert running.times() == list(range(300))
    assert not running.late


def test_where_nobody_is_left_to_lead_the_one_that_goes_on_takes_over() -> None:
    """The old one died before the new one could join: what either has sent goes out, and the new one leads."""
    running = _Running(patience=5)
    running.take(("old", 0))
    running.take(("old", 10), ("old", 12))
    running.take(("new", 11), ("new", 12))
    running.take(("new", 21))
    assert running.times() == [0]
    running.take(("new", 20), ("new", 50))
    assert running.times() == [0, 10, 11, 12, 20, 21]
    running.end()
    assert running.times() == [0, 10, 11, 12, 20, 21, 50]


def test_a_replica_that_begins_later_than_the_others_does_not_lead_though_all_come_at_once() -> None:
    """It lacks what was before, as a replica does that appears later; so a stream that comes as a whole is merged."""
    old, new = [("old", at) for at in range(40)], [("new", at) for at in range(10, 60)]
    for every in (_BATCH, sw.Every.rows(1), sw.Every.rows(1_000)):
        running = _Running(patience=5, every=every)
        running.take(*old, *new)
        running.end()
        assert running.times() == list(range(60))


def test_at_the_end_what_only_one_replica_has_sent_goes_out_as_well() -> None:
    """With a patience longer than the stream, nobody has guaranteed anything: not even the one that came furthest."""
    running = _Running(patience=50)
    running.take(("blue", 1), ("green", 1), ("blue", 2), ("green", 3))
    running.end()
    assert running.times() == [1, 2, 3]


def test_at_the_end_a_replica_that_began_in_the_middle_silences_nobody() -> None:
    """Equally far or further: it lacks the first half, and the others have it."""
    for last in (8, 9):
        running = _Running(patience=50)
        running.take(*(("blue", at) for at in range(9)), *(("green", at) for at in range(4, last + 1)))
        running.end()
        assert running.times() == list(range(last + 1))


def test_a_query_goes_on_from_a_snapshot_with_replicas_that_come_and_go() -> None:
    """Nothing is emitted twice, and the replicas are those that were known."""
    source = sw.PushSource(_SCHEMA)

    def stream(source: sw.PushSource) -> sw.OrderedStream:
        return sw.stream(source, time="at", until="until").merge_replicas(
            "replica", 5, every=_BATCH, late=sw.Late.drop()
        )

    emitted: list[int] = []
    query = stream(source).open(lambda rows: emitted.extend(rows["at"].to_pylist()), clock=sw.ManualClock())
    for at in range(40):
        names = [*["old"] * (at < 30), *["new"] * (at > 10)]
        _pushed(source, [{"at": at, "until": None, "k": "a", "replica": name} for name in names], _SCHEMA)
        query.work()
        if at % 7 == 0:
            snapshot, source = query.snapshot(), sw.PushSource(_SCHEMA)
            query = stream(source).open(
                lambda rows: emitted.extend(rows["at"].to_pylist()), clock=sw.ManualClock(), resume=snapshot
            )
    assert emitted == list(range(33))


# ---- late rows ------------------------------------------------------------------------------------------------------


def test_a_row_is_late_for_its_own_replica_alone() -> None:
    """A replica that lags is not late, however far the others are; the late output says whose row it was."""
    running = _Running(patience=5)
    running.take(("fast", 100), ("slow", 1))
    running.take(("slow", 3), ("slow", 2), ("fast", 94), ("fast", 95))
    running.take(("slow", 20))
    running.take((None, 3), ("slow", 14))
    assert running.late == [
        {"at": 94, "until": 103, "k": "94", "replica": "fast", "late_bound": 95, "late_by": 1},
        {"at": 14, "until": 23, "k": "14", "replica": "slow", "late_bound": 15, "late_by": 1},
    ]
    assert running.query.counters()["merge_replicas#1"].late == 2


@pytest.mark.parametrize("action", ["divert", "drop", "adjust"])
def test_rows_without_a_time_go_where_late_rows_go(action: str) -> None:
    """Also those of a replica that has sent no time yet; it takes part from its first time on."""
    rows = [(None, "new"), (3, "old"), (None, "old"), (4, "old"), (None, None)]
    table = [{"at": at, "k": "a", "replica": name} for at, name in rows]
    stream = sw.stream(table, time="at", untimed_is_late=True)
    result = stream.merge_replicas("replica", 50, late=getattr(sw.Late, action)()).run()
    assert result.table["at"].to_pylist() == {"adjust": [-47, 3, 4]}.get(action, [3, 4])
    late = [{**row, "late_bound": None, "late_by": None} for row in table if row["at"] is None]
    assert _counted(result.late.to_pylist()) == _counted(late) if action == "divert" else not result.late


def test_a_row_without_a_time_or_a_late_one_stops_a_query_that_refuses_them() -> None:
    """As with sort()."""
    rows = [{"at": 30, "replica": "a"}, {"at": 3, "replica": "b"}, {"at": 3, "replica": "a"}]
    with pytest.raises(LateEvent, match="'replica': 'a'"):
        sw.stream(rows, time="at").merge_replicas(
            "replica", 5, every=sw.Every.rows(1), late=sw.Late.raise_error()
        ).run()
    untimed = sw.stream([{"at": 1, "replica": "a"}, {"at": None, "replica": "a"}], time="at", untimed_is_late=True)
    with pytest.raises(BadTime):
        untimed.merge_replicas("replica", 5, late=sw.Late.raise_error()).run()


# ---- what rows are made of ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [1, 2, None]),
        (pa.string(), ["", "a", None]),
        (pa.string_view(), ["", "a", None]),
        (pa.binary(), [b"", b"a", None]),
        (pa.dictionary(pa.int8(), pa.string()), ["", "a", None]),
        (pa.float64(), [0.0, float("nan"), None]),
        (pa.bool_(), [True, False, None]),
    ],
)
def test_the_column_may_have_any_plain_type(kind: pa.DataType, values: list[Any]) -> None:
    """Each value is a replica of its own, null among them: a row that is late for it is in time for the others."""
    names = pa.array([*values, *values], kind)
    table = pa.table({"at": [20, 1, 1, 9, 20, 20], "replica": names})
    result = sw.stream(table, time="at").merge_replicas("replica", 5, every=sw.Every.rows(1)).run()
    assert result.table.to_pydict() == {"at": [1, 20]}
    (late,) = result.late.to_pylist()
    assert (late["at"], late["replica"]) == (9, values[0])


def test_events_that_are_equal_within_a_replica_count() -> None:
    """As many as one replica sends."""
    rows = [{"at": at, "replica": name} for name in "ab" for at in (1, 1, 2, 9)]
    assert sw.stream(rows, time="at").merge_replicas("replica", 3).run().table["at"].to_pylist() == [1, 1, 2, 9]


def test_steps_behind_the_merge_see_ordered_events_without_the_column() -> None:
    """The sort goes behind what needs no order, and columns that nobody reads are left out behind the merge."""
    rows = [{"at": at, "k": "ab"[at % 2], "v": at, "replica": name} for at in range(30) for name in ("x", "y")]
    merged = sw.stream(rows, time="at").merge_replicas("replica", 5)
    assert merged.schema.names == ["at", "k", "v"]
    counts = merged.tumbling(10).group_by("k").aggregate(n=sw.count())
    assert counts.run().table["n"].to_pylist() == [5] * 6


def test_merged_streams_may_be_replicas_themselves() -> None:
    """At its end such a stream guarantees nothing that it does not know."""
    rows = [{"at": at, "replica": name} for at in range(30) for name in ("x", "y")]
    regions = [sw.stream(rows[:cut], time="at").merge_replicas("replica", 5) for cut in (20, 60)]
    assert sw.merge_replicas(*regions).run().table["at"].to_pylist() == list(range(30))
