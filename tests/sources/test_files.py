"""Files and folders of files as sources."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SlackwaterError, SourceFailed
from slackwater.sources import files

if TYPE_CHECKING:
    from pathlib import Path

_TABLE = pa.table({"at": [3, 1, 2], "x": ["a", "b", "c"]})


def _write(path: Path, table: pa.Table = _TABLE) -> Path:
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), encoding="utf-8")
    return path


def _rows(path: Path | str) -> list[dict[str, Any]]:
    return list(sw.stream(path, time="at").run().table.to_pylist())


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "ndjson"])
def test_a_file_is_read_in_its_order_by_path_or_text(tmp_path: Path, ending: str) -> None:
    """And again, as often as it is asked for."""
    path = _write(tmp_path / f"orders.{ending}")
    assert _rows(path) == _rows(str(path)) == _TABLE.to_pylist()
    assert "orders" in sw.stream(path, time="at").explain()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_folder_is_read_file_by_file_in_the_order_of_names(tmp_path: Path, ending: str) -> None:
    """Other files beside them are left alone."""
    for name, first in (("b", 10), ("a", 0), ("c", 20)):
        _write(tmp_path / f"{name}.{ending}", pa.table({"at": [first, first + 1], "x": [name, name]}))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("not data", encoding="utf-8")
    assert [row["at"] for row in _rows(tmp_path)] == [0, 1, 10, 11, 20, 21]


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_a_file_of_other_columns_in_a_folder_is_refused_by_name(tmp_path: Path, ending: str) -> None:
    """The file, its columns and those of the first are shown."""
    _write(tmp_path / f"a.{ending}")
    _write(tmp_path / f"b.{ending}", pa.table({"at": [4], "y": [5]}))
    with pytest.raises(SourceFailed, match=rf"(?s)do not fit.*b\.{ending}.*x.*y"):
        _rows(tmp_path)


def test_files_of_several_formats_in_a_folder_are_refused(tmp_path: Path) -> None:
    """Nobody can know which are meant."""
    _write(tmp_path / "a.csv")
    _write(tmp_path / "b.parquet")
    with pytest.raises(PlanError, match=r"(?s)does not name a known format.*\.parquet, \.csv"):
        sw.stream(tmp_path, time="at")


def test_a_path_that_is_not_there_is_refused_when_the_stream_is_made(tmp_path: Path) -> None:
    """The path is shown; an empty folder is no better."""
    with pytest.raises(PlanError, match=r"(?s)no such file.*missing\.parquet"):
        sw.stream(tmp_path / "missing.parquet", time="at")
    with pytest.raises(PlanError, match="nothing readable"):
        sw.stream(tmp_path, time="at")


def test_an_unknown_ending_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """Nothing is guessed from the content."""
    path = tmp_path / "orders.xlsx"
    path.touch()
    with pytest.raises(PlanError, match=r"(?s)orders\.xlsx.*\.parquet, \.csv, \.jsonl, \.ndjson"):
        sw.stream(path, time="at")


def test_parquet_brings_back_every_type_unchanged(tmp_path: Path) -> None:
    """Nulls, time zones, nested and dictionary columns, over several row groups."""
    table = pa.table(
        {
            "at": pa.array([1, 2, 3], pa.timestamp("us", "Europe/Zurich")),
            "zone": pa.array([1, None, 3], pa.timestamp("ns", "UTC")),
            "nested": pa.array([[{"a": 1}], None, []]),
            "word": pa.array(["x", None, "y"]).dictionary_encode(),
        }
    )
    path = tmp_path / "orders.parquet"
    pa.parquet.write_table(table, path, row_group_size=2)
    assert sw.stream(path, time="at").run().table.equals(table)


def test_csv_times_and_nulls_are_understood(tmp_path: Path) -> None:
    """Arrow infers timestamps, numbers and empty fields."""
    path = tmp_path / "orders.csv"
    path.write_text("at,v\n2026-01-01 00:00:00,1\n2026-01-01 00:00:01,\n", encoding="utf-8")
    rows = _rows(path)
    assert [row["v"] for row in rows] == [1, None]
    assert rows[1]["at"] == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None)


def test_json_lines_are_read_in_blocks_of_one_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block decides; later blocks follow it, blank lines and missing values included."""
    monkeypatch.setattr(files, "JSON_BLOCK_LINES", 2)
    path = tmp_path / "orders.jsonl"
    path.write_text('{"at":1,"x":"a"}\n{"at":2,"x":null}\n{"at":3}\n\n{"x":"d","at":4}\n{"at":5}', encoding="utf-8")
    assert [(row["at"], row["x"]) for row in _rows(path)] == [(1, "a"), (2, None), (3, None), (4, "d"), (5, None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("orders.jsonl", '{"at":1,"x":1}\n' * 3 + '{"at":2,"x":"seven"}\n'),
        ("orders.jsonl", '{"at":1,"x":1}\n' * 3 + '{"at":2,"y":1}\n'),
        ("orders.jsonl", '{"at":1,"x":1}\n' * 3 + "{broken\n"),
        ("orders.csv", "at,x\n1,1\n2\n"),
    ],
    ids=["another type", "another column", "no JSON", "a field too few"],
)
def test_a_line_that_cannot_be_read_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """Arrow's own words are the cause, not the whole message."""
    monkeypatch.setattr(files, "JSON_BLOCK_LINES", 2)
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SlackwaterError, match=name.replace(".", r"\.")):
        _rows(path)


@pytest.mark.parametrize("name", ["orders.csv", "orders.jsonl", "orders.parquet"])
def test_an_empty_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """It has no columns, so it has no time column."""
    path = tmp_path / name
    path.touch()
    with pytest.raises(SlackwaterError):
        sw.stream(path, time="at")
