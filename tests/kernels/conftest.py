"""Columns of times that are disordered in every way a sort treats differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from slackwater.kernels.sorting.block_sort import BLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

_N = 4 * BLOCK + 17
_AT = np.arange(_N)
_RNG = np.random.default_rng(0)

_DISORDERED: dict[str, NDArray[np.int64]] = {
    "ordered": _AT,
    "constant": np.zeros(_N, dtype=np.int64),
    "descending": _AT[::-1].copy(),
    "few late": _AT - np.where(_RNG.random(_N) < 0.01, _RNG.integers(0, 300, _N), 0),
    "many late": _AT - np.where(_RNG.random(_N) < 0.5, _RNG.integers(0, 3_000, _N), 0),
    "uploads": np.concatenate([np.sort(_RNG.integers(0, _N, size)) for size in _RNG.integers(1_000, 5_000, 300)])[:_N],
    "random": _RNG.integers(0, _N, _N),
    "few times": _RNG.integers(0, 5, _N),
    "far apart": _RNG.integers(-(2**63), 2**63 - 1, _N),
    "years late": _AT - np.where(_RNG.random(_N) < 0.01, _RNG.integers(0, 2**50, _N), 0),
    "nights between days": _AT + _AT // 20_000 * 10**9 - _RNG.integers(0, 1_000, _N),
    "seconds": _AT // 300 - np.where(_RNG.random(_N) < 0.2, 1, 0),
    "far apart, few late": np.where(_RNG.random(_N) < 0.01, -(2**62), _AT * 2**40),
}


@pytest.fixture(params=_DISORDERED)
def disordered_times(request: pytest.FixtureRequest) -> NDArray[np.int64]:
    """One of these columns: several blocks long, not to be written to."""
    times = _DISORDERED[request.param]
    times.setflags(write=False)
    return times
