"""One folder has many spellings; two that overlap cannot have two writers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slackwater.errors import PlanError
from slackwater.runners.spark.storage.places import Place, refuse_overlaps

if TYPE_CHECKING:
    from pathlib import Path


def test_spellings_of_one_folder_are_one_place(tmp_path: Path) -> None:
    """Slashes at the end and inside, dots, detours, schemes with and without a host, and symbolic links."""
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    spellings = [
        *(f"{tmp_path}/out", f"{tmp_path}/out/", f"{tmp_path}/./out", f"{tmp_path}//out", f"{tmp_path}/a/../out"),
        *(f"file:{tmp_path}/out", f"file://{tmp_path}/out", f"FILE://localhost{tmp_path}/out", f"{tmp_path}/link"),
    ]
    assert {Place.written(one) for one in spellings} == {Place("file", "", str((tmp_path / "out").resolve()))}


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("hdfs://names/out", "hdfs://NAMES/out/", True),
        ("hdfs://names/out", "hdfs://names/out/late", True),
        ("hdfs://names/out", "hdfs://names/outer", False),
        ("hdfs://names/out", "hdfs://others/out", False),
        ("hdfs://names/out", "file:///out", False),
        ("s3://bucket/out", "s3a://bucket/out/late", True),
        ("s3a://bucket", "s3a://bucket/out", True),
    ],
)
def test_places_overlap_where_one_lies_in_the_other(one: str, other: str, overlap: bool) -> None:
    """By whole names of folders, on the same host of the same store, whichever is written first."""
    places = Place.written(one), Place.written(other)
    assert [a.overlaps(b) for a, b in (places, places[::-1])] == [overlap, overlap]


@pytest.mark.parametrize(
    ("late", "checkpoint", "source", "failure_text"),
    [
        ("/out", "/c", "/in", r"(?s)two sinks would write to one folder.*main +parquet.*late +csv, sep=;.*file:///out"),
        ("/out/late", "/c", "/in", r"(?s)inside that of another.*main +file:///out\b.*late +file:///out/late"),
        ("/late", "/out/c", "/in", r"(?s)and the checkpoint lie inside each other.*main +file:///out\b"),
        ("/c/late", "/c", "/in", r"(?s)and the checkpoint lie inside each other.*late +file:///c/late"),
        ("/late", "/c", "/out", r"(?s)would read what it writes itself.*main +file:///out.*source +file:///out"),
        ("/in/late", "/c", "/in", r"(?s)would read what it writes itself.*late +file:///in/late"),
    ],
)
def test_folders_that_overlap_are_refused(late: str, checkpoint: str, source: str, failure_text: str) -> None:
    """Of two sinks, of a sink and the checkpoint, of a sink and a source."""
    sinks = {"main": Place.written("/out"), "late": Place.written(late)}
    formats = {"main": "parquet", "late": "csv, sep=;"}
    with pytest.raises(PlanError, match=failure_text):
        refuse_overlaps(sinks, Place.written(checkpoint), [Place.written(source)], formats=formats)


def test_folders_side_by_side_are_fine() -> None:
    """Though their names begin alike."""
    sinks = {"main": Place.written("/out"), "late": Place.written("/out_late")}
    refuse_overlaps(sinks, Place.written("/out.checkpoint"), [Place.written("/outside")], formats={})
