"""What the clock makes happen: periodic punctuations, and when to look again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.policies.punctuations import When
from slackwater.progress.punctuation import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.progress.instants import Instant
    from slackwater.runners.in_process.demand import SourceDriver

ASK_AGAIN_SECONDS = 0.001
"""How soon a source is asked again when its promise was not enough yet. A promise by skew grows with the clock."""


def punctuate_due(
    sources: Sequence[SourceDriver], now: Instant, put: Callable[[SourceDriver, EventBatch | None], None]
) -> None:
    """Let every periodic source whose time has come say how far it is. Missed beats are not made up for."""
    for source in sources:
        if source.policy.when is not When.PERIODIC or source.end_sent or now < source.next_beat:
            continue
        missed = (now - source.next_beat) // source.policy.every
        source.next_beat += (missed + 1) * source.policy.every
        punctuation = source.promise(Origin.HEARTBEAT)
        if punctuation is not None:
            put(source, source.batch_of(punctuation))


def next_wake(sources: Sequence[SourceDriver], now: Instant, *, idle_waiting: bool) -> float | None:
    """In how many seconds the clock gives the runner something to do; None when only a source can."""
    beats = [
        max(source.next_beat - now, 0) / 1_000_000
        for source in sources
        if source.policy.when is When.PERIODIC and not source.end_sent
    ]
    if idle_waiting and any(source.promises_by_clock for source in sources):
        beats.append(ASK_AGAIN_SECONDS)
    return min(beats, default=None)
