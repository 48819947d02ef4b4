"""Rows of several streams that bounds relate, and which of them the paper's heartbeats leave behind."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import slackwater as sw
from slackwater.testing.oracles.heartbeats import NOTHING_YET, Skew, System, figure_2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival

ROWS = pa.schema({"at": pa.int64(), "landed": pa.int64(), "n": pa.int64()})
PATIENT = 10**6
"""A patience that caps nothing: with it no stream is one of which nothing is known."""


def name_of(source: int) -> str:
    """What a stream is called."""
    return f"s{source}"


def bounds_between(system: System, *, by_clock: bool) -> sw.Bounds:
    """The same system as users write it, between streams."""

    def bound(skew: Skew) -> sw.Bound:
        if skew.ticks is None:
            return sw.Bound(skew.delta, rows=skew.wait, strictly=True)
        return sw.Bound(skew.delta, length(skew.ticks), strictly=True)

    def length(ticks: int) -> Any:
        return timedelta(microseconds=ticks) if by_clock else ticks

    entries = {(name_of(i), name_of(j)): [bound(one) for one in some] for (i, j), some in system.bounds.items() if some}
    latency = {name_of(source): length(one) for source, one in enumerate(system.latency)}
    return sw.Bounds(entries, latency=latency) & sw.Bounds.patience(PATIENT)


def tables_of(system: System, arrivals: Sequence[Arrival]) -> list[pa.Table]:
    """The rows of each stream; `n` is the place of a row among all arrivals."""
    numbered = list(enumerate(arrivals))
    return [
        pa.Table.from_pylist(
            [{"at": time, "landed": tick, "n": n} for n, (tick, source, time) in numbered if source == one],
            schema=ROWS,
        )
        for one in system.sources
    ]


def late_by_figure_2(system: System, arrivals: Sequence[Arrival]) -> set[int]:
    """The rows at or behind the heartbeat that their stream had before the tick of their arrival, by Figure 2."""
    beats = figure_2(system, arrivals, arrivals[-1][0]) if arrivals else []
    return {
        n
        for n, (tick, source, time) in enumerate(arrivals)
        if tick and max(beats[tick - 1][source], _capped(arrivals, tick)) >= time
    }


def _capped(arrivals: Sequence[Arrival], tick: int) -> int:
    return max((time for before, _, time in arrivals if before < tick), default=NOTHING_YET) - PATIENT - 1
