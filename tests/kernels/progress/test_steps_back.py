"""The first time that goes back is found, by however little it does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.steps_back import first_step_back
from slackwater.progress.instants import BEGINNING, FOREVER

_TIMES = st.integers(0, 3) | st.sampled_from([BEGINNING, FOREVER])


@given(st.lists(_TIMES, max_size=8), _TIMES)
def test_the_first_time_behind_any_before_it_is_found(times: list[int], after: int) -> None:
    """Ties do not go back, and what was there before counts too."""
    back = [at for at, time in enumerate(times) if time < max([after, *times[:at]])]
    found = first_step_back(np.array(times, dtype=np.int64), after)
    assert found == (back[0] if back else -1)


def test_columns_with_gaps_between_their_values_are_read_too() -> None:
    """As slices with a step are."""
    assert first_step_back(np.array([1, 9, 2, 0, 1, 0])[::2], 0) == 2
