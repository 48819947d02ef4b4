"""The torture cases of the steps that hold rows for others: rows pass as they are, whenever they may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from slackwater.events.elements import Insert, elements_of
from slackwater.operators.hold import HoldOperator
from slackwater.operators.pass_on import PassOnOperator
from slackwater.operators.progress_only import ProgressOnlyOperator
from slackwater.testing.strategies import disordered_batches, ordered_batches
from slackwater.testing.torture import Streams, TortureCase

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema


def releasing_cases(schema: EventSchema) -> list[TortureCase]:
    """Cases for point events."""
    ordered: Any = ordered_batches(schema.payload, max_rows=15)
    disordered: Any = disordered_batches(schema.payload)

    def progress(*, in_order: bool) -> TortureCase:
        return TortureCase(
            f"progress of {'ordered' if in_order else 'disordered'} events",
            ProgressOnlyOperator,
            lambda state: ProgressOnlyOperator(schema.no_rows, ordered=in_order, resume=state),
            st.tuples(ordered if in_order else disordered),
            lambda _: [],
            divided=(schema,),
        )

    return [
        TortureCase(
            "hold for two others",
            HoldOperator,
            lambda state: HoldOperator(3, schema.no_rows, resume=state),
            st.tuples(ordered, ordered, ordered),
            _rows,
            divided=(schema,) * 3,
        ),
        TortureCase(
            "hold for nobody yet",
            HoldOperator,
            lambda state: HoldOperator(2, schema.no_rows, resume=state, waits=False),
            st.tuples(ordered, ordered),
            _rows,
            divided=(schema,) * 2,
        ),
        progress(in_order=True),
        progress(in_order=False),
        TortureCase(
            "pass_on", PassOnOperator, lambda _: PassOnOperator(), st.tuples(ordered), _rows, divided=(schema,)
        ),
    ]


def _rows(streams: Streams) -> list[Insert]:
    """The rows of the first input."""
    return [element for element in elements_of(streams[0]) if isinstance(element, Insert)]
