"""Which files a micro-batch was to read, by Spark's own logs, and what happens when one of them is gone."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.errors import SourceFailed
from slackwater.runners.spark.checkpoint.ownership import Run
from slackwater.runners.spark.checkpoint.source_files import files_of, require_files
from slackwater.runners.spark.storage.files import LocalFiles
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from pathlib import Path


def _log(checkpoint: Path, name: str, *lines: Any) -> None:
    path = checkpoint / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["v1", *(line if isinstance(line, str) else json.dumps(line) for line in lines)]))


def _entry(path: Path, offset: int) -> dict[str, Any]:
    return {"path": path.as_uri(), "timestamp": 1, "batchId": offset}


def _written(folder: Path) -> Place:
    """Two sources: files, of which the first micro-batch reads one and the second three, and one that is no files."""
    checkpoint, about = folder / "checkpoint", {"batchTimestampMs": 7}
    files = [folder / f"a {number}%.parquet" for number in range(4)]
    for number, file in enumerate(files):
        file.touch()
        _log(checkpoint, f"sources/0/{number}", _entry(file, number))
    _log(checkpoint, "offsets/0", about, {"logOffset": 0}, "-")
    _log(checkpoint, "offsets/1", about, {"logOffset": 3}, {"topic": {"0": 5}})
    return Place.written(str(checkpoint))


def test_the_files_of_a_micro_batch_are_those_since_the_last(tmp_path: Path) -> None:
    """By offsets of their own source; logs that Spark has put together are read as well."""
    checkpoint = _written(tmp_path)
    names = [[address.rpartition("/")[2] for address in files_of(LocalFiles(), checkpoint, n)] for n in range(3)]
    assert names == [["a 0%.parquet"], [f"a {number}%.parquet" for number in (1, 2, 3)], []]
    (tmp_path / "checkpoint/sources/0/3").unlink()
    everything = [_entry(tmp_path / f"a {number}%.parquet", number) for number in range(4)]
    _log(tmp_path / "checkpoint", "sources/0/3.compact", *everything)
    assert [address.rpartition("/")[2] for address in files_of(LocalFiles(), checkpoint, 1)] == names[1]


@pytest.mark.parametrize("many", [False, True])
def test_a_file_that_is_gone_is_named(tmp_path: Path, many: bool) -> None:
    """Looked for one by one or, if there are many, by listing their folder."""
    classic: Any = SimpleNamespace(_jvm=True)
    run = Run("query", "run", 1, {}, _written(tmp_path))
    if many:
        more = [tmp_path / f"more {number}" for number in range(30)]
        for file in more:
            file.touch()
        _log(
            tmp_path / "checkpoint",
            "sources/0/3",
            *(_entry(file, 3) for file in more),
            _entry(tmp_path / "a 2%.parquet", 3),
        )
    require_files(classic, run, 1)
    (tmp_path / "a 2%.parquet").unlink()
    require_files(classic, run, 0)
    with pytest.raises(SourceFailed, match=r"(?s)gone before it was read.*a 2%.parquet.*put them back"):
        require_files(classic, run, 1)
