"""How many shards a query has, if its user does not say: as before, if it has run before, else one for each core.

The number is part of what a checkpoint is compared with. A cluster has more cores on one day than on another, so a
query that is started again takes the number from its checkpoint.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_MOST: Final = 4_096
"""Shards that a query has at most unless somebody says how many."""

_UNLIMITED: Final = 2**31 - 1
"""What Spark takes for no limit."""


def default_shards(session: SparkSession) -> int:
    """As many shards as Spark runs tasks at once: of a local session its cores, of a cluster those of all executors.

    Of executors that come as they are needed those count that there may be, if that is limited, and else those that are
    there now: say how many shards there are to be, then, or `rescale=True` later.
    """
    return cores_of(session) or min(tasks_allowed(session.conf.get) or _tasks_at_once(session), _MOST)


def cores_of(session: SparkSession) -> int | None:
    """The cores of a local session that says how many it has; None of any other, which must be asked by a job."""
    local = re.fullmatch(r"local(?:\[(\d+)(?:,\s*\d+)?\])?", str(session.conf.get("spark.master", "")))
    return int(local[1] or 1) if local is not None else None


def tasks_allowed(setting: Callable[[str, str], str | None]) -> int | None:
    """How many tasks run at once when all executors are there that may come as needed; None if nothing limits them.

    >>> settings = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "6"}
    >>> (
    ...     tasks_allowed(settings.get),
    ...     tasks_allowed({**settings, "spark.executor.cores": "4", "spark.task.cpus": "2"}.get),
    ... )
    (6, 12)
    >>> tasks_allowed({"spark.executor.cores": "4"}.get) is None
    True
    """
    if setting("spark.dynamicAllocation.enabled", "false") != "true":
        return None
    executors = int(setting("spark.dynamicAllocation.maxExecutors", "") or _UNLIMITED)
    cores, each = (int(setting(name, "") or 1) for name in ("spark.executor.cores", "spark.task.cpus"))
    return executors * (cores // each) if executors < _UNLIMITED else None


def _tasks_at_once(session: SparkSession) -> int:
    """How many tasks Spark runs at once now; over Connect, how many partitions it gives to rows by itself."""
    from pyspark.sql import functions

    # It also waits for an executor, if none has come yet.
    parts = session.range(_MOST).select(functions.spark_partition_id().alias("part")).toArrow()
    java: Any = getattr(session, "_jsparkSession", None)
    if java is None:
        return 1 + max(parts.column("part").to_pylist())
    # Partitions go by `spark.default.parallelism`, where somebody has set it, and are two at least.
    context = java.sparkContext()
    return max(int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())), 1)
