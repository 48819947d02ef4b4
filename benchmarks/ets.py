"""On-demand punctuations against none, periodic ones and latent time-stamps: figures 7 and 8 of the paper.

Two Poisson streams whose rates differ a thousandfold pass selections that keep 95 % and meet in a union (or a window
join). Scenarios: A no punctuations, B periodic ones, C on demand, D latent time-stamps. C and D run in real time at the
paper's own rates (50 and 0.05 per second), side by side in one query, because their difference is smaller than what the
machine's mood does to either. A, B, and C once more run at rates scaled up, so that the slow stream sends something
within the run; B is compared with C at the same rates.
Paper: Bai, Thakkar, Wang, Zaniolo. Optimizing Timestamp Management in Data Stream Management Systems. ICDE 2007.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

import slackwater as sw
from live import ROW, Arrival, Scenario, Watched, poisson, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from measure import Report

PAPER_RATES = (50.0, 0.05)
"""Events per second of the fast and the slow stream."""

SCALED_RATES = (500.0, 0.5)
"""The same proportion, ten times as fast."""

PERIODIC_RATES = (0.1, 1.0, 10.0, 100.0, 1_000.0)
"""Punctuations per second in scenario B."""


@dataclass(frozen=True)
class Lengths:
    """How long each scenario runs, in seconds."""

    paper: float
    scaled: float
    periodic: float


def lengths(*, quick: bool) -> Lengths:
    """Short runs for QUICK=1, otherwise long enough for the slow stream at the paper's rate."""
    return Lengths(paper=6.0, scaled=2.0, periodic=1.3) if quick else Lengths(60.0, 20.0, 15.0)


def run(report: Report, *, quick: bool) -> None:
    """Run all scenarios for the union and for the join."""
    for operator in ("union", "join"):
        _run_operator(report, operator, lengths(quick=quick))


def _run_operator(report: Report, operator: str, take: Lengths) -> None:
    on_demand, none = sw.Punctuations.on_demand(), sw.Punctuations.none()
    _watch(operator, [on_demand], SCALED_RATES, 0.3)  # warm-up: imports, compiled kernels
    demand, latent = _watch(operator, [on_demand, None], PAPER_RATES, take.paper)
    (scaled_demand,) = _watch(operator, [on_demand], SCALED_RATES, take.scaled)
    (scaled_none,) = _watch(operator, [none], SCALED_RATES, take.scaled)
    periodic = {rate: _watch(operator, [_periodic(rate)], SCALED_RATES, take.periodic)[0] for rate in PERIODIC_RATES}
    rows = [
        ("A none", *SCALED_RATES, *_seen(scaled_none)),
        *((f"B {rate:g}/s", *SCALED_RATES, *_seen(seen)) for rate, seen in periodic.items()),
        ("C on demand", *SCALED_RATES, *_seen(scaled_demand)),
        ("C on demand", *PAPER_RATES, *_seen(demand)),
        ("D latent", *PAPER_RATES, *_seen(latent)),
    ]
    header = ("scenario", "fast/s", "slow/s", "events", "mean ms", "median ms", "idle fraction", "peak queue")
    report.table(f"{operator}: latency, idle-waiting and queues by scenario (figures 7 and 8)", header, rows)
    prefix = "" if operator == "union" else f"{operator}_"
    best_periodic = min(seen.mean_ms for seen in periodic.values())
    report.figures |= {
        f"{prefix}mean_latency_gap_demand_vs_latent_ms": round(demand.mean_ms - latent.mean_ms, 4),
        f"{prefix}idle_fraction_on_demand": round(demand.idle_fraction, 5),
        f"{prefix}idle_fraction_none": round(scaled_none.idle_fraction, 4),
        f"{prefix}peak_queue_none_over_demand": round(scaled_none.peak_queue / scaled_demand.peak_queue, 1),
        f"{prefix}best_periodic_over_demand_latency": round(best_periodic / scaled_demand.mean_ms, 2),
        f"{prefix}mean_latency_on_demand_ms": round(demand.mean_ms, 4),
        f"{prefix}mean_latency_latent_ms": round(latent.mean_ms, 4),
    }
    report.series[operator] = {
        "header": header,
        "rows": rows,
        "periodic": [(rate, seen.mean_ms, seen.peak_queue) for rate, seen in periodic.items()],
        "none": (scaled_none.mean_ms, scaled_none.peak_queue),
        "demand": (scaled_demand.mean_ms, scaled_demand.peak_queue),
        "latent_paper_rates_ms": latent.mean_ms,
        "demand_paper_rates_ms": demand.mean_ms,
    }


def _watch(
    operator: str, punctuations: Sequence[sw.Punctuations | None], rates: tuple[float, float], seconds: float
) -> list[Watched]:
    """Watch one scenario for each way to punctuate (None: latent time-stamps), side by side."""
    scenarios = [_scenario(operator, one, rates, seconds, seed) for seed, one in enumerate(punctuations, start=7)]
    return watch(scenarios, seconds, operator)


def _scenario(
    operator: str, punctuations: sw.Punctuations | None, rates: tuple[float, float], seconds: float, seed: int
) -> Scenario:
    sources = [sw.PushSource(ROW, name=name) for name in ("fast", "slow")]
    if punctuations is None:
        streams = [sw.unstamped(source) for source in sources]
    else:
        streams = [sw.arrivals(source, punctuations=punctuations) for source in sources]
    fast, slow = (stream.where(most) for stream in streams)
    arrivals = poisson(rates, seconds, seed)
    if operator == "union":
        return Scenario(sw.union(fast, slow), sources, arrivals)
    # One slow row with the fast rows' key, at the very beginning, gives each of them one partner within the window.
    partner = Arrival(at=0.0, stream=1, draw=0.0, key=0)
    joined = fast.sliding("1us").join(slow.sliding("1h"), on="key")
    return Scenario(joined, sources, [partner, *arrivals])


def most(rows: pa.RecordBatch) -> pa.Array:
    """The selection that lets 95 % pass."""
    return pc.less(rows.column("draw"), 0.95)


def _periodic(rate: float) -> sw.Punctuations:
    return sw.Punctuations.periodic(f"{round(1_000_000 / rate)}us")


def _seen(watched: Watched) -> tuple[int, float, float, float, int]:
    median = statistics.median(watched.latencies_ms)
    return len(watched.latencies_ms), watched.mean_ms, median, watched.idle_fraction, watched.peak_queue
