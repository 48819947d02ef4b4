"""How many shards a query has, if its user does not say: as before, if it has run before, else one for each core.

The number is part of what a checkpoint is compared with. A cluster has more cores on one day than on another, so a
query that is started again takes the number from its checkpoint.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from slackwater.runners.spark.settings import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST: Final = 4_096
"""Shards that a query has at most unless somebody says how many."""


def shards_before(session: SparkSession, checkpoint: str) -> int | None:
    """How many partitions the state of a query has that was started with this checkpoint before; None if none was."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions

    stored = functions.regexp_extract("value", rf'"{re.escape(PARTITIONS)}":"(\d+)"', 1).alias("stored")
    try:
        found = session.read.text(f"{checkpoint}/offsets").select(stored).where("stored != ''").limit(1).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return int(found[0].stored) if found else None


def default_shards(session: SparkSession) -> int:
    """As many shards as Spark runs tasks at once: of a local session its cores, of a cluster those of all executors.

    Only what runs now counts. Where executors come as they are needed, say how many shards there are to be.
    """
    return cores_of(session) or _tasks_at_once(session)


def cores_of(session: SparkSession) -> int | None:
    """The cores of a local session that says how many it has; None of any other, which must be asked by a job."""
    local = re.fullmatch(r"local(?:\[(\d+)(?:,\s*\d+)?\])?", str(session.conf.get("spark.master", "")))
    return int(local[1] or 1) if local is not None else None


def _tasks_at_once(session: SparkSession) -> int:
    """How many partitions Spark gives to rows if nobody says how many; asked by a job, the only way over Connect."""
    from pyspark.sql import functions

    parts = session.range(_MOST).select(functions.spark_partition_id().alias("part")).toArrow()
    return 1 + max(parts.column("part").to_pylist())
