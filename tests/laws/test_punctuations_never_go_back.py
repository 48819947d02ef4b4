"""Law 2: punctuations never go back, and no output contradicts one that was sent before it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.cases import CASES
from slackwater.testing.torture import Cut, TortureCase, assert_lawful, drive, schedule


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_punctuations_never_go_back_and_are_never_contradicted(
    case: TortureCase, data: st.DataObject, seed: int
) -> None:
    """Whatever an operator is fed, its output keeps its own promises."""
    streams = data.draw(case.streams)
    said = drive(case, schedule(streams, Cut.RANDOM, Random(seed)), len(streams), restore=False)
    assert_lawful(said, ordered=case.ordered)
