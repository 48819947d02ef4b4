"""slackwater profile: how disordered the rows of files are, and what to set for a stream like them."""

from __future__ import annotations

import json as json_format
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from slackwater.profiling.profile import profile
from slackwater.sources.delta import is_delta_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def profile_command(
    path: str,
    /,
    *,
    time: str,
    arrived: Annotated[str | None, Parameter(alias="--arrival")] = None,
    origin: Annotated[str | None, Parameter(alias="--by")] = None,
    epoch: Literal["s", "ms", "us", "ns"] | None = None,
    table: str | None = None,
    first: float = 0.7,
    copies: bool = True,
    html: str | None = None,
    json: bool = False,
) -> None:
    """Measure how disordered recorded rows are, and advise.

    Parameters
    ----------
    path
        A Parquet, CSV or JSON-lines file, a folder of one of these, a Delta table, or a file of DuckDB.
    time
        The column of event times.
    arrived
        The column that says when each row arrived; without it rows arrived as they stand.
    origin
        The column that says from where each row is.
    epoch
        Whole numbers in these columns are time since 1970, in this unit.
    table
        Which table of a file of DuckDB, where it has several.
    first
        Advice is tried out: made from this part of the rows, and counted on the rest.
    copies
        Look for rows that came more than once; for that all columns are read.
    html
        Write a page with pictures to this file, too. It opens without a network.
    json
        Print all numbers as JSON.
    """
    with _bar(path) as advance:
        found = profile(
            path,
            time=time,
            arrived=arrived,
            origin=origin,
            epoch=epoch,
            table=table,
            first=first,
            copies=copies,
            on_rows=advance,
        )
    if html is not None:
        found.write_html(html)
    sys.stdout.write(json_format.dumps(found.to_dict(), default=str) if json else str(found))
    sys.stdout.write("\n")


@contextmanager
def _bar(path: str) -> Iterator[Callable[[int], None] | None]:
    """A bar that moves as rows are read, where somebody looks at it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=_rows_of(Path(path)))
        yield lambda rows: progress.advance(task, rows)


def _rows_of(path: Path) -> int | None:
    """How many rows there are, where that is known before they are read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if is_delta_table(path):
        return None  # it has files of older versions, too
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    try:
        return sum(pq.read_metadata(file).num_rows for file in files) if files else None
    except (OSError, pa.ArrowException):
        return None  # it is refused where it is read, with the reason
