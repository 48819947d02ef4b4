"""NumPy at its best: a second one in a process of its own, which leaves AVX-512 alone.

On some processors NumPy's sorts with AVX-512 take five to eight times as long as those with AVX2. Who knows that sets
NPY_DISABLE_CPU_FEATURES, which NumPy reads when it is imported. So every rival that is made of NumPy is measured twice
in one run, in this process and in one that was started with AVX-512 switched off, turn by turn; the better time counts.
Where NumPy does not use AVX-512 there is no second process.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Columns = Mapping[str, NDArray[Any]]

_VARIABLE = "NPY_DISABLE_CPU_FEATURES"
SUFFIX = ", AVX2"
"""Ends the name of a contender that runs in the other process."""

_held: dict[str, Any] = {}  # in the other process: columns by name, and what was made of them


def avx512() -> str:
    """The AVX-512 features that NumPy uses in this process, as the variable names them; empty if it uses none."""
    found = np._core._multiarray_umath  # type: ignore[attr-defined]  # noqa: SLF001 - NumPy tells it nowhere else
    names = [name for name in found.__cpu_dispatch__ if name == "X86_V4" or name.startswith("AVX512")]
    return " ".join(name for name in names if found.__cpu_features__.get(name))


class OtherNumpy:
    """A process with some of NumPy's features switched off, which is given columns, and works on them."""

    def __init__(self, disabled: str) -> None:
        self._disabled = disabled

    @cached_property
    def _process(self) -> ProcessPoolExecutor:
        process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        with _environment(_VARIABLE, self._disabled):
            process.submit(avx512).result()  # starts it
        return process

    def give(self, columns: Columns) -> None:
        """Let it work on these columns from now on."""
        with tempfile.TemporaryDirectory() as folder:
            for name, column in columns.items():
                np.save(Path(folder) / f"{name}.npy", column)
            self.call(_load, folder, tuple(columns))

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something there, and return what it gives."""
        return self._process.submit(work, *arguments).result()

    def close(self) -> None:
        """End the process."""
        if "_process" in self.__dict__:
            self._process.shutdown()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    yield
    if before is None:
        del os.environ[name]
    else:
        os.environ[name] = before


def _load(folder: str, names: Sequence[str]) -> None:
    _held.clear()
    _held["columns"] = {name: np.load(Path(folder) / f"{name}.npy") for name in names}


def held() -> dict[str, Any]:
    """What this process was given, under "columns", and room to keep what is made of it."""
    return _held


def timed(work: Callable[[Columns], Any], often: int) -> Taken:
    """In the other process: how long it takes to do something with the columns so many times."""
    columns = _held["columns"]
    begun = time.perf_counter()
    for _ in range(often):
        work(columns)
    return Taken(time.perf_counter() - begun)


def beside(
    contenders: Mapping[str, Callable[[Columns], Any]], columns: Columns, other: OtherNumpy | None, often: int = 1
) -> dict[str, Callable[[], Any]]:
    """The contenders as calls, each in this process and, if there is another, in that one too."""
    calls: dict[str, Callable[[], Any]] = {
        name: partial(_repeatedly, work, columns, often) for name, work in contenders.items()
    }
    if other is not None:
        other.give(columns)
        calls |= {f"{name}{SUFFIX}": partial(other.call, timed, work, often) for name, work in contenders.items()}
    return calls


def better(taken: Mapping[str, float]) -> dict[str, float]:
    """Of contenders that ran in both processes the better time, under the plain name."""
    best: dict[str, float] = {}
    for name, value in taken.items():
        plain = name.removesuffix(SUFFIX)
        best[plain] = min(value, best.get(plain, value))
    return best


def _repeatedly(work: Callable[[Columns], Any], columns: Columns, often: int) -> None:
    for _ in range(often):
        work(columns)
