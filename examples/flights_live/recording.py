"""The feed as it was: in files for Spark, which end where micro-batches of the live query ended."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq
from run_tables import micro_batches_of

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


def write_feed(feed: pa.Table, folder: Path) -> int:
    """Write all messages, and say how many files it are."""
    edges = [0, *sorted({one["sequence"] for one in micro_batches_of(folder)})]
    (folder / "feed").mkdir()
    for number, (first, last) in enumerate(pairwise(edges)):
        part = feed.filter((pc.field("sequence") > first) & (pc.field("sequence") <= last))
        file = folder / "feed" / f"{number:03}.parquet"
        pq.write_table(part, file)
        os.utime(file, (number, number))  # Spark reads files in the order of these times
    return len(edges) - 1
