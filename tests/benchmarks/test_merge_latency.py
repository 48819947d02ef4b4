"""The latency of events on a clock of their own: what is counted, and from when."""

from __future__ import annotations

import numpy as np
import pytest

import merge_latency
from replicated import Generator
from slackwater.operators.emission import Emission


class _Slow:
    """Sends every event on at once, and takes as long for a batch as the test says."""

    seconds = 0.0

    def __init__(self, replicas: int, no_rows: object) -> None:
        del replicas, no_rows

    def on_batch(self, port: int, batch: object) -> Emission:
        _Clock.now += self.seconds
        return Emission.of(batch) if port == 0 else Emission.of()  # type: ignore[arg-type]


class _Clock:
    now = 0.0


def _latencies(monkeypatch: pytest.MonkeyPatch, seconds: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    monkeypatch.setattr(_Slow, "seconds", seconds)
    monkeypatch.setattr("time.perf_counter", lambda: _Clock.now)
    generator = Generator(500, stable_freq=0.0, alive=10, disorder=0.0)
    return merge_latency._latencies(_Slow, [generator.replica(1), generator.replica(1)])


def test_an_event_waits_for_its_batch_and_for_the_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    """25 events arrive in a tick: the first 5 ms before its end, the last 0.2 ms. Then there is 1 ms of work."""
    waited = _latencies(monkeypatch, 0.001)
    assert len(waited) == 500
    assert waited[:25] == pytest.approx(0.001 + 0.005 - np.arange(25) / 5_000)
    assert waited[475:] == pytest.approx(waited[:25])


def test_who_is_too_slow_falls_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two replicas of 4 ms each do not fit into 5 ms: every tick adds 3 ms."""
    waited = _latencies(monkeypatch, 0.004)
    assert waited[25::25] - waited[:-25:25] == pytest.approx(0.003)
