"""Sources that join, pause, resume and leave for hours: every row comes out or is late, none is stuck, why() is right.

What why() says is compared with Figure 2 of the heartbeat paper, word for word, at sampled instants. The figure needs
all arrivals since the beginning. Of those of a source that have been under way for as long as they may, the newest
alone decides, so that the others are left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.testing.oracles.heartbeats import NOTHING_YET, figure_2
from slackwater.testing.oracles.heartbeats.systems import sensors

_SECOND = 1_000_000
_UNDER_WAY = 5
"""Seconds that a row is under way at most."""

_LULL = 600
"""Seconds of silence of all sources after which nothing older is expected."""

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "n": pa.int64()})


@dataclass
class _Fleet:
    """Sensors with clocks that are off, which send a row every 12 seconds or so while they are there."""

    deviation: list[int]
    rng: Random
    awake: list[bool] = field(default_factory=list)
    under_way: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    off: list[int] = field(default_factory=list)
    quiet_until: int = -1

    def __post_init__(self) -> None:
        self.awake = [False] * len(self.deviation)
        self.off = [0] * len(self.deviation)

    def arrivals(self, now: int, *, last: int) -> list[tuple[int, int]]:
        """Who sent what arrives now, with its time; sources come and go meanwhile."""
        rng = self.rng
        if rng.random() < 1 / 4_000:
            self.quiet_until = now + rng.choice((60, 2 * _LULL))  # all of them pause, now and then for very long
        for who, deviation in enumerate(self.deviation):
            if rng.random() < (1 / 300 if self.awake[who] else 1 / 600):
                self.awake[who] = not self.awake[who]
            if not self.awake[who] or now <= self.quiet_until or now > last or rng.random() > 1 / 12:
                continue
            # Within half of what it may be, so that no row is further behind one of its own source than that.
            self.off[who] = max(-(deviation // 2), min(deviation // 2, self.off[who] + rng.choice((-1, 0, 1))))
            time = now + self.off[who]
            if rng.random() < 1 / 200:
                time -= rng.choice((deviation, 10 * deviation + 60))  # some break their bounds
            self.under_way.setdefault(now + rng.randint(0, _UNDER_WAY), []).append((who, time))
        return self.under_way.pop(now, [])


@dataclass
class _Expected:
    """What the paper says of the arrivals so far."""

    deviation: list[int]
    waiting: list[tuple[int, int, int]] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)
    last: int | None = None
    assumed: int = NOTHING_YET

    def take(self, now: int, arrivals: list[tuple[int, int]]) -> None:
        """Note what arrives; and, section 3.3, whether all have been silent for the time-out."""
        if self.last is not None and not arrivals and now - self.last >= _LULL:
            self.assumed = max([self.assumed, *self.newest.values(), *(time for _, _, time in self.waiting)])
        self.last = now if arrivals else self.last
        self.waiting += [(now, who, time) for who, time in arrivals]
        for _, who, time in (one for one in self.waiting if one[0] <= now - _UNDER_WAY):
            self.newest[who] = max(self.newest.get(who, time), time)
        self.waiting = [one for one in self.waiting if one[0] > now - _UNDER_WAY]

    def heartbeats(self, now: int) -> list[list[int]]:
        """The heartbeat of each source, now and in each second after it in which rows may still have been under way."""
        begun = now - _UNDER_WAY
        rebased = [(0, who, time) for who, time in self.newest.items()]
        rebased += [(at - begun, who, time) for at, who, time in self.waiting]
        system = sensors(self.deviation, [_UNDER_WAY] * len(self.deviation))
        ahead = figure_2(system, sorted(rebased), 2 * _UNDER_WAY)[_UNDER_WAY:]
        return [[max(beat, self.assumed) for beat in beats] for beats in ahead]

    def moves_next_at(self, now: int) -> int | None:
        """When more will be complete though no row comes; None if nothing will."""
        least = [min(beats) for beats in self.heartbeats(now)]
        sooner = next((now + after for after, beat in enumerate(least) if beat > least[0]), None)
        if sooner is not None or self.last is None:
            return sooner
        newest = max([*self.newest.values(), *(time for _, _, time in self.waiting)])
        return self.last + _LULL if newest > least[0] else None


@pytest.mark.parametrize(
    ("sources", "hours", "every", "seed"),
    [(10, 1, 20, 3), pytest.param(50, 24, 60, 4, marks=pytest.mark.long)],
    ids=["an hour", "a day"],
)
def test_every_row_comes_out_or_is_late_and_why_is_right(sources: int, hours: int, every: int, seed: int) -> None:
    """By a clock that is moved by hand; sampled every so many seconds, and at the end of a long silence."""
    rng = Random(seed)
    deviation = [rng.choice((2, 4, 8, 30)) for _ in range(sources)]
    fleet, expected = _Fleet(deviation, rng), _Expected(deviation)
    clock, source = sw.ManualClock(0), sw.PushSource(_ROWS)
    bounds = sw.Bounds.sensors(dict(enumerate(deviation)), latency=f"{_UNDER_WAY}s") & sw.Bounds.lull(f"{_LULL}s")
    stream = sw.stream(source, time="at", origin="who").sort(bounds=bounds.only(*range(sources)))
    out: list[tuple[int, int]] = []
    late: list[int] = []
    query = stream.open(
        lambda rows: out.extend(zip(rows["at"].to_pylist(), rows["n"].to_pylist(), strict=True)),
        clock=clock,
        on_late=lambda rows: late.extend(rows["n"].to_pylist()),
    )
    times: list[int] = []
    sampled: Counter[str] = Counter()
    last = 3_600 * hours
    for now in range(last + 2 * _LULL):
        arrivals = fleet.arrivals(now, last=last)
        if arrivals:
            numbered = enumerate(arrivals, len(times))
            source.push([{"at": time, "who": who, "n": n} for n, (who, time) in numbered])
            times += [time for _, time in arrivals]
            query.work()
        expected.take(now, arrivals)
        clock.advance(_SECOND // 2)  # waits of more than 64 ticks are late by a 64th, at most
        if now % every == 0:
            query.work()
            _check_why(query, expected.heartbeats(now)[0], times, out, late, sampled)
            _check_when(query, expected.moves_next_at(now))
        clock.advance(_SECOND - _SECOND // 2)
    query.work()
    assert sorted([*late, *(n for _, n in out)]) == list(range(len(times))), "each once, though nothing has ended"
    assert [at for at, _ in out] == sorted(at for at, _ in out)
    assert late
    assert len(late) < len(times) / 100
    assert sampled["proven by bounds"] > 100
    assert sampled["assumed of silence"] >= 1
    assert sampled["waited for one that is silent"] > 20
    query.close()


def _check_why(
    query: sw.Query,
    beats: list[int],
    times: list[int],
    out: list[tuple[int, int]],
    late: list[int],
    sampled: Counter[str],
) -> None:
    """It names how far the stream is complete, the source that binds it, and how many rows that holds."""
    (why,) = query.why()
    least = min(beats)
    complete = sw.BEGINNING if least == NOTHING_YET else least + 1
    assert why.complete_before == complete
    assert why.newest == max(times, default=sw.BEGINNING)
    assert why.source is None or beats[int(why.source)] == least
    held = sum(why.held.values())
    assert held == len(times) - len(out) - len(late), "each row came out, is late, or is held"
    gone = set(late)
    assert len(out) == sum(time < complete for n, time in enumerate(times) if n not in gone), "none is stuck"
    sampled[why.ground.value] += 1
    sampled["waited for one that is silent"] += why.sender is not None and why.sender != why.source


def _check_when(query: sw.Query, moves_next_at: int | None) -> None:
    """In silence more is complete at the instant that it names. Waits of more than 64 ticks are late by a 64th."""
    (why,) = query.why()
    assert (why.moves_next_at is None) == (moves_next_at is None)
    if moves_next_at is not None:
        assert why.moves_next_at is not None
        late = why.moves_next_at - moves_next_at * _SECOND
        assert -_SECOND < late <= _UNDER_WAY * _SECOND // 64
