"""What users say of memory, and what a session says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from slackwater.errors import PlanError
from slackwater.runners.spark.state.memory import as_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Conf:
    """The settings of a session."""

    def __init__(self, **settings: str) -> None:
        self.settings = {f"spark.executor.{name}": value for name, value in settings.items()}

    @property
    def conf(self) -> _Conf:
        return self

    def get(self, name: str, default: None) -> str | None:
        return self.settings.get(name, default)


def _session(**settings: str) -> SparkSession:
    session: Any = _Conf(**settings)
    found: SparkSession = session
    return found


@pytest.mark.parametrize("given", ["much", "", "1.5GB", "12 parsecs", "-1", 0, -3, True, 2.5, b"1MB", "0MB"])
def test_what_is_no_size_is_refused(given: Any) -> None:
    """With what was given, and an example."""
    with pytest.raises(PlanError, match=r"(?s)memory= says how much.*got.*512MB"):
        as_memory(given)


def test_a_part_of_what_spark_gives_to_a_worker_is_taken_if_that_is_little() -> None:
    """Cores of an executor share it; a number alone counts mebibytes, as in Spark."""
    settings: dict[str, Any] = {"pyspark.memory": "2g"}
    assert as_memory(None, _session(**settings)) == 128 << 20
    assert as_memory(None, _session(**settings, cores="4")) == 32 << 20
    assert as_memory(None, _session(**{"pyspark.memory": "1024"})) == 64 << 20
    assert as_memory(None, _session(**{"pyspark.memory": "64g"})) == 512 << 20
    assert as_memory(None, _session()) == 512 << 20
    assert as_memory("2g", _session(**settings)) == 2 << 30
