"""Plans that race do so in process; Spark's streams are refused with the reason."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.source import SparkFeed


def test_plans_on_spark_do_not_race() -> None:
    """There none falls behind; the refusal names what to write instead."""
    feed: Any = SparkFeed("frame", pa.schema({"at": pa.int64()}), live=True)
    ordered = sw.stream(feed, time="at").sort(5)
    with pytest.raises(PlanError, match=r"(?s)not on Spark.*take a micro-batch together.*merge_replicas"):
        sw.Race(ordered, ordered.select())
