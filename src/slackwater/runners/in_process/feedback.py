"""Passes on, from consumers to producers, before which time nothing is of interest any more.

A step passes bounds to its producers by its inputs, each of which has a bound of its own. A producer that has several
readers, or several outputs, gets the least of their bounds. Whoever takes the results of a query is interested in all
of them until the query learns otherwise. What a producer gets may raise the bounds of its own inputs, and so on, up to
the sources. Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-D.

Invariant: no bound goes back, and none is passed on twice. Cost: that of the steps above one whose bound has risen;
nothing where none has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.runners.graph_parts import Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Output


def pass_back(step: Step) -> None:
    """Let all producers above a step know what it is not interested in, as far as that is news."""
    ahead = [step]
    while ahead:
        consumer = ahead.pop()
        for arc in consumer.inputs:
            bound = consumer.operator.of_interest_from(arc.port)
            if bound > arc.wanted_from:
                arc.wanted_from = bound
                if _pass_to(arc.producer) and isinstance(arc.producer, Step):
                    ahead.append(arc.producer)


def pass_back_from_sinks(outputs: Iterable[tuple[Output, Output]], bound: Instant) -> None:
    """Let the producers of some outputs know what those who take the results are not interested in."""
    for producer, output in outputs:
        output.sinks_want_from = max(output.sinks_want_from, bound)
        if _pass_to(producer) and isinstance(producer, Step):
            pass_back(producer)


def _pass_to(producer: Output) -> bool:
    """Let a producer know what none of its consumers is interested in; return whether that was news."""
    bound = producer.wanted_from()
    if bound <= producer.ignored_before:
        return False
    producer.ignored_before = bound
    producer.ignore_before(bound)
    return True
