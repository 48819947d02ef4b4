"""How often a step punctuates: every so many rows, every so much application time, or with each batch.

The instants that a cadence names are places in the stream, not moments of a clock. Those of rows and of time do not
depend on how the stream was cut into batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING

from slackwater.errors import BadDuration, PlanError, message
from slackwater.progress.instants import FOREVER, Duration, as_duration, format_duration

if TYPE_CHECKING:
    from slackwater.policies.punctuations import Length

_INSTANTS_PER_PATIENCE = 10  # a row waits a tenth longer than it must, at most


class CadenceUnit(Enum):
    """What a cadence counts."""

    ROWS = "rows"
    TIME = "time"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Cadence:
    """A cadence in the units of one stream: `length` is a number of rows, or a duration; 1 for batches."""

    unit: CadenceUnit
    length: int


@dataclass(frozen=True, slots=True)
class Every:
    """When punctuations are made, as users write it."""

    unit: CadenceUnit
    length: Length = 1
    by_default: bool = field(default=False, compare=False)
    """Whether nobody chose it, so that a runner may have a better one."""

    @classmethod
    def rows(cls, n: int) -> Every:
        """After every n-th row, late rows included. Choose it when rows come in steadily and times do not.

        >>> str(Every.rows(1_000))
        'every 1000 rows'
        """
        if isinstance(n, bool) or not isinstance(n, int) or not 0 < n <= FOREVER:
            raise PlanError(message("Every.rows needs a whole number of rows above zero", {"got": repr(n)}))
        return cls(CadenceUnit.ROWS, n)

    @classmethod
    def time(cls, length: Length) -> Every:
        """Whenever the newest time passes into another multiple of the length. The right choice for most streams.

        >>> str(Every.time("0.5s"))
        'every 500ms'
        """
        if not as_duration(length, calendar=not isinstance(length, int)):
            raise BadDuration(message("Every.time needs a length above zero", {"got": repr(length)}))
        return cls(CadenceUnit.TIME, length)

    @classmethod
    def batch(cls) -> Every:
        """After the last row of each arriving batch, so that no row is late against another of its batch.

        Choose it when batches mean something, such as the micro-batches of Spark. Which rows are late then depends on
        how the stream was cut.

        >>> str(Every.batch())
        'every batch'
        """
        return cls(CadenceUnit.BATCH)

    def resolved(self, *, calendar: bool) -> Cadence:
        """Return the cadence in the units of a stream; refuse a length of the other kind of time.

        >>> Every.time("1s").resolved(calendar=True).length
        1000000
        """
        if self.unit is CadenceUnit.TIME:
            return Cadence(self.unit, as_duration(self.length, calendar=calendar))
        assert isinstance(self.length, int)
        return Cadence(self.unit, self.length)

    def __str__(self) -> str:
        if self.unit is CadenceUnit.BATCH:
            return "every batch"
        if self.unit is CadenceUnit.ROWS:
            return f"every {self.length} rows"
        plain = isinstance(self.length, int)
        return f"every {self.length if plain else format_duration(as_duration(self.length, calendar=True))}"


def default_cadence(patience: Duration, *, calendar: bool) -> Every:
    """Choose a cadence for a patience in the units of the stream: ten punctuations while a row may wait.

    >>> str(default_cadence(5_000_000, calendar=True)), str(default_cadence(3, calendar=False))
    ('every 500ms', 'every 1')
    """
    length = max(1, patience // _INSTANTS_PER_PATIENCE)
    return replace(Every.time(timedelta(microseconds=length) if calendar else length), by_default=True)
