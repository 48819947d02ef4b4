"""Law 6: the same calls give the same answers; no operator reads a clock, a file or a random number."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

import slackwater.operators
from slackwater.events.elements import elements_of
from slackwater.testing.cases import CASES
from slackwater.testing.torture import Cut, TortureCase, drive, schedule

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch

_FORBIDDEN = {"asyncio", "datetime", "io", "logging", "os", "pathlib", "random", "secrets", "sys", "threading", "time"}
_FILES = sorted(Path(slackwater.operators.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", _FILES, ids=lambda file: file.stem)
def test_operators_import_nothing_that_could_answer_differently_tomorrow(file: Path) -> None:
    """No clock, no file, no environment, no randomness, no thread."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert not imported & _FORBIDDEN


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@FEWER
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_the_same_calls_give_the_same_answers(case: TortureCase, data: st.DataObject, seed: int) -> None:
    """Two operators that are driven alike emit the same batches, element for element."""
    streams = data.draw(case.streams)
    calls = schedule(streams, Cut.RANDOM, Random(seed))
    once, again = (drive(case, calls, len(streams), restore=False) for _ in range(2))
    assert [_plain(batch) for batch in once] == [_plain(batch) for batch in again]


def _plain(batch: EventBatch) -> list[str]:
    return [str(element) for element in elements_of(batch)]
