"""What README and the pages of the site show, where their code needs Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from document_examples import ROOT, documents, needs_spark, parsed, run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_PAGES = [page for page in documents() if needs_spark(page) and page.name != "README.md"]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_prints_what_it_shows(
    session: SparkSession, page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first block to its last, in a folder of its own, with a session that users have."""
    session.conf.unset("spark.sql.streaming.checkpointFileManagerClass")  # or explain() would not recommend it
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    run(parsed(page), {"spark": session, "folder": str(tmp_path)})


def test_the_readme_prints_what_it_shows(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block by itself; the first one with readings of half an hour, each second one, in any order."""
    monkeypatch.chdir(tmp_path)
    seconds = np.random.default_rng(4).permutation(1_800)
    times = pa.array(datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(seconds=int(one)) for one in seconds)
    readings = {
        "at": times.cast(pa.timestamp("us", "UTC")),
        "device": np.array(["a", "b"])[seconds % 2],
        "value": seconds / 2,
    }
    (tmp_path / "readings").mkdir()
    pq.write_table(pa.table(readings), tmp_path / "readings" / "1.parquet")
    run(parsed(ROOT / "README.md"), {"spark": session, "folder": str(tmp_path)}, alone=True)
    answers = session.read.parquet(str(tmp_path / "answers"))
    complete = (1_799 - 5 * 60) // 60  # by the longer patience: their minutes are counted whole
    counted = answers.where(answers["band"] == 1).toArrow()
    assert sorted(counted["n"].to_pylist()) == [30] * 2 * complete
    assert session.read.parquet(str(tmp_path / "late")).count() == 0
