"""A micro-batch is planned for a query that is started again: once, and only where none is to be done anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slackwater.runners.spark.checkpoint.ownership import Run
from slackwater.runners.spark.checkpoint.resuming import plan_micro_batch
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from pathlib import Path

_NO_SESSION: Any = None
"""Local files need none."""


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"),
    [
        ([], [], []),
        ([0], [], [0]),
        ([8, 9, 10], [8, 9, 10], [8, 9, 10, 11]),
        ([8, 9, 10], [8, 9], [8, 9, 10]),
    ],
)
def test_the_next_micro_batch_is_a_copy_of_the_last_if_that_is_done(
    tmp_path: Path, offsets: list[int], commits: list[int], expected: list[int]
) -> None:
    """Of a new query, and of one whose last micro-batch is done again, nothing is planned."""
    for folder, numbers in (("offsets", offsets), ("commits", commits)):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).write_text(f"v1\n{folder} of {number}")
        (tmp_path / folder / ".9.crc").write_text("no log")
    run = Run("query", "run", 2, {}, Place.written(str(tmp_path)))
    plan_micro_batch(_NO_SESSION, run)
    plan_micro_batch(_NO_SESSION, run)
    assert sorted(int(one.name) for one in (tmp_path / "offsets").iterdir() if one.name.isdecimal()) == expected
    if len(expected) > len(offsets):
        assert (tmp_path / "offsets/11").read_text() == "v1\noffsets of 10"
