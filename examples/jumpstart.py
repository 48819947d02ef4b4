"""A query over long-lived events begins with a snapshot on disk, and goes on with the live stream.

The snapshot has all leases that began before noon, with the ends that were known then. The live stream begins at noon:
it tells every lease that lasts until then or longer, and what becomes of it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

import slackwater as sw

NOON = 12
LEASE = pa.schema({"start": pa.int64(), "end": pa.int64(), "user": pa.string()})
CHANGE = pa.schema([pa.field("change", pa.string()), *LEASE, pa.field("end_before", pa.int64())])

SNAPSHOT = [
    {"start": 3, "end": 5, "user": "ann"},
    {"start": 4, "end": 16, "user": "bob"},
    {"start": 9, "end": None, "user": "cid"},  # its end was not known
]
LIVE = [
    {"change": "insert", "start": 4, "end": 16, "user": "bob"},
    {"change": "insert", "start": 9, "end": None, "user": "cid"},
    {"change": "insert", "start": 13, "end": 18, "user": "dot"},
    {"change": "adjust", "start": 9, "end": 14, "end_before": None, "user": "cid"},
    {"change": "punctuate", "start": 15},
    {"change": "adjust", "start": 4, "end": 17, "end_before": 16, "user": "bob"},
    {"change": "punctuate", "start": 20},
]


def main() -> None:
    """Count the leases that were held at each hour, those of the morning included."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "leases.parquet"
        pa.parquet.write_table(pa.Table.from_pylist(SNAPSHOT, LEASE), path)
        seed = sw.stream(path, time="start", until="end")
        live = sw.changes(LIVE, time="start", until="end", schema=CHANGE)
        leases = sw.jumpstart(seed, live, since=NOON)
        print("what is told:")
        for row in leases.run().table.to_pylist():
            print(f"  {row['change']} {row['user']} [{row['start']}, {row['end']})")
        print("what it comes to:")
        for row in leases.settle().aggregate(held=sw.count()).run().table.to_pylist():
            print(f"  [{row['start']}, {row['end']}) {row['held']}")


if __name__ == "__main__":
    main()
