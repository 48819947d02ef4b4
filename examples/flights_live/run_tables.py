"""What a run has left in its folder, as tables of DuckDB: the flights, the feed, and what the query has written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def opened(folder: Path) -> Any:
    """Everything in one place.

    - `flight`: the list itself; `message`: what was published, and how far the clock of the feed had come by then;
    - `told`, `answer`, `ahead`, `late`: the Delta tables of the query, answers with their micro-batches;
    - `micro_batch`: up to which message each of them has read.
    """
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    delta = {"told": "flights", "ahead": "ahead", "late": "late"}
    tables = {name: DeltaTable(folder / table).to_pyarrow_table() for name, table in delta.items()}
    tables["flight"] = pq.read_table(folder / "flights.parquet")
    tables["feed"] = pq.read_table(folder / "feed")
    tables["answer"] = pa.concat_tables(answers_of(folder))
    tables["micro_batch"] = pa.Table.from_pylist(list(micro_batches_of(folder)))
    for name, table in tables.items():
        base.register("given", table)
        base.execute(f"CREATE TABLE {name} AS SELECT * FROM given")  # noqa: S608 - our own names
    base.execute("CREATE TABLE message AS SELECT *, max(heard) OVER (ORDER BY sequence) AS clock FROM feed")
    return base


def micro_batches_of(folder: Path) -> Iterator[dict[str, int]]:
    """Up to which message each micro-batch of the query has read, by its checkpoint."""
    for entry in (folder / "checkpoint" / "offsets").iterdir():
        if entry.name.isdecimal():
            offset = json.loads(entry.read_text().splitlines()[-1])
            yield {"batch": int(entry.name), "sequence": offset["at"]["sequence"]}


def answers_of(folder: Path) -> Iterator[pa.Table]:
    """The answers of each version of their table, with the number of the micro-batch, which the version remembers."""
    table = folder / "answers"
    for version in sorted((table / "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in version.read_text().splitlines()]
        numbers = [one["txn"]["version"] for one in actions if "txn" in one]
        for added in (one["add"] for one in actions if "add" in one):
            rows = pq.read_table(table / added["path"])
            yield rows.append_column("batch", pa.array(numbers * rows.num_rows, pa.int64()))
