"""The paper's two example systems as they run: sources that share a counter, and sensors with clocks of their own.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 4.

No bound is used here. That the rows keep to the bounds of `systems` is what the paper claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.simulate import Sent, transit
from slackwater.testing.oracles.heartbeats.system import Emitted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from slackwater.testing.oracles.heartbeats.system import Tick, Time


def run_counter(
    processing: Sequence[tuple[Tick, Tick]], latency: Sequence[Tick], rng: Random, until: Tick
) -> list[Sent]:
    """Rows of sources that ask one counter for a number, and emit the row of a number before they ask again.

    Each number takes its source from a least to a greatest number of ticks; from one on, as nothing takes no time here.

    >>> from random import Random
    >>> from slackwater.testing.oracles.heartbeats.system import obeys
    >>> from slackwater.testing.oracles.heartbeats.systems import global_counter
    >>> sent = run_counter([(1, 3), (2, 5)], [0, 2], Random(1), until=40)
    >>> len(sent) > 20, obeys(global_counter([(1, 3), (2, 5)], [0, 2]), [row for row, _ in sent])
    (True, True)
    """
    if not all(1 <= least <= most for least, most in processing):
        raise ValueError(f"a number takes one tick at least, and no less at most: {processing}")
    waiting: dict[int, Emitted] = {}
    emitted: list[Emitted] = []
    counter = 0
    for now in range(until):
        ready = [j for j, row in waiting.items() if row.emitted == now]
        emitted += [waiting.pop(j) for j in ready]
        asking = [j for j in range(len(processing)) if j not in waiting and rng.random() < _ASKS]
        for j in rng.sample(asking, len(asking)):
            counter += 1
            least, most = processing[j]
            waiting[j] = Emitted(now + rng.choice((least, most, rng.randint(least, most))), j, counter)
    return [Sent(row, row.emitted + transit(rng, latency[row.source])) for row in emitted]


def run_sensors(
    deviation: Sequence[Time], latency: Sequence[Tick], rng: Random, until: Tick, rates: Sequence[Time] | None = None
) -> list[Sent]:
    """Rows of sensors, each with a clock that is no more than its deviation off the one that nobody sees.

    Without rates a clock stands still or advances, and is set right now and then, which sets it back when it was ahead.
    With rates each clock advances by its own at least, and none is ever set back.

    >>> from random import Random
    >>> from slackwater.testing.oracles.heartbeats.system import obeys
    >>> from slackwater.testing.oracles.heartbeats.systems import sensors
    >>> sent = run_sensors([2, 3], [0, 2], Random(1), until=40)
    >>> len(sent) > 20, obeys(sensors([2, 3], [0, 2]), [row for row, _ in sent])
    (True, True)
    """
    clock, clocks = 100, [100 + rng.randint(-most, most) for most in deviation]
    emitted: list[Emitted] = []
    for now in range(until):
        clock += rng.choice((0, 1, 1, 3)) if rates is None else max(rates) + rng.choice((0, 0, 1))
        for j, most in enumerate(deviation):
            is_set = rates is None and rng.random() < _IS_SET
            least = max(clocks[j] + (0 if rates is None else rates[j]), clock - most)
            clocks[j] = clock if is_set else rng.choice((least, clock + most, rng.randint(least, clock + most)))
            if rng.random() < _EMITS:
                emitted.append(Emitted(now, j, clocks[j]))
    return [Sent(row, row.emitted + transit(rng, latency[row.source])) for row in emitted]


_ASKS = 0.7
"""How often a source that has no number asks for one."""

_IS_SET = 0.1
"""How often a clock is set right."""

_EMITS = 0.5
"""How often a sensor emits a row."""
