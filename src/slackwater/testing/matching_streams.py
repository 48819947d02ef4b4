"""Small keyed streams for the tests of join and followed_by, and a driver that checks and restores at every call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, Punctuate, elements_of
from slackwater.events.schema import EventSchema
from slackwater.kernels.match.chains import CHAIN_COLUMNS, CODE, EMPTY_CHAIN, NOBODY, NODE_COLUMNS, START, UNTIL
from slackwater.temporal.table import temporal_table_of
from slackwater.testing.strategies import ordered_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from slackwater.events.elements import Element
    from slackwater.kernels.match.chains import Table
    from slackwater.operators.match.matching_operator import MatchingOperator, MatchingState
    from slackwater.testing.oracles.matching import Timed

LEFT = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "a": pa.int64()}), time="at")
"""Point events with a key k and a value a."""
RIGHT = EventSchema.of(pa.schema({"when": pa.int64(), "k": pa.string(), "b": pa.int64()}), time="when")
"""Point events with a key k and a value b."""
LASTING_LEFT = EventSchema.of(
    pa.schema({"at": pa.int64(), "to": pa.int64(), "k": pa.string(), "a": pa.int64()}), time="at", until="to"
)
"""LEFT with lifetimes."""
LASTING_RIGHT = EventSchema.of(
    pa.schema({"when": pa.int64(), "end": pa.int64(), "k": pa.string(), "b": pa.int64()}), time="when", until="end"
)
"""RIGHT with lifetimes."""

Step: TypeAlias = tuple[int, EventBatch]
"""A port and the batch that arrives on it."""


def rows(schema: EventSchema, *values: tuple[Any, ...]) -> EventBatch:
    """Make a batch of rows, each with the values of all columns that users see, in their order."""
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*values, strict=True), schema.shown, strict=True)
    ]
    return schema.read(pa.RecordBatch.from_arrays(columns, schema=schema.shown), "test")


def unchained(rows: Sequence[Timed], codes: int) -> tuple[Table, Table, Table]:
    """Nodes, chains and tally of one side as the kernels take them, with no node chained yet."""
    nodes = np.full((len(rows), NODE_COLUMNS), NOBODY, dtype=np.int64)
    nodes[:, [START, UNTIL, CODE]] = np.array(rows, dtype=np.int64).reshape(-1, 3)
    chains = np.empty((codes, CHAIN_COLUMNS), dtype=np.int64)
    chains[:] = EMPTY_CHAIN
    return nodes, chains, np.zeros(2, dtype=np.int64)


def inserts(elements: Iterable[Element]) -> list[str]:
    """Write the data among some elements, one string each."""
    return [str(element) for element in elements if isinstance(element, Insert)]


def shown(batches: Iterable[EventBatch]) -> list[str]:
    """Write all elements of some batches, one string each."""
    return [str(element) for batch in batches for element in elements_of(batch)]


def shown_elements(schema: EventSchema, batch: EventBatch) -> list[Element]:
    """The rows of a batch as the oracles need them: payloads are all that users see."""
    data = batch.data()
    return list(elements_of(EventBatch(schema.keep_times(data), data.start, data.ends())))


def keyed_streams(max_rows: int = 15) -> SearchStrategy[tuple[EventBatch, EventBatch]]:
    """A left and a right stream with lifetimes, the payloads of LASTING_LEFT and LASTING_RIGHT, and punctuations."""
    schemas = (LASTING_LEFT.payload, LASTING_RIGHT.payload)
    return st.tuples(*(ordered_batches(schema, intervals=True, max_rows=max_rows) for schema in schemas))


@st.composite
def interleaved(draw: DrawFn, left: Sequence[EventBatch], right: Sequence[EventBatch]) -> list[Step]:
    """The batches of both ports in one order of arrival that keeps the order of each."""
    ports = draw(st.permutations([0] * len(left) + [1] * len(right)))
    queues = (iter(left), iter(right))
    return [(port, next(queues[port])) for port in ports]


@st.composite
def in_order_of_time(draw: DrawFn, left: EventBatch, right: EventBatch) -> list[Step]:
    """Both streams, element by element, as streams arrive that are stamped when they are processed."""
    steps = [(0, left.slice(i, i + 1)) for i in range(len(left))] + [
        (1, right.slice(i, i + 1)) for i in range(len(right))
    ]
    tie = {port: draw(st.integers(0, 2)) for port in (0, 1)}
    return sorted(steps, key=lambda step: (step[1].start[0], tie[step[0]]))


def run(
    build: Callable[[MatchingState | None], MatchingOperator], steps: Sequence[Step], *, restore: bool = False
) -> list[Element]:
    """Feed an operator and end its inputs; check it, its output and, if asked, a restored copy after each call."""
    operator = build(None)
    output: list[Element] = []
    for port, batch in [*steps, (0, None), (1, None)]:
        emission = operator.on_end(port) if batch is None else operator.on_batch(port, batch)
        for sent in emission.batches:
            sent.check()
            output += elements_of(sent)
        operator.check()
        if restore:
            operator = build(operator.snapshot())
            operator.check()
    assert operator.buffered() == 0
    assert operator.idle_waiting_on() is None
    check_order(output)
    return output


def check_order(output: Sequence[Element]) -> None:
    """Assert that output is ordered, that every punctuation is news, and that the last one ends the stream."""
    times = [element.complete_before if isinstance(element, Punctuate) else element.start for element in output]
    assert times == sorted(times), output
    temporal_table_of(output)
    before = [None, *output[:-1]]
    for element, earlier in zip(output, before, strict=True):
        if isinstance(element, Punctuate) and isinstance(earlier, Insert):
            assert element.complete_before > earlier.start, output
