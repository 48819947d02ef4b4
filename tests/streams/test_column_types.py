"""Columns of unusual types and names go through sorts and aggregates like all others, or are refused when written."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError


def _counted(keys: pa.Array) -> list[dict[str, object]]:
    rows = sw.stream(pa.table({"at": list(range(len(keys))), "k": keys}), time="at").sort(5)
    return rows.tumbling(10).group_by("k").aggregate(n=sw.count()).run().table.select(["k", "n"]).to_pylist()


def test_views_are_keys_and_are_counted() -> None:
    """Arrow itself cannot take rows of them yet."""
    words = pa.array(["a", None, "a"], pa.string_view())
    assert _counted(words) == [{"k": "a", "n": 2}, {"k": None, "n": 1}]
    rows = sw.stream(pa.table({"at": [1, 2, 3], "k": words}), time="at").sort(5).tumbling(10)
    assert rows.aggregate(n=sw.count_distinct("k")).run().table.column("n").to_pylist() == [1]


def test_a_dictionary_may_hold_anything() -> None:
    """Arrow makes no empty one of dates, and an empty one is what every stream begins with."""
    days = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array([1, 2], pa.date32()))
    assert sw.stream(pa.table({"at": [2, 1], "d": days}), time="at").sort(5).run().table.column("at").to_pylist() == [
        1,
        2,
    ]


def test_categories_that_are_put_together_anew_are_not_called_ordered() -> None:
    """By appearance high would come before low."""
    kind = pa.dictionary(pa.int32(), pa.string(), ordered=True)
    levels = pa.DictionaryArray.from_arrays(
        pa.array([2, 0], pa.int32()), pa.array(["low", "mid", "high"]), ordered=True
    )
    assert levels.type == kind
    rows = sw.stream(pa.table({"at": [1, 2], "k": levels}), time="at").sort(5).tumbling(10).group_by("k")
    assert not rows.aggregate(n=sw.count()).run().table.schema.field("k").type.ordered


def test_a_column_without_a_name_is_read_by_it() -> None:
    """Nobody would call it so, but files do."""
    rows = sw.stream(pa.table({"at": [1, 5, 3, 12], "": [1, 2, 3, 4]}), time="at").sort().tumbling(10)
    assert rows.aggregate(s=sw.sum("")).run().table.column("s").to_pylist() == [6, 4]


def test_narrow_dictionaries_are_made_behind_the_sort() -> None:
    """A sort puts rows of several batches together, and their words would not fit."""
    table = pa.table({"at": list(range(1_000)), "s": [f"w{i}" for i in range(1_000)]})

    def narrow(rows: pa.RecordBatch) -> pa.Array:
        return rows.column("s").dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))

    got: list[int] = []
    stream = sw.stream(table, time="at").sort(20).select(d=narrow)
    with stream.open(lambda rows: got.append(rows.num_rows), on_late=lambda _: None, batch_rows=100) as query:
        query.run_to_end()
    assert sum(got) == 1_000


def test_nothing_is_taken_for_no_cadence() -> None:
    """Zero is not a way to say how often."""
    with pytest.raises(PlanError, match="every= takes"):
        sw.stream(pa.table({"at": [1]}), time="at").in_bands(1, every=0)  # type: ignore[arg-type]
