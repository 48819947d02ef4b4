"""A driver of its own for tests: runs random plans over Spark Connect, as streams and over frames that end.

    python drive_equality.py FOLDER SEED...

A folder is made for each seed. `in` holds the files of its sources. `stream` gets what each output gave in each
micro-batch, and `batch` what frames that end gave; or `stream failed` and `batch failed` say why there is none.
"""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from connected import connected_session
from without_spark import all_outputs, sources_of_late_rows

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.spark import SparkQuery

# Not imported: what workers are sent must not refer to a module that they cannot find.
_PLANS = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("random_plans.py"))))

_AT_ONCE = 2
"""How many queries run at the same time.

One alone waits for files and processes half of the time. Each starts a process of Python that has ten seconds to answer
Spark: with too many at once it does not get there.
"""


def run(session: SparkSession, folder: Path, seeds: Sequence[int]) -> None:
    """Run the plans of all seeds, some of them at once; what fails is noted, and the others go on."""
    for first in range(0, len(seeds), _AT_ONCE):
        cases = {folder / str(seed): _PLANS.Case(seed) for seed in seeds[first : first + _AT_ONCE]}
        queries: dict[Path, SparkQuery] = {}
        for place, case in cases.items():
            with _noted(place / "stream failed"):
                queries[place] = _started(session, place, case)
        for place, case in cases.items():
            with _noted(place / "batch failed"):
                _keep(place / "batch" / "0.arrow", _of_frames_that_end(session, case))
        for place, query in queries.items():
            with _noted(place / "stream failed"):
                query.wait()


@contextmanager
def _noted(file: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, the test that reads it fails, unless it expects it
        file.write_text(f"{type(error).__name__}: {error}")


# ---- streams ---------------------------------------------------------------------------------------------------------


def _started(session: SparkSession, folder: Path, case: Any) -> SparkQuery:
    for number, tables in enumerate(case.cuts):  # all before the query starts, which would take what is there
        _write_files(folder / "in" / str(number), tables)
    sources = [_streaming(session, folder / "in" / str(number), case, number) for number in range(len(case.cuts))]
    streams = case.planned(_streams(sources), every=None if case.leaves_the_cadence_out else sw.Every.batch())
    sinks = {output: _sink(folder / "stream" / output) for output in all_outputs(streams)}
    main = [(stream, sinks.pop(f"main {number}")) for number, stream in enumerate(streams)]
    query: SparkQuery = sw.start_together(
        main,
        checkpoint=str(folder / "checkpoint"),
        late=_as_users_name_them(streams, sinks),
        trigger={"availableNow": True},
        shards=case.shards,
    )
    return query


def _write_files(folder: Path, tables: Sequence[pa.Table]) -> None:
    """Write a file per cut, in their order of arrival: Spark goes by the times of the files."""
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        file = folder / f"{number}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000 + number, 1_000 + number))


def _streaming(session: SparkSession, folder: Path, case: Any, source: int) -> Any:
    """One file for each micro-batch. All sources have as many, so that the cuts are those that are run in process."""
    columns = f"at {'timestamp' if case.times.calendar else 'long'}, k string, x double, n long"
    if case.is_read_by_arrow(source):
        return sw.parquet_files(session, str(folder), schema=columns, maxFilesPerTrigger=1)
    return session.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _streams(sources: Sequence[Any]) -> list[sw.DisorderedStream]:
    return [sw.stream(source, time="at", name=f"source {number}") for number, source in enumerate(sources)]


def _as_users_name_them(streams: Sequence[Any], late: dict[str, Any]) -> Any:
    """One sink for late rows, or one for each source that has some; for each step where one source has several."""
    if len(late) < 2:
        return next(iter(late.values()), None)
    sources = sources_of_late_rows(streams)
    return dict(zip(sources, late.values(), strict=True)) if len(set(sources)) == len(late) else late


def _sink(folder: Path) -> Callable[[DataFrame, int], None]:
    return lambda rows, batch_id: _keep(folder / f"{batch_id}.arrow", rows.toArrow())


def _keep(file: Path, rows: pa.Table) -> None:
    """Write rows in their order and in their types: Parquet has no durations."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(file), "wb") as target, pa.ipc.new_file(target, rows.schema) as writer:
        writer.write_table(rows)


# ---- frames that end -------------------------------------------------------------------------------------------------


def _of_frames_that_end(session: SparkSession, case: Any) -> pa.Table:
    """What one output of the plan gives. Spark cuts the rows to several tasks."""
    frames = [session.createDataFrame(table) for table in case.whole]
    (stream,) = case.planned(_streams(frames), one_output=True)
    return stream.to_spark(shards=case.shards).toArrow()


if __name__ == "__main__":
    session = connected_session()
    run(session, Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]])
    session.stop()
