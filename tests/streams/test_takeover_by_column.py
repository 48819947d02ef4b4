"""A replica of a column takes over from one that died, however the rows were cut into batches."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.by_column_cases import interleaved

_SCHEMA = pa.schema({"at": pa.int64(), "replica": pa.string()})
_Row = tuple[str, int]


class _Running:
    """A merge by column that runs: rows in, what has come out so far."""

    def __init__(self, patience: int, every: sw.Every | None, resume: Any = None, out: list[int] | None = None) -> None:
        self.out: list[int] = [] if out is None else out
        self._plan = patience, every
        self._source = sw.PushSource(_SCHEMA)
        merged = sw.stream(self._source, time="at").merge_replicas(by="replica", patience=patience, every=every)
        self.late: list[int] = []
        self.query = merged.open(
            lambda rows: self.out.extend(rows["at"].to_pylist()),
            clock=sw.ManualClock(),
            on_late=lambda rows: self.late.extend(rows["at"].to_pylist()),
            resume=resume,
        )

    def take(self, rows: list[_Row]) -> None:
        """Take rows as one batch."""
        if rows:
            self._source.push([{"at": at, "replica": name} for name, at in rows])
            self.query.work()

    def resumed(self) -> _Running:
        """The same, from a snapshot."""
        return _Running(*self._plan, resume=self.query.snapshot(), out=self.out)


def _cut(rows: list[_Row], rng: Random, cuts: int) -> list[list[_Row]]:
    edges = sorted(rng.randint(0, len(rows)) for _ in range(cuts))
    return [rows[a:b] for a, b in pairwise([0, *edges, len(rows)])]


_CADENCES = [None, sw.Every.batch(), sw.Every.rows(1), sw.Every.time(2)]


@pytest.mark.parametrize("every", _CADENCES, ids=str)
def test_the_output_goes_on_though_the_new_replica_came_with_much_in_one_batch(every: sw.Every | None) -> None:
    """Blue is two patiences past green's first row when it dies: nothing is missing, and nothing stands still."""
    running = _Running(3, every)
    running.take([("blue", at) for at in range(21)])
    running.take([*(("blue", at) for at in range(20, 41)), *(("green", at) for at in range(15, 41))])
    for at in range(41, 80):
        running.take([("green", at)])
    assert running.out[:20] == list(range(20))
    assert running.out[21:] == list(range(20, len(running.out) - 1))  # 20 was sent twice by blue
    assert running.out[-1] >= 79 - 2 * 3


@pytest.mark.parametrize("every", [sw.Every.rows(1), sw.Every.time(1), sw.Every.batch()], ids=str)
@given(
    seed=st.integers(0, 10**6),
    patience=st.sampled_from([1, 2, 6]),
    overlap=st.integers(-8, 30),
    cuts=st.integers(0, 60),
    lasting=st.integers(0, 40),
)
def test_whatever_the_cuts_all_that_was_emitted_goes_out_and_the_survivor_leads(
    every: sw.Every, seed: int, patience: int, overlap: int, cuts: int, lasting: int
) -> None:
    """Where replicas overlapped for long enough, and where they did not, or not at all.

    The same events in every case. How far it is at the end: a patience behind the survivor and two more ticks, if that
    one went on for more than two patiences after the last row of the other, and so at least two patiences behind it.
    """
    rng = Random(seed)
    dies, ends = 40, 40 + 3 * patience + 2 + lasting
    begins = dies - overlap
    blue = [("blue", at) for at in sorted(range(dies + 1), key=lambda at: at + rng.randint(0, patience))]
    green = [
        ("green", at)
        for at in sorted(range(ends + 1), key=lambda at: at + rng.randint(0, patience))
        if at >= begins - patience
    ]
    # What green sent before it appeared, nobody has seen.
    green = green[rng.randint(0, min(patience, len(green) - 1)) :]
    first, together = [row for row in blue if row[1] < begins], [row for row in blue if row[1] >= begins]
    apart = [row for row in green if row[1] <= dies], [row for row in green if row[1] > dies]
    running = _Running(patience, every)
    # Rows that come after the last one of blue are in batches of their own, for those of one batch are simultaneous.
    both = interleaved([together, apart[0]], rng) if overlap > 0 else [*together, *apart[0]]
    for rows in (*_cut([*first, *both], rng, cuts), *_cut(apart[1], rng, cuts)):
        running.take(rows)
        if rng.random() < 0.1:
            running = running.resumed()
    sent = {at for _, at in (*blue, *green)} - set(running.late)
    assert running.out == sorted(at for at in sent if at <= running.out[-1])
    if ends - max(at for _, at in (*apart[0], apart[1][0])) > 2 * patience:
        (lead,) = (one for one in running.query.replicas() if one.name == "green")
        assert lead.joined
        assert lead.merged_before >= ends - max(2 * patience, patience + 2)
    running.query.close()
    assert running.out == sorted(sent)


@given(seed=st.integers(0, 10**6), cuts=st.integers(0, 40))
def test_a_leader_that_lags_is_not_silent(seed: int, cuts: int) -> None:
    """As long as rows of it come, the one that appeared far ahead waits: it lacks what the other has still to send."""
    rng, patience = Random(seed), 4
    rows: list[_Row] = [("old", 0)]
    ahead = 300
    for at in range(1, 200):
        rows.append(("old", at))
        ahead += rng.randint(0, 5 * patience)
        rows += [("new", ahead)] * (rng.random() < 0.8)
    running = _Running(patience, sw.Every.rows(1))
    for piece in _cut(rows, rng, cuts):
        running.take(piece)
    assert running.out == list(range(len(running.out)))
    assert len(running.out) > 190


def test_one_that_comes_back_after_another_took_over_goes_on_where_the_output_is() -> None:
    """What it sends of the time before is not emitted again, and its own order is held to."""
    running = _Running(3, sw.Every.batch())
    running.take([("blue", at) for at in range(21)])
    for at in range(19, 41):
        running.take([("green", at)])
    assert running.out[-1] >= 40 - 2 * 3
    running.take([("blue", at) for at in range(18, 45)])
    running.take([("blue", at) for at in range(45, 60)])
    running.query.close()
    assert running.out == list(range(60))
    assert not running.late


def test_a_query_says_who_leads_who_waits_and_why() -> None:
    """And which of them took over, so that events before may be missing."""
    running = _Running(3, sw.Every.batch())
    running.take([("blue", at) for at in range(21)])
    running.take([("green", at) for at in range(19, 22)])
    blue, green = running.query.replicas()
    assert (blue.name, blue.joined, blue.reason) == ("blue", True, "")
    assert (green.name, green.joined, green.complete_from) == ("green", False, 19 + 3 + 1)
    assert green.reason == (
        "complete from 23 on; the merged stream is complete before 16; takes over when it is past 25 and no "
        "replica that has joined has sent a row"
    )
    running.take([("green", at) for at in range(22, 30)])
    green = running.query.replicas()[1]
    assert green.joined
    assert str(green) == (
        "merge_replicas#1, replica 1 (green): joined, complete before 26; took over from replicas that had fallen "
        "silent: events before 23 may be missing"
    )
