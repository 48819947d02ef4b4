"""What became of the rows of replicas that did not go out of their merge.

Every row that a merge takes in is counted once. At any time

    rows in = events in the output + unsent + duplicates + contradicted + passed over + revised

where the events in the output are the rows out less the `corrections` among them: where nothing is revised, all rows
out. Rows of a replica that is detached are not taken in, and counted as ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many rows did not go out, by what became of them.

    >>> LeftOut(duplicates=2) + LeftOut(duplicates=1, contradicted=4)
    LeftOut(duplicates=3, contradicted=4, passed_over=0, revised=0, corrections=0, unsent=0)
    """

    duplicates: int = 0
    """Rows of events that the merge had already, held or emitted."""

    contradicted: int = 0
    """Rows of events that are not in the output: the replica that led lacked them, or who had them was detached."""

    passed_over: int = 0
    """Rows that came when the output had passed their time. They were emitted before, or the replica that led lacked
    them: nothing is remembered that would show which."""

    revised: int = 0
    """Rows that changed an event of a replica or took it back, and rows that were taken back before they went out."""

    corrections: int = 0
    """Rows out that add no event to the output: adjusts, and the inserts that some of them take back."""

    unsent: int = 0
    """Rows that wait: they go out, or are left out, later."""

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(LeftOut)))

    def described(self) -> str:
        """The counts, but for zeros, of rows that may be missing in the output, to be put behind something.

        >>> LeftOut(duplicates=2, contradicted=3, passed_over=1).described()
        ', 3 contradicted, 1 passed over'
        """
        names = ("contradicted", "passed_over")
        counts = ((getattr(self, name), name.replace("_", " ")) for name in names)
        return "".join(f", {count} {name}" for count, name in counts if count)

    @property
    def total(self) -> int:
        """How many rows in are not in the output; those that wait are among them."""
        return self.duplicates + self.contradicted + self.passed_over + self.revised + self.unsent


NONE_LEFT_OUT = LeftOut()
"""The counts of an operator that leaves no rows of replicas out."""
