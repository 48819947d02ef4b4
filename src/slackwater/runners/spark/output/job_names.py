"""Names for the jobs of Spark that a micro-batch runs, so that its UI says what they are for.

Spark describes all jobs of a query alike, by its name and ids. Here the description says what a job does: it stands
with jobs, stages and SQL queries in the UI, and as the name of stages in its logs and its REST interface. The group of
the jobs stays Spark's own: by it a query is cancelled.

They are properties of the thread that runs the query, and are put back as they were. Over Spark Connect sinks run in
another process, where nobody can set them; there Spark's own descriptions stay.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION: Final = "spark.job.description"
_CALL_SITE: Final = "callSite.short"
"""What Spark calls a stage."""


@contextmanager
def jobs_named(session: SparkSession, query: str, batch_id: int, what: str) -> Iterator[None]:
    """Let the jobs that are run inside be described by what they do."""
    java: Any = getattr(session, "_jsc", None)
    if java is None:
        yield
        return
    names = {_DESCRIPTION: f"{query}: micro-batch {batch_id}, {what}", _CALL_SITE: f"{query}: {what}"}
    before = {name: java.getLocalProperty(name) for name in names}
    for name, text in names.items():
        java.setLocalProperty(name, text)
    try:
        yield
    finally:
        for name, earlier in before.items():
            java.setLocalProperty(name, earlier)  # none removes it
