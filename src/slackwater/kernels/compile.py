"""The one decorator for compiled loops: how Numba is used is decided here and nowhere else.

cache=True keeps machine code on disk, so that only the first process on a machine compiles; nogil lets a feeding
thread run while a kernel does. Signatures are given by hand: each kernel compiles once, when it is imported for
the first time on a machine, not again for every mixture of argument types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def kernel(*signatures: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a plain loop over arrays for the given signatures."""

    def compiled(loop: Callable[P, R]) -> Callable[P, R]:
        return numba.njit(list(signatures), cache=True, nogil=True)(loop)

    return compiled
