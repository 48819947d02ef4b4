"""Options of Spark's file source: those that Spark would not look at are refused."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import PlanError


@pytest.mark.parametrize("option", ["shards", "timeout", "maxFilesPerTigger"])
def test_an_option_that_spark_does_not_know_is_refused(option: str) -> None:
    """Before a session is needed; the hint says where such options belong."""
    session: Any = None
    with pytest.raises(PlanError, match=rf"(?s)no option of this name.*{option}.*maxFilesPerTrigger.*belong to start"):
        sw.parquet_files(session, "in", **{option: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(("option", "got"), [("shards", 0), ("shards", 2.0), ("shards", True), ("chunk_rows", -1)])
def test_numbers_that_are_none_are_refused(option: str, got: Any) -> None:
    """Nought shards are not as many as there are cores."""
    ordered = sw.stream([{"at": 1}], time="at").sort(5)
    given: dict[str, Any] = {option: got}
    for call in (lambda: ordered.start(checkpoint="c", main="out", **given), lambda: ordered.to_spark(**given)):
        with pytest.raises(PlanError, match=rf"(?s){option} is a whole number above zero.*leave {option}= out"):
            call()
