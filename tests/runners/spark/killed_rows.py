"""The rows of sources of queries that are killed: disordered, with ties, and some of them too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = "at long, n long, word string, landed long"
SCHEMA = pa.schema({"at": pa.int64(), "n": pa.int64(), "word": pa.string(), "landed": pa.int64()})
ROWS = 300
"""Of a file, of a version of a table, and of the messages of a micro-batch: micro-batches are known in advance."""

RowsOf: TypeAlias = "Callable[[np.random.Generator, int, int], list[Any]]"
"""Makes the columns of a source's file, by their numbers."""


def tables_of(rows: RowsOf, seed: str, sources: int, files: int) -> list[list[pa.Table]]:
    """The rows of each source, by file."""
    made = []
    for source in range(sources):
        random = np.random.default_rng([*seed.encode(), source])
        made.append([_table(rows(random, source, number)) for number in range(files)])
    return made


def _table(columns: list[Any]) -> pa.Table:
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def _times(random: np.random.Generator, number: int) -> np.ndarray[Any, Any]:
    late_by = random.integers(0, 150, ROWS) * (random.random(ROWS) < 0.1)
    return np.maximum(60 * number + np.arange(ROWS) // 5 - late_by, 0)


def any_rows(random: np.random.Generator, source: int, number: int) -> list[Any]:
    """Each row has a number of its own; some have no word."""
    words = np.array([None, "", "ebb", "flood", "neap"], dtype=object)[random.integers(0, 5, ROWS)]
    numbers = np.arange(ROWS) + ROWS * number + 1_000_000 * source
    return [_times(random, number), numbers, words, numbers]


def sent_by_two(random: np.random.Generator, source: int, number: int) -> list[Any]:
    """Both sources send what happens, each in its own order; in place of some of it the second has some of its own."""
    at = random.permutation(_times(np.random.default_rng(number), number))
    own = (at % 17 == 0) & (source == 1)
    return [at, np.where(own, -at, at // 3), np.where(at % 2 == 0, "ebb", "flood"), at]


def come_and_gone(random: np.random.Generator, _: int, number: int) -> list[Any]:
    """Replicas that come and go, and send the same."""
    at = _times(random, number)
    names = np.array(["blue", "green", "red"], dtype=object)[(random.integers(0, 2, ROWS) + number // 3) % 3]
    return [at, at // 3, names, at]


def sent_again(random: np.random.Generator, _: int, number: int) -> list[Any]:
    """Some events come several times."""
    at = _times(random, number)
    return [at, at // 3, np.where(at % 2 == 0, "ebb", "flood"), at]


def silent_after_a_while(random: np.random.Generator, source: int, number: int) -> list[Any]:
    """The second source has nothing to say from some file on."""
    columns = any_rows(random, source, number)
    return [column[:0] for column in columns] if source == 1 and number >= 4 else columns


def of_origins(random: np.random.Generator, _: int, number: int) -> list[Any]:
    """Four sources, whose rows come in the order in which they landed, and are a little out of order each."""
    landed = 60 * number + np.arange(ROWS) // 5
    late_by = random.integers(0, 60, ROWS) * (random.random(ROWS) < 0.1)
    who = np.array(["a", "b", "c", "d"], dtype=object)[random.integers(0, 4, ROWS)]
    return [np.maximum(landed - late_by, 0), np.arange(ROWS) + ROWS * number, who, landed]
