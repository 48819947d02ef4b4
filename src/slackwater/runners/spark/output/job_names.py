"""Names for the jobs of Spark that a micro-batch runs, so that its UI says what they are for.

Spark describes all jobs of a query alike, by its name and ids. Here the description says what a job does: it stands
with jobs, stages and SQL queries in the UI. The group of the jobs stays Spark's own: by it a query is cancelled; and so
do the names of stages, which PySpark sets itself, by the line that called it.

It is a property of the thread that runs the query, and is put back as it was. Over Spark Connect sinks run in
another process, where nobody can set it; there Spark's own descriptions stay.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION: Final = "spark.job.description"


@contextmanager
def jobs_named(session: SparkSession, query: str, batch_id: int, what: str) -> Iterator[None]:
    """Let the jobs that are run inside be described by what they do."""
    java: Any = getattr(session, "_jsc", None)
    if java is None:
        yield
        return
    before = java.getLocalProperty(_DESCRIPTION)
    java.setLocalProperty(_DESCRIPTION, f"{query}: micro-batch {batch_id}, {what}")
    try:
        yield
    finally:
        java.setLocalProperty(_DESCRIPTION, before)  # none removes it
