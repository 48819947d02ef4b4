"""What the clock makes happen: periodic punctuations, and when to look again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from slackwater.policies.punctuations import When
from slackwater.progress.punctuation import Ground

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.source_driver import SourceDriver

ASK_AGAIN_SECONDS = 0.001
"""How soon a source is asked again when its punctuation was not enough yet; one by the clock grows with the clock."""

ASK_AGAIN_AT_MOST_SECONDS = 0.05
"""How long the pauses between such questions may become: an open window is closed at most so much too late."""


def punctuate_due(
    sources: Sequence[SourceDriver], now: Instant, put: Callable[[SourceDriver, EventBatch | None], None]
) -> None:
    """Let every periodic source whose time has come say how far it is. Missed beats are not made up for."""
    for source in sources:
        if not _beats(source) or now < source.next_beat:
            continue
        missed = (now - source.next_beat) // source.policy.every
        source.next_beat += (missed + 1) * source.policy.every
        punctuation = source.punctuation(Ground.HEARTBEAT)
        if punctuation is not None:
            put(source, source.batch_of(punctuation))


def wakes(graph: SourceGraph) -> list[tuple[Step, Instant]]:
    """The steps to which the clock may give something to send though nothing comes, and when; if anybody waits for it.

    Where nothing is held by a step or behind it, nobody would notice.
    """
    found = ((step, step.operator.wakes_at()) for step in graph.steps if step.operator.ticks)
    return [(step, at) for step, at in found if at is not None and _is_waited_for(graph, step)]


def _is_waited_for(graph: SourceGraph, step: Step) -> bool:
    return any(one.operator.buffered() for one in (step, *graph.steps_behind(step)))


def next_wake(graph: SourceGraph, now: Instant, asked_in_vain: int | None) -> float | None:
    """In how many seconds the clock gives the runner something to do; None when only a source can.

    `asked_in_vain` says how often in a row sources were asked for nothing, None that nobody waits: each time the pause
    is doubled.
    """
    beats = [max(source.next_beat - now, 0) / 1_000_000 for source in graph.sources if _beats(source)]
    beats += [max(at - now, 0) / 1_000_000 for _, at in wakes(graph)]
    if asked_in_vain is not None and any(source.punctuates_by_clock for source in graph.sources):
        beats.append(min(ASK_AGAIN_SECONDS * 2 ** min(asked_in_vain, 10), ASK_AGAIN_AT_MOST_SECONDS))
    # No lock can be waited for longer; whoever wakes too early looks again.
    return min(*beats, threading.TIMEOUT_MAX) if beats else None


def _beats(source: SourceDriver) -> bool:
    """Whether a beat of this source means anything: rows that wait come first and are read before the next wait."""
    return source.policy.when is When.PERIODIC and not source.end_sent and source.quiet
