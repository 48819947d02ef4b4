"""Every operator, found by itself, in every way a runner might drive it; and a harness that can fail."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.operators.emission import Emission
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator
from slackwater.operators.operator import Operator, StatelessOperator
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.union import UnionOperator
from slackwater.testing.cases import CASES, POINTS
from slackwater.testing.torture import Streams, TortureCase, operators_found, torture, torture_divided


@pytest.mark.parametrize("operator", operators_found(), ids=lambda operator: operator.__name__)
def test_every_operator_has_a_torture_case(operator: type[Operator[Any]]) -> None:
    """An operator without a case is not tested: add one to slackwater.testing.cases."""
    assert any(case.operator is operator for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@FEWER  # each is driven in eight ways
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_operators_keep_the_laws_however_they_are_driven(case: TortureCase, data: st.DataObject, seed: int) -> None:
    """Any cut, interleaving and restore gives the oracle's table, with lawful punctuations and nothing left inside."""
    torture(case, data.draw(case.streams), Random(seed))


_DIVIDED = [case for case in CASES if case.divided]

_KNOW_OF_ALL = {PunctuateOperator, HeartbeatsOperator, DrivenHeartbeatsOperator}
"""These go by what a runner knows of the rows of all: see tests/runners/spark/shard/test_resharding.py."""


@pytest.mark.parametrize("operator", operators_found(), ids=lambda operator: operator.__name__)
def test_operators_that_split_have_a_case_in_which_they_do(operator: type[Operator[Any]]) -> None:
    """Say so by `divided`, in a case where the rows of one key can be treated without those of another."""
    assert (operator.splits and operator not in _KNOW_OF_ALL) == any(case.operator is operator for case in _DIVIDED)


@pytest.mark.parametrize("case", _DIVIDED, ids=lambda case: case.name)
@FEWER
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_several_operators_do_the_work_of_one(case: TortureCase, data: st.DataObject, seed: int) -> None:
    """Each gets the rows of some keys, with all punctuations; meanwhile they become more and fewer."""
    torture_divided(case, data.draw(case.streams), Random(seed))


class _Forgetful(StatelessOperator):
    """Loses every batch of more than one row: what a broken operator looks like."""

    def on_batch(self, port: int, batch: EventBatch) -> Emission:  # noqa: ARG002
        return Emission.of(batch) if batch.rows <= 1 else Emission()


class _Hasty(UnionOperator):
    """Does not wait for anybody: a union that breaks the order."""

    def on_batch(self, port: int, batch: EventBatch) -> Emission:  # noqa: ARG002
        return Emission.of(batch)


def _points(*starts: int) -> EventBatch:
    payload = pa.record_batch({"k": ["a"] * len(starts), "v": list(range(len(starts)))})
    return EventBatch.inserts(payload, list(starts))


def _all_of(streams: Streams) -> list[Insert]:
    return [element for stream in streams for element in elements_of(stream) if isinstance(element, Insert)]


def test_the_harness_notices_lost_rows() -> None:
    """An operator that drops rows fails."""
    case = TortureCase("forgetful", _Forgetful, lambda _: _Forgetful(), st.nothing(), _all_of)
    with pytest.raises(AssertionError, match="tables differ"):
        torture(case, (_points(1, 2, 3),), Random(0))


def test_the_harness_notices_broken_order() -> None:
    """An operator that does not wait fails."""
    case = TortureCase("hasty", _Hasty, lambda s: _Hasty(2, POINTS.no_rows, resume=s), st.nothing(), _all_of)
    with pytest.raises(AssertionError, match="came after"):
        torture(case, (_points(1, 5, 9), _points(2, 6, 10)), Random(0))
