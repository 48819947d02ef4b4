"""What operators have in common that take what they remember to another number of them: see Operator.split().

Shards learn of the same punctuations, so that between two micro-batches all have come as far. Only behind a step that
leaves out rows may one have come less far than the others: there a row may have stood for a punctuation. Progress is
then taken to be the least, which is safe wherever nothing was decided by more. Where rows wait in a queue, or answers
were given by it, it is refused: with the next micro-batch all come as far again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.columns.weave import weave_batches
from slackwater.errors import RunError, message
from slackwater.events.batch import EventBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.progress.instants import Instant


def parts_of_ordered(batches: Sequence[EventBatch], spread: RowSpread) -> list[tuple[EventBatch, ...]]:
    """The rows of each place, of batches in order of time, with what was remembered of them as batches."""
    if not batches:
        return [()] * spread.places
    return [(part,) if part.rows else () for part in spread.parts_of(EventBatch.concat(batches))]


def ordered_together(several: Iterable[Sequence[EventBatch]]) -> tuple[EventBatch, ...]:
    """What several have remembered in order of time, in order of time; of equal times those of the first come first."""
    each = [EventBatch.concat(batches) for batches in several if batches]
    return (weave_batches(each),) if each else ()


def require_alike(where: str, come_to: Iterable[Instant]) -> None:
    """Refuse to go on from what some remember that have not come as far as the others."""
    instants = sorted(set(come_to))
    if len(instants) > 1:
        facts = {"step": where, "shards are complete before": f"{instants[0]} to {instants[-1]}"}
        hint = "start it once more as it was, for a micro-batch or more, and then with another number of shards"
        raise RunError(message("shards have not come equally far, and cannot become others now", facts, hint))
