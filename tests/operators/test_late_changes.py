"""Changes behind the punctuations of their own log are late, and what is passed on is sound without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.emission import LATE
from slackwater.operators.late_changes import LateChangesOperator
from slackwater.policies.late import Late
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import temporal_table_of
from slackwater.testing.oracles.late_changes import late_changes
from slackwater.testing.revising_cases import dishonest_logs

if TYPE_CHECKING:
    from slackwater.events.elements import Element

_PAYLOAD = pa.schema({"k": pa.string()})
_SCHEMA = EventSchema(_PAYLOAD, TimeColumn("at", pa.int64()), TimeColumn("until", pa.int64()), ("at", "until", "k"))
_A = ("a",)


@given(sent=dishonest_logs(_PAYLOAD), cut=st.integers(1, 5), restore=st.booleans())
def test_what_is_late_goes_to_the_late_output_and_the_rest_is_a_sound_stream(
    sent: list[Element], cut: int, restore: bool
) -> None:
    """As a list of all events says; the rest breaks no punctuation, and changes no event that is not there."""
    operator = LateChangesOperator(_SCHEMA, Late.divert())
    passed: list[Element] = []
    diverted = 0
    for first in range(0, len(sent), cut):
        if restore:
            operator = LateChangesOperator(_SCHEMA, Late.divert(), resume=operator.snapshot())
        emission = operator.on_batch(0, batch_of(sent[first : first + cut], _PAYLOAD))
        passed += [element for batch in emission.batches for element in elements_of(batch)]
        diverted += sum(batch.rows for output, batch in emission.side if output == LATE)
        operator.check()
    late = late_changes(sent)
    assert passed == [element for element, behind in zip(sent, late, strict=True) if not behind]
    assert diverted == operator.late() == sum(late)
    temporal_table_of(passed)  # which refuses what is not sound


def test_later_changes_of_a_late_event_are_late_until_it_is_frozen() -> None:
    """None of them is behind a punctuation by itself."""
    sent: list[Element] = [Punctuate(5), Insert(_A, 3, 9), Adjust(_A, 3, 9, 12), Adjust(_A, 3, 12, 7), Punctuate(8)]
    operator = LateChangesOperator(_SCHEMA, Late.divert())
    emission = operator.on_batch(0, batch_of(sent, _PAYLOAD))
    assert [*elements_of(emission.batches[0])] == [Punctuate(5), Punctuate(8)]
    ((_, late),) = emission.side
    assert late.payload.to_pydict() == {
        "until": [9, 12, 7],
        "k": ["a", "a", "a"],
        "change": ["insert", "adjust", "adjust"],
        "until_before": [None, 9, 12],
        "late_bound": [5, 5, 5],
        "late_by": [2, 0, 0],
    }
    assert operator.snapshot().strays == ()


def test_an_event_whose_end_is_brought_forward_too_late_keeps_the_former_one() -> None:
    """What was guaranteed to last is there until then; the same event may come again, and be changed."""
    sent: list[Element] = [Insert(_A, 3, 9), Punctuate(7), Adjust(_A, 3, 9, 5), Adjust(_A, 3, 5, FOREVER)]
    operator = LateChangesOperator(_SCHEMA, Late.drop())
    (passed,) = operator.on_batch(0, batch_of(sent, _PAYLOAD)).batches
    assert [*elements_of(passed)] == sent[:2]
    assert operator.late() == 2
    assert len(operator.snapshot().strays) == 1


def test_a_late_change_can_be_refused() -> None:
    """With the change, and the punctuation that it contradicts."""
    operator = LateChangesOperator(_SCHEMA, Late.raise_error(), "late_changes#1")
    with pytest.raises(BrokenPunctuation, match=r"step 'late_changes#1'(.|\n)*complete before  5"):
        operator.on_batch(0, batch_of([Punctuate(5), Insert(_A, 3, 9)], _PAYLOAD))
