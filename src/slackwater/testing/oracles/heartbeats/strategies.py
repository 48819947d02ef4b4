"""Hypothesis strategies for systems of sources, and for rows of theirs that keep to the bounds.

Numbers are small, so that waits, latencies and differences of times coincide.

>>> from hypothesis import given
>>> @given(simulations(systems()))
... def test_something(drawn): ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.simulate import USUAL, Pace, Sent, simulate
from slackwater.testing.oracles.heartbeats.system import Skew, System
from slackwater.testing.oracles.heartbeats.systems import closed, global_counter, repeating, sensors, uniform

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy


def skews(*, by_rows: bool = True, most: int = 4) -> SearchStrategy[Skew]:
    """Bounds with waits and differences up to `most`; those that count rows only if asked for."""
    small = st.integers(0, most)
    ticks = st.builds(Skew, small, small)
    return ticks | st.builds(Skew.rows, st.integers(0, 3), small) if by_rows else ticks


@st.composite
def systems(
    draw: DrawFn, *, by_rows: bool = True, missing: bool = True, most_sources: int = 3, most_latency: int = 4
) -> System:
    """Any systems: without bounds that count rows, without missing entries, without latency where that is asked for."""
    latency = draw(st.lists(st.integers(0, most_latency), min_size=1, max_size=most_sources))
    entries = st.lists(skews(by_rows=by_rows), min_size=0 if missing else 1, max_size=3).map(tuple)
    sources = range(len(latency))
    return System(tuple(latency), {(i, j): draw(entries) for i in sources for j in sources})


@st.composite
def known_systems(draw: DrawFn, most_sources: int = 4, most_latency: int = 4) -> System:
    """The paper's systems: uniform, in order with repeats, numbered by a counter, sensors with and without rates."""
    n = draw(st.integers(1, most_sources))
    latency = draw(st.lists(st.integers(0, most_latency), min_size=n, max_size=n))
    deviation = st.lists(st.integers(0, 6), min_size=n, max_size=n)
    rates = st.lists(st.integers(1, 3), min_size=n, max_size=n)
    ticks = st.tuples(st.integers(1, 4), st.integers(0, 6)).map(lambda drawn: (drawn[0], sum(drawn)))
    return draw(
        st.one_of(
            st.lists(skews(), min_size=1, max_size=3).map(lambda entry: uniform(n, *entry, latency=latency[0])),
            st.builds(repeating, st.integers(0, 4), st.just(latency[0])),
            st.builds(global_counter, st.lists(ticks, min_size=n, max_size=n), st.just(latency), by_rows=st.booleans()),
            st.builds(sensors, deviation, st.just(latency), st.none() | rates, as_printed=st.booleans()),
        )
    )


def closed_systems(*, most_sources: int = 3, most_latency: int = 4) -> SearchStrategy[System]:
    """Time-based systems that are closed under composition, some of them with entries missing."""
    drawn = systems(by_rows=False, most_sources=most_sources, most_latency=most_latency)
    return drawn.map(closed)


@st.composite
def simulations(
    draw: DrawFn, of: SearchStrategy[System], most_rows: int = 12, pace: Pace = USUAL
) -> tuple[System, list[Sent]]:
    """A system, and rows that its sources have sent."""
    system = draw(of)
    rows, rng = draw(st.integers(1, most_rows)), draw(st.randoms(use_true_random=False))
    return system, simulate(system, rng, rows, pace)
