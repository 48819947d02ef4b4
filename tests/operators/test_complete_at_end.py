"""complete_at_end: what the end of a stream says, and what is not believed before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.elements import Punctuate, batch_of, elements_of
from slackwater.operators.complete_at_end import CompleteAtEndOperator
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from slackwater.events.elements import Element
    from slackwater.temporal.table import TemporalTable

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_NO_ROWS = batch_of([], _PAYLOAD).payload
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


@given(
    table=keyed_tables(),
    seed=st.integers(0, 10**6),
    at_end=st.sampled_from([BEGINNING, FOREVER]) | st.integers(0, 30),
    cut=st.integers(1, 5),
    restore=st.booleans(),
)
def test_everything_passes_but_guarantees_that_say_too_much(
    table: TemporalTable, seed: int, at_end: int, cut: int, restore: bool
) -> None:
    """More than the end may say; of an end that says nothing, that nothing will ever follow."""
    sent = present(table, seed, _REVISED)
    operator = CompleteAtEndOperator(_NO_ROWS, at_end)
    out: list[Element] = []
    for first in range(0, len(sent), cut):
        if restore:
            operator = CompleteAtEndOperator(_NO_ROWS, at_end, operator.snapshot())
        for batch in operator.on_batch(0, batch_of(sent[first : first + cut], _PAYLOAD)).batches:
            batch.check()
            out += elements_of(batch)
    most = FOREVER - 1 if at_end == BEGINNING else at_end
    expected = [one for one in sent if not (isinstance(one, Punctuate) and one.complete_before > most)]
    assert out == expected
    punctuated_until = max((one.complete_before for one in expected if isinstance(one, Punctuate)), default=BEGINNING)
    at_last = [one for batch in operator.on_end(0).batches for one in elements_of(batch)]
    assert at_last == ([Punctuate(at_end)] if at_end > punctuated_until else [])
    assert operator.on_end(0).batches == ()
