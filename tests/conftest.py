"""Settings for all tests, and a step with outputs beside its main one.

Hypothesis is deterministic, with a short profile, a thorough one, and one for nights. When coverage is measured, the
first cases of each test are watched, and of those the first example: to watch all takes half as long again.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings

import slackwater as sw
from slackwater.operators.emission import LATE, Emission, band_output
from slackwater.operators.operator import Operator
from slackwater.plan.node import SideOutput
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.properties import Order, Properties
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.streams.event_stream import EventStream

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

for _name, _examples in {"short": 20, "thorough": 1_000, "nightly": 10_000}.items():
    settings.register_profile(
        _name,
        derandomize=True,
        database=None,  # nothing is left behind
        deadline=None,
        max_examples=_examples,
        suppress_health_check=_SLOW_IS_FINE,
    )
settings.load_profile("short")

_WATCHED_CASES = 2
"""How many cases of a test count for coverage, in each process; the others of them hardly reach any other lines."""

_cases: Counter[str] = Counter()
"""How many cases of a test have been run."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Stop to measure coverage, if it is, after the first cases of a test and their first examples; go on at its end.

    What is watched takes three times as long, and most of what tests do they do again and again.
    """
    tracer, test = sys.gettrace(), getattr(getattr(item, "obj", None), "hypothesis", None)
    if tracer is None:
        return (yield)
    function = item.nodeid.partition("[")[0]
    _cases[function] += 1
    with pytest.MonkeyPatch.context() as patch:
        if _cases[function] > _WATCHED_CASES:
            sys.settrace(None)
        elif test is not None:
            patch.setattr(test, "inner_test", _watched_once(test.inner_test))
        try:
            return (yield)
        finally:
            sys.settrace(tracer)


def _watched_once(test: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(test)
    def watched(*args: object, **named: object) -> object:
        try:
            return test(*args, **named)
        finally:
            sys.settrace(None)  # before the next example is drawn, which takes longer than many a test

    return watched


@dataclass(frozen=True)
class PartState:
    """What parting remembers: how many rows were late, and the rows of the batch before."""

    late: int = 0
    held: tuple[EventBatch, ...] = ()


class PartOperator(Operator[PartState]):
    """Sends odd numbers to "late", others from a hundred on to "band 1", and the rest on, one batch behind."""

    __slots__ = ("_state",)

    def __init__(self, resume: PartState | None) -> None:
        self._state = resume or PartState()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Part the rows; a punctuation lets go of those that were held, and goes on to main output and band."""
        data = batch.data()
        values = data.payload.column("v").to_numpy()
        odd, much = values % 2 == 1, values >= 100
        late, band, rest = (data.keep_rows(keep) for keep in (odd, ~odd & much, ~odd & ~much))
        late = late.with_payload(late.payload.append_column("why", pa.array(["odd"] * late.rows, pa.string())))
        punctuated = batch.last_punctuation()
        guarantee = () if punctuated is None else (data.punctuation(punctuated),)
        released = (*self._state.held, *((rest,) if guarantee else ()), *guarantee)
        self._state = PartState(self._state.late + late.rows, () if guarantee else (rest,))
        side = [(LATE, late), (band_output(1), band), *((band_output(1), one) for one in guarantee)]
        return Emission(released, tuple((output, one) for output, one in side if len(one)))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one port
        """Let go of what was held."""
        released, self._state = self._state.held, PartState(self._state.late)
        return Emission(released)

    def buffered(self) -> int:
        """The rows of the batch before."""
        return sum(batch.rows for batch in self._state.held)

    def late(self) -> int:
        """The odd ones."""
        return self._state.late

    def snapshot(self) -> PartState:
        """Return the state, which is never changed in place."""
        return self._state


@dataclass(frozen=True, eq=False)
class Part(UnaryNode):
    """The plan node of the operator above."""

    verb = "part"
    traits = Traits()

    def details(self) -> str:
        """Nothing was chosen."""
        return "late=diverted"

    def reason(self) -> str:
        """It is for tests."""
        return "parts rows by their number"

    def side_outputs(self) -> Mapping[str, tuple[EventSchema, Properties]]:
        """Late rows in no order, with a column that says why; the band as ordered as the input."""
        late = self.schema.with_payload(
            self.schema.payload.append(pa.field("why", pa.string())), (*self.schema.columns, "why")
        )
        disordered = self.properties.replace(order=Order.NONE)
        return {LATE: (late, disordered), band_output(1): (self.schema, self.properties)}

    def build(self, step: str, resume: PartState | None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return PartOperator(resume)


Parting: TypeAlias = "Callable[[EventStream], tuple[sw.OrderedStream, sw.OrderedStream]]"
"""Puts the step above behind a stream, and returns its main output and its band."""


@pytest.fixture
def part() -> Parting:
    """A step that diverts late rows and has a band besides."""

    def parted(stream: EventStream) -> tuple[sw.OrderedStream, sw.OrderedStream]:
        step = Part(stream.node)
        return sw.OrderedStream(step), sw.OrderedStream(SideOutput(step, band_output(1)))

    return parted
