"""A driver of its own for tests of crashes: main rows to a Delta table, late rows to one of PostgreSQL.

    python drive_tables.py FOLDER SERVER [PLACE MICRO_BATCH]

The folder holds `in`; `checkpoint` and `delta` are made in it, and `late` on the server. With a place the driver comes
to a halt there in that micro-batch, makes `halted`, and waits to be killed. Places are

    files of delta      the files of the micro-batch are written, and no version of the table names them
    delta               the table has the micro-batch
    rows of postgres    its rows are at the server, and not committed
    postgres            the server has the micro-batch; nothing is left but that Spark commits it
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import small_query
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.runners.spark.output.delta_table import DeltaTarget
from slackwater.runners.spark.output.postgres_session import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

PLACES = ("files of delta", "delta", "rows of postgres", "postgres")
"""In the order in which they are come to."""


@dataclass(frozen=True)
class Halting:
    """A sink that comes to a halt: `within`, at the call that is passed to it, or when it has written."""

    inner: Any
    halt: Callable[[str, int], None]
    name: str

    def for_rows(self, *rows: Any) -> Halting:
        """The sink for some rows."""
        return replace(self, inner=self.inner.for_rows(*rows))

    def claimed(self, *start: Any) -> Halting:
        """Claim the table."""
        return replace(self, inner=self.inner.claimed(*start))

    def take(self, session: Any) -> Halting:
        """Take it."""
        return replace(self, inner=self.inner.take(session))

    def write(self, rows: Any, batch_id: int) -> None:
        """Write the rows of a micro-batch, by tasks or in pieces."""
        _NOW["batch"] = batch_id
        self.inner.write(rows, batch_id)
        self.halt(self.name, batch_id)

    def write_few(self, tables: Any, columns: Any, session: Any, batch_id: int) -> bool:
        """Let the driver write the first micro-batch, and Spark the second, and so on."""
        _NOW["batch"] = batch_id
        done = batch_id % 2 == 0 and bool(self.inner.write_few(tables, columns, session, batch_id))
        if done:
            self.halt(self.name, batch_id)
        return done


_NOW = {"batch": -1}
"""The micro-batch that is written."""


def sinks(folder: Path, server: str) -> dict[str, Any]:
    """Where the query writes."""
    return {"main": sw.DeltaSink(folder / "delta"), "late": sw.PostgresSink(server, "late")}


def main(folder: Path, server: str, place: str = "", number: str = "-1") -> None:
    """Do what the command line says."""

    def halt(at: str, micro_batch: int) -> None:
        if (at, micro_batch) == (place, int(number)):
            (folder / "halted").touch()
            while True:
                time.sleep(1)

    require, commit = DeltaTarget.last_batch, Transaction.commit

    def committed(self: Transaction) -> None:
        halt("rows of postgres", _NOW["batch"])
        commit(self)

    def looked_at(self: DeltaTarget, table: Any) -> int | None:
        """What is asked last before a commit, of which the files are there if tasks have written them."""
        if len(list((folder / "delta").glob("*.parquet"))) > len(table.file_uris()):
            halt("files of delta", _NOW["batch"])
        return require(self, table)

    Transaction.commit, DeltaTarget.last_batch = committed, looked_at  # type: ignore[method-assign]
    places = {"main": "delta", "late": "postgres"}
    halting: dict[str, Any] = {
        output: Halting(sink, halt, places[output]) for output, sink in sinks(folder, server).items()
    }
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    small_query.run(session, folder, **halting)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
