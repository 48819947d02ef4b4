"""net_changes: what the changes of one instant come to does not depend on their order; worked examples."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.net_changes import NetChangesOperator
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import temporal_table_of

if TYPE_CHECKING:
    from slackwater.events.elements import Element

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "until": pa.int64(), "x": pa.string()}), "at", "until")


def _sent(step: NetChangesOperator, *log: Element, until: int = BEGINNING) -> list[Element]:
    """What goes out of one instant."""
    step.on_batch(0, batch_of([one for one in log if not isinstance(one, Punctuate)], _SCHEMA.payload))
    bound = max([until, *(one.complete_before for one in log if isinstance(one, Punctuate))])
    return [element for batch in step.end_instant(bound).batches for element in elements_of(batch)]


def test_changes_of_one_event_are_one_change() -> None:
    """A chain of adjusts in any order; an event that comes and goes; one that is taken away, and another put there."""
    step = NetChangesOperator(_SCHEMA)
    chain: list[Element] = [Adjust(("a",), 1, 9, 5), Adjust(("a",), 1, 5, 7), Insert(("a",), 1, 9)]
    assert _sent(step, *chain, Insert(("b",), 2, 4), Adjust(("b",), 2, 4, 2)) == [Insert(("a",), 1, 7)]
    assert _sent(step, Insert(("a",), 1, FOREVER), Adjust(("a",), 1, 7, 1)) == [Adjust(("a",), 1, 7, FOREVER)]
    assert _sent(step, Adjust(("a",), 1, FOREVER, 3), Adjust(("a",), 1, 3, FOREVER)) == []
    assert _sent(step, Adjust(("a",), 1, FOREVER, 1)) == [Adjust(("a",), 1, FOREVER, 1)]


def test_equal_events_are_counted() -> None:
    """Three of them, of which one is changed: two stay what they were."""
    step = NetChangesOperator(_SCHEMA)
    assert _sent(step, *[Insert(("a",), 1, 9)] * 3, Adjust(("a",), 1, 9, 4)) == [
        Insert(("a",), 1, 4), Insert(("a",), 1, 9), Insert(("a",), 1, 9)]  # fmt: skip


def test_a_punctuation_counts_when_the_instant_is_over_and_never_goes_back() -> None:
    """A change is late against those of earlier instants; a lesser punctuation is no news."""
    step = NetChangesOperator(_SCHEMA)
    assert _sent(step, Punctuate(5), Insert(("a",), 1, 9)) == [Insert(("a",), 1, 9), Punctuate(5)]
    assert _sent(step, Punctuate(4), Insert(("b",), 5, 9)) == [Insert(("b",), 5, 9)]
    assert _sent(step, until=5) == []
    with pytest.raises(BrokenPunctuation, match="complete before  5"):
        _sent(step, Adjust(("b",), 5, 9, 5), Adjust(("a",), 1, 9, 4))
    unchecked = NetChangesOperator(_SCHEMA, resume=step.snapshot(), checked=False)
    assert _sent(unchecked, Insert(("c",), 1, 2)) == [Insert(("c",), 1, 2)]


@given(seed=st.integers(0, 2**32), changes=st.integers(0, 40))
def test_the_order_within_an_instant_changes_nothing(seed: int, changes: int) -> None:
    """Before it some events are there; whatever becomes of them, one after the other, is what becomes of them."""
    rng = Random(seed)
    alive = [(rng.choice("ab"), rng.randint(0, 2), rng.randint(3, 5)) for _ in range(rng.randint(0, 6))]
    before = [Insert((x,), start, end) for x, start, end in alive]
    log: list[Element] = []
    for _ in range(changes):
        if alive and rng.random() < 0.6:
            x, start, end = alive.pop(rng.randrange(len(alive)))
            other = rng.choice([start, 3, 4, 5, FOREVER])
            log.append(Adjust((x,), start, end, other))
            alive += [(x, start, other)] if other != start else []
        else:
            alive.append((rng.choice("ab"), rng.randint(0, 2), rng.choice([3, 4, FOREVER])))
            log.append(Insert((alive[-1][0],), *alive[-1][1:]))
    rng.shuffle(log)
    step = NetChangesOperator(_SCHEMA)
    sent = _sent(step, *before) + _sent(step, *log)
    found = Counter((event.payload, event.start, event.end) for event in temporal_table_of(sent))
    assert found == Counter(((x,), start, end) for x, start, end in alive)
    assert len(sent) <= len(before) + len(log)
