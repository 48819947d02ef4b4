"""The proof: each flight of the feed is in the final answers once, or kept as late, or in an hour that is still open.

Everything is compared with the list of flights itself, by plain SQL over what the run has left in its folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

_ACCOUNTS: Final = """
CREATE TABLE account AS
WITH
    published AS (SELECT number, count(*) AS messages FROM message GROUP BY number),
    counted AS (
        SELECT number, count(*) AS times, any_value(departed) AS departed, any_value(carrier) AS carrier
        FROM told GROUP BY number
    ),
    kept AS (SELECT DISTINCT number FROM (SELECT number FROM late UNION ALL SELECT number FROM ahead))
SELECT
    number, flight.departed, flight.carrier, messages,
    coalesce(times, 0) AS times,
    kept.number IS NOT NULL AS is_kept,
    flight.departed >= $complete_before AS is_open,
    times = 1 AND (counted.departed <> flight.departed OR counted.carrier <> flight.carrier) AS is_changed
FROM flight JOIN published USING (number) LEFT JOIN counted USING (number) LEFT JOIN kept USING (number)
"""

_FATES: Final = """
SELECT
    count(*) AS flights,
    count(*) FILTER (times = 1) AS once,
    count(*) FILTER (times = 0 AND is_kept) AS late,
    count(*) FILTER (times = 0 AND NOT is_kept AND is_open) AS still_open,
    count(*) FILTER (times = 0 AND NOT is_kept AND NOT is_open) AS lost,
    count(*) FILTER (times > 1) AS doubled,
    count(*) FILTER (is_changed) AS changed,
    count(*) FILTER (times > 0 AND is_open) AS too_soon
FROM account
"""

_WRONG_COUNTS: Final = """
WITH
    by_query AS (
        SELECT window_start AS hour, carrier, sum(flights) AS flights, count(*) AS answers
        FROM answer WHERE band = 2 GROUP BY ALL
    ),
    by_hand AS (
        SELECT date_trunc('hour', departed) AS hour, carrier, count(*) AS flights
        FROM account WHERE NOT (times = 0 AND is_kept) GROUP BY ALL
    )
SELECT count(*)
FROM by_query FULL JOIN by_hand USING (hour, carrier)
WHERE CASE
    WHEN hour + INTERVAL 1 hour <= $complete_before
    THEN by_query.flights IS DISTINCT FROM by_hand.flights OR answers > 1
    ELSE answers > 0
END
"""
"""How many hours and carriers have another count than the list, two answers, or one before its time."""

_TWO_ANSWERS: Final = """
SELECT count(*) FROM (SELECT 1 FROM answer GROUP BY band, window_start, carrier HAVING count(*) > 1)
"""
_STRANGERS: Final = "SELECT count(*) FROM told WHERE number NOT IN (SELECT number FROM account)"
_UNPUBLISHED: Final = """
SELECT count(*) FROM flight WHERE number NOT IN (SELECT number FROM message) AND landed < $heard_before
"""


@dataclass(frozen=True)
class Proof:
    """What became of all flights."""

    flights: int
    """Those that somebody has published."""

    once: int
    """In the final answers, once."""

    late: int
    """In a table of late rows, and in no answer."""

    still_open: int
    complete_before: datetime
    answers: int
    """Final ones, each of which agrees with the list."""

    faults: dict[str, int]
    """What there should be none of."""

    @property
    def holds(self) -> bool:
        """Whether every flight is there exactly once."""
        return not any(self.faults.values()) and self.once + self.late + self.still_open == self.flights


def proof_of(base: Any, folder: Path, end: datetime) -> Proof:
    """Look at every flight."""
    standing = json.loads((folder / "standing.json").read_text())
    complete_before = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=standing["complete_before"])
    known = {"complete_before": complete_before}
    base.execute(_ACCOUNTS, known)
    fates = base.execute(_FATES).fetchone()
    flights, once, late, still_open, lost, doubled, changed, too_soon = fates
    heard_before = {"heard_before": end - timedelta(minutes=15)}  # green asks every quarter of an hour
    faults = {
        "lost": lost,
        "counted twice": doubled,
        "changed": changed,
        "final too soon": too_soon,
        "invented": _number(base, _STRANGERS),
        "wrong counts": _number(base, _WRONG_COUNTS, known),
        "answers given twice": _number(base, _TWO_ANSWERS),
        "never published": _number(base, _UNPUBLISHED, heard_before),
    }
    answers = _number(base, "SELECT count(*) FROM answer WHERE band = 2")
    return Proof(flights, once, late, still_open, complete_before, answers, faults)


def _number(base: Any, question: str, known: dict[str, datetime] | None = None) -> int:
    (found,) = base.execute(question, known).fetchone()
    return int(found)
