"""The generator against Figure 2 of the paper, read word for word, tick by tick."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import BEGINNING
from slackwater.testing.oracles.heartbeats import NOTHING_YET, Skew, System, figure_2, overall
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from slackwater.policies.bound_rules import Rules
    from slackwater.testing.oracles.heartbeats.system import Arrival

_PLAIN = Units(calendar=False, clock_calendar=False)


def rules_of(system: System, lull: int | None = None, patience: int | None = None) -> Rules:
    """The same system as a user writes it, in the units of a stream of sequence numbers."""
    entries = {
        both: [
            Bound(skew.delta, rows=skew.wait, strictly=True)
            if skew.ticks is None
            else Bound(skew.delta, skew.ticks, strictly=True)
            for skew in pairs
        ]
        for both, pairs in system.bounds.items()
        if pairs
    }
    bounds = Bounds(entries, latency=dict(enumerate(system.latency)))
    bounds = bounds if lull is None else bounds & Bounds.lull(lull)
    bounds = bounds if patience is None else bounds & Bounds.patience(patience)
    return bounds.only(*system.sources).rules(_PLAIN)


def _beats(generator: HeartbeatGenerator, system: System) -> list[int]:
    found = generator.heartbeats()
    return [NOTHING_YET if found[j] == BEGINNING else found[j] for j in system.sources]


def _columns(generator: HeartbeatGenerator, arrivals: list[Arrival]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ticks, sources, times = zip(*arrivals, strict=True) if arrivals else ((), (), ())
    return np.array(ticks, np.int64), generator.places_of(sources), np.array(times, np.int64)


_SIMULATED = simulations(systems(most_sources=4), most_rows=40)


@given(_SIMULATED, st.none() | st.integers(1, 6))
def test_every_heartbeat_is_that_of_the_paper_at_every_tick(drawn: tuple[System, list[Sent]], lull: int | None) -> None:
    """Ticks without rows included, with latency, waits, further rows and the time-out."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 12
    expected = figure_2(system, arrivals, until, lull)
    generator = HeartbeatGenerator(rules_of(system, lull))
    by_tick = defaultdict(list)
    for arrival in arrivals:
        by_tick[arrival[0]].append(arrival)
    for tick in range(until + 1):
        if tick in by_tick:
            generator.follow(*_columns(generator, by_tick[tick]), closes=True)
        else:
            generator.advance(tick)
        generator.check()
        assert _beats(generator, system) == expected[tick], (tick, arrivals)


@given(_SIMULATED, st.integers(0, 9))
def test_a_patience_caps_what_bounds_wait_for_however_long_rows_are_under_way(
    drawn: tuple[System, list[Sent]], patience: int
) -> None:
    """It goes by rows as they arrive: every source is as far as the bounds let it, or the patience, if that is more."""
    system, sent = drawn
    arrivals, n = arrivals_of(sent), len(system.latency)
    until = arrivals[-1][0] + 12
    patient = System((0,) * n, {(i, j): (Skew(0, patience + 1),) for i in range(n) for j in range(n)})
    both = zip(figure_2(system, arrivals, until), figure_2(patient, arrivals, until), strict=True)
    generator = HeartbeatGenerator(rules_of(system, patience=patience))
    for tick, (by_bounds, by_patience) in enumerate(both):
        now = [arrival for arrival in arrivals if arrival[0] == tick]
        generator.follow(*_columns(generator, now), closes=False)
        generator.advance(tick)
        assert _beats(generator, system) == [max(pair) for pair in zip(by_bounds, by_patience, strict=True)]


def test_a_patience_caps_what_fleets_wait_for() -> None:
    """A fleet whose rows are an hour under way is waited for by the patience, if that is less."""
    bounds = (Bounds.in_order(latency=1_000) & Bounds.patience(5)).in_fleets({"all": [0, 1]})
    generator = HeartbeatGenerator(bounds.rules(_PLAIN))
    generator.follow(*_columns(generator, [(1, 0, 20)]), closes=True)
    assert generator.heartbeats() == {"all": 14}


@given(_SIMULATED, st.data())
def test_a_stream_is_complete_before_each_row_as_far_as_the_paper_says(
    drawn: tuple[System, list[Sent]], data: st.DataObject
) -> None:
    """However rows are cut into batches, and with a snapshot in between."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    least = overall(figure_2(system, arrivals, arrivals[-1][0]))
    rules = rules_of(system)
    generator = HeartbeatGenerator(rules)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arrivals)), max_size=4)))
    complete = BEGINNING
    known = []
    for first, stop in zip([0, *cuts], [*cuts, len(arrivals)], strict=True):
        places, bounds = generator.follow(*_columns(generator, arrivals[first:stop]), closes=False)
        for row in range(stop - first):
            complete = max([complete, *bounds[places <= row].tolist()])
            known.append(complete)
        generator = HeartbeatGenerator(rules, resume=generator.snapshot())
    expected = [least[tick - 1] if tick else NOTHING_YET for tick, _, _ in arrivals]
    assert known == [BEGINNING if beat == NOTHING_YET else beat + 1 for beat in expected]
    assert generator.violations() == {}


@given(_SIMULATED, st.none() | st.integers(1, 6))
def test_it_knows_whom_it_waits_for_and_when_that_moves(drawn: tuple[System, list[Sent]], lull: int | None) -> None:
    """The source that binds has the least heartbeat; in silence nothing moves before the tick that is named."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    rules = rules_of(system, lull)
    generator = HeartbeatGenerator(rules)
    for tick in sorted({tick for tick, _, _ in arrivals}):
        generator.follow(*_columns(generator, [one for one in arrivals if one[0] == tick]), closes=True)
        binding = generator.binding()
        assert binding is not None
        assert binding.heartbeat == min(generator.heartbeats().values()) == generator.heartbeats()[binding.source]
        if binding.sender is not None:
            assert (binding.sender, binding.time) in {(source, time) for at, source, time in arrivals if at <= tick}
        following = generator.moves_next_at()
        silent = HeartbeatGenerator(rules, resume=generator.snapshot())
        complete = generator.complete_before
        if complete > generator.newest:
            continue  # nothing that has come could wait any more
        for later in range(tick + 1, tick + 20 if following is None else following):
            assert silent.advance(later) == complete, (later, following)
        rises = next((later for later in range(tick + 1, tick + 60) if silent.advance(later) > complete), None)
        assert generator.rises_next_at() == rises
        assert generator.complete_before == complete, "to look ahead moves nothing"


def test_it_says_when_a_clock_will_have_passed_what_binds() -> None:
    """Far behind its rows a delay by the clock moves nothing for long: the tick is found, not the next one."""
    rules = (Bounds.in_order() & Bounds.delay(1_000)).only(0, 1).rules(_PLAIN)
    generator = HeartbeatGenerator(rules)
    generator.follow(*_columns(generator, [(10, 0, 5_000), (10, 1, 6_000)]), closes=True)
    assert generator.moves_next_at() == 11
    assert generator.rises_next_at() == 6_000
    generator.advance(5_999)
    assert generator.complete_before == 5_000
    assert generator.advance(6_000) > 5_000


def test_what_never_moves_is_never_named() -> None:
    """A source that bounds name and that never sends holds up all others, whatever the clock shows."""
    rules = (Bounds.in_order() & Bounds.sensors(5, latency=3)).only(0, 1).rules(_PLAIN)
    generator = HeartbeatGenerator(rules)
    generator.follow(*_columns(generator, [(10, 0, 50)]), closes=True)
    assert generator.rises_next_at() is not None, "what is under way comes to hold"
    generator.advance(1_000)
    assert generator.rises_next_at() is None
