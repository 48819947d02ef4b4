"""Folders in folders: what their names say is a column, and whoever writes may keep notes beside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def _write(file: Path, times: Sequence[int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"at": times})
    if file.suffix == ".parquet":
        pq.write_table(table, file)
    elif file.suffix == ".csv":
        pa.csv.write_csv(table, file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def _rows(path: Path) -> list[dict[str, Any]]:
    return list(sw.stream(path, time="at").run().table.to_pylist())


@pytest.mark.parametrize("ending", ["parquet", "csv", "json", "jsonl", "ndjson"])
def test_names_of_folders_are_columns(tmp_path: Path, ending: str) -> None:
    """Numbers come in their own order, and null is null; texts may have any letters."""
    for number, times in ((10, [5, 6]), (2, [3]), (None, [1, 2])):
        name = "__HIVE_DEFAULT_PARTITION__" if number is None else number
        _write(tmp_path / f"batch={name}" / "where=S%C3%A3o a%3Db" / f"part-0.{ending}", times)
    where = "São a=b"
    assert _rows(tmp_path) == [
        *({"at": at, "batch": None, "where": where} for at in (1, 2)),
        {"at": 3, "batch": 2, "where": where},
        *({"at": at, "batch": 10, "where": where} for at in (5, 6)),
    ]


@pytest.mark.parametrize("names", [["1", "02"], ["1", "x"], ["1", "+2"], ["1", "1_0"], ["1", "9" * 19]])
def test_what_is_not_a_number_in_every_name_is_text(tmp_path: Path, names: list[str]) -> None:
    """A code such as 02 keeps its zero."""
    for name in names:
        _write(tmp_path / f"k={name}" / "a.parquet", [1])
    assert sorted(row["k"] for row in _rows(tmp_path)) == sorted(names)


def test_notes_of_whoever_writes_are_passed_over(tmp_path: Path) -> None:
    """Files and folders whose names begin so, at any depth."""
    _write(tmp_path / "day" / "a.parquet", [1])
    _write(tmp_path / "day" / "_temporary" / "0" / "a.parquet", [2])
    _write(tmp_path / "_metadata" / "a.parquet", [3])
    _write(tmp_path / ".hidden.parquet", [4])
    assert _rows(tmp_path) == [{"at": 1}]


def test_folders_that_make_no_table_are_refused(tmp_path: Path) -> None:
    """Other columns for other files, or a column that files have, too."""
    _write(tmp_path / "one" / "k=1" / "a.parquet", [1])
    _write(tmp_path / "one" / "a.parquet", [1])
    with pytest.raises(PlanError, match=r"(?s)other columns for some files.*columns +none.*elsewhere +k"):
        _rows(tmp_path / "one")
    _write(tmp_path / "two" / "at=1" / "a.parquet", [1])
    with pytest.raises(PlanError, match=r"(?s)have the same column.*at"):
        _rows(tmp_path / "two")
