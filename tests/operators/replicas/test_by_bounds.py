"""Replicas of a column that go by bounds: what is complete, what nobody can send any more, and who takes over."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.testing.oracles.by_bounds import Known, MergedByBounds, Row
from slackwater.testing.oracles.heartbeats import Skew, System, figure_2
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival

_ROWS = pa.schema({"at": pa.int64(), "what": pa.string(), "who": pa.int64(), "landed": pa.int64()})

# ---- against the oracle ----------------------------------------------------------------------------------------------


def _bounds_of(system: System, delay: int | None, lull: int | None) -> sw.Bounds:
    def bound(skew: Skew) -> sw.Bound:
        return sw.Bound(skew.delta, skew.ticks or 0, skew.wait if skew.ticks is None else 0, strictly=True)

    entries = {both: [bound(skew) for skew in pairs] for both, pairs in system.bounds.items() if pairs}
    bounds = sw.Bounds(entries, latency=dict(enumerate(system.latency))).only(*system.sources)
    bounds = bounds if delay is None else bounds & sw.Bounds.delay(delay)
    return bounds if lull is None else bounds & sw.Bounds.lull(lull)


def _known(
    system: System, arrivals: list[Arrival], patience: int, delay: int | None, lull: int | None, until: int
) -> Known:
    """How far replicas are, tick by tick: by the paper's algorithm, by their own patience, and by the clock."""
    own = System((0,) * len(system.latency), {(i, i): (Skew(0, patience + 1),) for i in system.sources})

    def beats(timeout: int | None, extra: Sequence[int]) -> list[list[int]]:
        found = zip(figure_2(system, arrivals, until, timeout), figure_2(own, arrivals, until), strict=True)
        clocks = [[tick - (1 << 40 if delay is None else delay + one) for one in extra] for tick in range(until + 1)]
        beats = [list(map(max, *both, clock)) for both, clock in zip(found, clocks, strict=True)]
        first = arrivals[0][0]  # before it there is no row to say what the time is
        return [[sw.BEGINNING - 1] * len(extra)] * first + beats[first:]

    behind = [
        min(
            [skew.delta - 1 for skew in system.entry(i, i) if skew.ticks == 0 and not system.latency[i]],
            default=patience,
        )
        for i in system.sources
    ]
    nothing = [0] * len(system.latency)
    return Known(beats(None, system.latency), beats(lull, nothing), [min(one, patience) for one in behind], patience)


def _run(rows: Sequence[Row], bounds: sw.Bounds, patience: int, cuts: Iterable[int]) -> tuple[Any, list[Any]]:
    """A query over rows that say when they arrived, cut into batches; and what came out after each of them."""
    table = pa.Table.from_pylist(
        [{"at": row.time, "what": row.what, "who": row.source, "landed": row.tick} for row in rows], _ROWS
    )
    edges = sorted({0, *cuts, table.num_rows})
    batches = [table.slice(a, b - a).combine_chunks().to_batches()[0] for a, b in pairwise(edges)]
    out: list[tuple[int, str]] = []
    late: list[Any] = []
    stream = sw.stream(pa.RecordBatchReader.from_batches(_ROWS, batches), time="at", arrived="landed")
    query = stream.merge_replicas("who", patience, bounds=bounds, every=sw.Every.time(1)).open(
        lambda rows: out.extend(zip(rows["at"].to_pylist(), rows["what"].to_pylist(), strict=True)),
        clock=sw.ManualClock(),
        on_late=lambda rows: late.extend(rows.to_pylist()),
    )
    seen = []
    for batch in batches:
        query.step()
        seen.append((batch["landed"][-1].as_py(), Counter(out)))
    return (query, out, late), seen


@given(
    simulations(systems(most_sources=3, missing=False), most_rows=25),
    st.data(),
    st.integers(0, 12),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(1, 5),
)
def test_rows_come_out_are_late_and_are_left_out_as_by_the_oracle(
    drawn: tuple[System, list[Sent]], data: st.DataObject, patience: int, delay: int | None, lull: int | None
) -> None:
    """At the same tick, whether bounds hold or not, in any number of batches."""
    system, sent = drawn
    broken = data.draw(st.booleans())
    arrivals = arrivals_of(sent)
    if broken:
        drift = data.draw(st.lists(st.integers(-9, 9), min_size=len(arrivals), max_size=len(arrivals)))
        arrivals = [(tick, who, time + off) for (tick, who, time), off in zip(arrivals, drift, strict=True)]
    rows = [Row(*arrival, data.draw(st.sampled_from("ab"))) for arrival in arrivals]
    until = rows[-1].tick
    merged = MergedByBounds(_known(system, arrivals, patience, delay, lull, until))
    by_tick = []
    for tick in range(until + 1):
        merged.take(tick, [row for row in rows if row.tick == tick])
        by_tick.append(Counter(merged.out))
        late = list(merged.late)
    # Between ticks: who is there from the beginning is found out by those who come together.
    begins = [n for n, (one, other) in enumerate(pairwise(rows), 1) if one.tick < other.tick]
    cuts = data.draw(st.sets(st.sampled_from(begins))) if begins else ()
    (query, _, found), seen = _run(rows, _bounds_of(system, delay, lull), patience, cuts)
    for tick, out in seen:
        # What a tick proves counts when a row of a later one comes: it may go on with the next batch.
        assert out == (by_tick[tick - 1] if tick else Counter())
    # Rows of one tick are simultaneous: those of each replica are in order, and ticks follow each other.
    by_replica = sorted(((row["landed"], row["who"], row["at"]) for row in found), key=lambda row: row[:2])
    assert by_replica == sorted(((row.tick, row.source, row.time) for row in late), key=lambda row: row[:2])
    assert [row["landed"] for row in found] == sorted(row["landed"] for row in found)
    counters = query.counters()["merge_replicas#1"]
    query.close()
    assert counters.rows_in == counters.rows_out + counters.unsent + counters.late + (
        counters.duplicates + counters.contradicted + counters.passed_over
    )


# ---- replicas that keep their bounds, and die -----------------------------------------------------------------------


def _replicas(rng: Random, patience: int) -> tuple[list[Row], sw.Bounds, set[str]]:
    """Replicas of one stream, which send every event from their beginning until they die; and what is true of them.

    A row is sent up to `slow` after its time, and is under way for up to `latency`. The names are of those that have
    not sent everything when they begin.
    """
    events = [(at, rng.choice("abc")) for at in sorted(rng.choices(range(60), k=rng.randint(0, 50)))]
    slow: Any = {who: rng.randint(0, patience) for who in range(3)}
    latency: Any = {who: rng.choice([0, 0, 3]) for who in range(3)}
    rows, lacking = [], set()
    for who in range(3):
        begins, dies = rng.choice([0, rng.randint(0, 60)]) if who else 0, rng.choice([rng.randint(0, 70), 200])
        sent = [(at + rng.randint(0, slow[who]), at, what) for at, what in events]
        lacking |= {str(who)} if any(when < begins for when, _, _ in sent) else set()
        rows += [
            Row(when + rng.randint(0, latency[who]), who, at, what) for when, at, what in sent if begins <= when <= dies
        ]
    known = [
        sw.Bounds.delay({who: slow[who] + latency[who] for who in range(3)}),
        sw.Bounds.uniform(slow),
        sw.Bounds.disorder(slow),
    ]
    bounds = sw.Bounds({(0, 0): [sw.Bound(patience + 9)]}, latency=latency)
    for more in rng.sample(known, rng.randint(1, 3)):
        bounds = bounds & more
    return sorted(rows, key=lambda row: row.tick), bounds, lacking


@given(seed=st.integers(0, 10**9), patience=st.sampled_from([0, 2, 8, 40]))
def test_while_bounds_hold_no_death_makes_a_row_late_or_contradicted(seed: int, patience: int) -> None:
    """A replica that dies in the middle of its disorder is believed no further than what it must have sent by then.

    So all that anybody has sent goes out once, or is passed over because another took over meanwhile.
    """
    rng = Random(seed)
    rows, bounds, lacking = _replicas(rng, patience)
    assume(rows)
    cuts = [n for n, (one, other) in enumerate(pairwise(rows), 1) if one.tick < other.tick and rng.random() < 0.5]
    # The patience allows for the latency, too.
    (query, out, late), _ = _run(rows, bounds, patience + 3, cuts)
    # One that begins when nothing is complete yet is believed too early, if it lacks something: by patience, too.
    stands = {one.name: one for one in query.replicas()}
    assume(all(stands[name].complete_from > sw.BEGINNING for name in lacking & stands.keys()))
    query.close()
    counters = query.counters()["merge_replicas#1"]
    assert not late
    assert counters.broken_bounds == 0
    sent = Counter[tuple[int, str]]()
    for who in range(3):
        sent |= Counter((row.time, row.what) for row in rows if row.source == who)
    took_over = any(one.gap_before > sw.BEGINNING for one in query.replicas())
    if not took_over:
        assert counters.contradicted == 0
        assert Counter(out) == sent
    else:
        assert not Counter(out) - sent
