"""What each way of counting has lost, misplaced and delayed, over the hours that all of them have closed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WAYS: Final = ("this query", "native watermarks")

_OURS: Final = """
CREATE TABLE said AS
SELECT
    'this query' AS who, $patiences[band + 1] AS patience, window_start AS hour, answer.carrier, flights, clock
FROM answer JOIN micro_batch USING (batch) JOIN message USING (sequence)
"""

_NATIVE: Final = """
INSERT INTO said
SELECT 'native watermarks' AS who, patience, window_start AS hour, answer.carrier, flights, clock
FROM read_parquet($answers) AS answer
JOIN read_parquet($read) USING (patience, batch)
JOIN message ON sequence = messages
"""

_BY_CELL: Final = """
CREATE TABLE cell AS
WITH
    listed AS (
        SELECT date_trunc('hour', departed) AS hour, carrier, count(*) AS flights FROM account GROUP BY ALL
    ),
    way AS (SELECT DISTINCT who, patience FROM said),
    expected AS (SELECT * FROM listed, way)
SELECT
    who, patience, hour, expected.flights AS listed, coalesce(said.flights, 0) AS told,
    said.flights IS NOT NULL AS is_told,
    (epoch(said.clock) - epoch(hour)) / 3600 - 1 AS waited
FROM expected FULL JOIN said USING (who, patience, hour, carrier)
WHERE hour < $closed
"""

_OUTCOMES: Final = """
SELECT
    who, patience,
    sum(listed)::BIGINT AS flights,
    sum(greatest(listed - told, 0))::BIGINT AS missing,
    sum(greatest(told - coalesce(listed, 0), 0))::BIGINT AS misplaced,
    quantile_cont(waited, 0.5) FILTER (is_told) AS median,
    quantile_cont(waited, 0.99) FILTER (is_told) AS most
FROM cell GROUP BY ALL
"""

_BY_DAY: Final = """
SELECT who, date_trunc('day', hour) AS day, sum(greatest(listed - told, 0))::BIGINT AS missing
FROM cell WHERE patience = $patience GROUP BY ALL ORDER BY ALL
"""

_LONGEST: Final = timedelta(days=2)


@dataclass(frozen=True)
class Outcome:
    """What a way of counting has done at a patience."""

    who: str
    patience: str
    flights: int
    missing: int
    misplaced: int
    """Counted in an hour in which they did not depart."""

    median: float
    """Hours of flights that an answer came behind the end of its hour."""

    most: float
    """The same of 99 in a hundred."""


def prepare(base: Any, folder: Path, patiences: Sequence[str], closed: datetime) -> None:
    """Put the answers of both beside the list, for the hours that all have closed."""
    base.execute(_OURS, {"patiences": list(patiences)})
    native = folder / "native"
    base.execute(_NATIVE, {name: str(native / name / "*.parquet") for name in ("answers", "read")})
    base.execute(_BY_CELL, {"closed": closed})


def closed_by_all(complete_before: datetime, end: datetime) -> datetime:
    """The hour before which everybody has answered, with the longest patience, too."""
    behind = min(complete_before, end - _LONGEST - timedelta(hours=1))
    return behind.replace(minute=0, second=0, microsecond=0)


def outcomes(base: Any, patiences: Sequence[str]) -> list[Outcome]:
    """One for each way and patience."""
    found = [Outcome(*row) for row in base.execute(_OUTCOMES).fetchall()]
    return sorted(found, key=lambda one: (WAYS.index(one.who), patiences.index(one.patience)))


def missing_by_day(base: Any, patiences: Sequence[str]) -> list[dict[str, Any]]:
    """How many flights of each day are missing in the final answers, of both."""
    rows = base.execute(_BY_DAY, {"patience": patiences[-1]}).fetchall()
    return [{"who": who, "day": day.isoformat(), "missing": missing} for who, day, missing in rows]
