"""Delta tables as sources: the rows that the table has, in the order in which they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SourceFailed
from slackwater.sources import delta

if TYPE_CHECKING:
    from pathlib import Path


def _written(folder: Path, **options: Any) -> Path:
    """A table of five commits, with a row that is gone again."""
    for number in range(5):
        rows = pa.table({"at": [10 * number, 10 * number + 1], "k": ["a b", "c"], "x": [number, None]})
        deltalake.write_deltalake(folder, rows, mode="append", **options)
    deltalake.DeltaTable(folder).delete("at = 21")
    return folder


def _rows(source: Any) -> list[dict[str, Any]]:
    return list(sw.stream(source, time="at").run().table.to_pylist())


@pytest.mark.parametrize("options", [{}, {"partition_by": ["k"]}])
def test_a_table_is_read_in_the_order_of_its_commits(tmp_path: Path, options: dict[str, Any]) -> None:
    """By its folder, as a text too, or as a table that is open; a row that was deleted is in a file, and not read.

    Its neighbour was written anew by the deletion, into a younger file; where a file is left alone, it keeps its place.
    Files of one commit have no order.
    """
    path = _written(tmp_path / "readings", **options)
    table = deltalake.DeltaTable(path)
    found = _rows(path)
    assert found == _rows(str(path)) == _rows(table)
    times = [0, 1, 10, 11, 20, 30, 31, 40, 41]
    assert sorted(found, key=lambda row: row["at"]) == [
        {"at": at, "k": "c" if at % 10 else "a b", "x": None if at % 10 else at // 10} for at in times
    ]
    commits = [0, 0, 1, 1, 2, 3, 3, 4, 4] if options else [0, 0, 1, 1, 3, 3, 4, 4, 2]
    assert [row["at"] // 10 for row in found] == commits


def test_a_table_that_is_open_stays_at_its_version(tmp_path: Path) -> None:
    """Also when it is read again after another commit."""
    path = _written(tmp_path / "readings")
    before = sw.stream(path, time="at")
    deltalake.write_deltalake(path, pa.table({"at": [50], "k": ["c"], "x": [5]}), mode="append")
    assert before.run().table.num_rows == 9
    assert before.run().table.num_rows == 9
    assert sw.stream(path, time="at").run().table.num_rows == 10
    assert sw.stream(deltalake.DeltaTable(path, version=0), time="at").run().table.num_rows == 2


def test_a_table_is_profiled_without_what_is_gone(tmp_path: Path) -> None:
    """Rows that were deleted, and files of older versions, count for nothing."""
    path = _written(tmp_path / "readings", partition_by=["k"])
    for source in (path, deltalake.DeltaTable(path)):
        found = sw.profile(source, time="at", origin="k")
        assert found.within is not None
        assert (found.rows, found.within.greatest, len(found.sources)) == (9, 0, 2)


def test_a_table_that_cannot_be_read_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is none, a file that is gone, a package that is missing."""
    broken = tmp_path / "broken"
    (broken / delta.LOG).mkdir(parents=True)
    with pytest.raises(SourceFailed, match="broken"):
        sw.stream(broken, time="at")
    path = _written(tmp_path / "readings")
    stream = sw.stream(path, time="at")
    next(path.glob("*.parquet")).unlink()
    for file in path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(SourceFailed, match=r"(?s)readings.*vacuumed"):
        stream.run()
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(PlanError, match=r"slackwater\[delta\]"):
        sw.stream(path, time="at")
