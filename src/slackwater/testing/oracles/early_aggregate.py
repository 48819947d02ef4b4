"""Early answers in plain Python: after every stretch of elements all rows so far are summed up anew, and compared.

A batch has two stretches that are answered one after the other: up to its greatest punctuation, and from there on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.events.elements import Adjust, Element, Insert, Punctuate
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.testing.oracles.aggregate import aggregate_oracle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.policies.aggregates import Aggregate


class EarlyAggregateOracle:
    """Remembers every row, and what it has emitted of each group; punctuations close nothing, they are only passed on.

    >>> from slackwater.policies.aggregates import count
    >>> oracle = EarlyAggregateOracle(["k"], ["k"], {"n": count()})
    >>> row = Insert(("a",), 0, 10)
    >>> [str(element) for element in oracle.take([row]) + oracle.take([row])]
    ["insert(('a', 1), 0, 10)", "adjust(('a', 1), 0, 10, 0)", "insert(('a', 2), 0, 10)"]
    """

    def __init__(self, columns: Sequence[str], keys: Sequence[str], aggregates: Mapping[str, Aggregate]) -> None:
        self.columns, self.keys, self.aggregates = columns, keys, aggregates
        self.rows: list[Insert] = []
        self.emitted: dict[object, Insert] = {}
        self.punctuated_until: Instant = BEGINNING

    def take(self, batch: Sequence[Element]) -> list[Element]:
        """Take the elements of one batch; return what goes out."""
        punctuations = [element.complete_before for element in batch if isinstance(element, Punctuate)]
        furthest = max(punctuations, default=BEGINNING)
        if furthest <= self.punctuated_until:
            return self._answer(batch)
        at = batch.index(Punctuate(furthest))
        before = self._answer(batch[:at])
        self.punctuated_until = furthest
        return [*before, Punctuate(furthest), *self._answer(batch[at:])]

    def end(self) -> list[Element]:
        """Return what goes out at the end."""
        return [] if self.punctuated_until == FOREVER else [Punctuate(FOREVER)]

    def _answer(self, stretch: Sequence[Element]) -> list[Element]:
        self.rows += [element for element in stretch if isinstance(element, Insert)]
        out: list[Element] = []
        for answer in aggregate_oracle(self.rows, self.columns, self.keys, self.aggregates):
            assert isinstance(answer.payload, tuple)
            group = (answer.start, answer.end, answer.payload[: len(self.keys)])
            before = self.emitted.get(group)
            if before != answer:
                out += [] if before is None else [Adjust(before.payload, before.start, before.end, before.start)]
                out.append(answer)
                self.emitted[group] = answer
        return out
