"""What Spark is asked of a narrow frame, answered by a look at each row: the oracle of its part of a profile."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.profiling.slices import ROWS, SOURCES_BEFORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Row = tuple[int | None, int, str | None, int]
    """Time, arrival, source, and what else is in it."""


@dataclass(frozen=True)
class RowsInProcess:
    """As NarrowFrame."""

    rows: list[Row]

    @property
    def timed(self) -> list[tuple[int, int, str | None, int]]:
        """Rows that have a time."""
        return [(at, came, who, what) for at, came, who, what in self.rows if at is not None]

    def facts(self) -> dict[str, Any]:
        """Of all rows."""
        times, came = [row[0] for row in self.timed], sorted(row[1] for row in self.timed)
        delays = [_delay(row) for row in self.timed]
        return {
            "rows": len(self.rows),
            "timed": len(times),
            "unknown": 0,
            "oldest": min(times),
            "newest": max(times),
            "first": came[0],
            "last": came[-1],
            "ahead": sum(one < 0 for one in delays),
            "least_delay": min(delays),
            "marks": [came[-(-len(came) * number // 1_000) - 1] for number in range(1, 1_000)],
        }

    def sources(self) -> pa.Table:
        """Rows and delays of each source."""
        found: list[dict[str, Any]] = []
        for who in {row[2] for row in self.timed}:
            delays = sorted(_delay(row) for row in self.timed if row[2] == who)
            found.append(
                {"who": who, "rows": len(delays), "least": delays[0], "median": delays[(len(delays) - 1) // 2]}
            )
        return pa.Table.from_pylist(sorted(found, key=lambda one: -one["rows"]))

    def first(self, rows: int, without: Sequence[str | None]) -> pa.Table:
        """Those that came first."""
        chosen = sorted((row[1], row[0], row[2] or "", row[2]) for row in self.timed if row[2] not in without)[:rows]
        return pa.Table.from_pylist([{"at": at, "came": came, "who": who} for came, at, _, who in chosen], ROWS)

    def copies(self) -> dict[str, Any]:
        """Rows that are the same."""
        kinds = defaultdict(list)
        for row in self.timed:
            kinds[row[0], row[3]].append(row)
        shared: dict[str | None, int] = defaultdict(int)
        for its in kinds.values():
            for row in its:
                shared[row[2]] += len({one[2] for one in its}) > 1
        return {
            "repeats": len(self.timed) - len(kinds),
            "longest": max(max(row[1] for row in its) - min(row[1] for row in its) for its in kinds.values()),
            "shared": pa.table({"who": pa.array(list(shared), pa.string()), "rows": list(shared.values())}),
        }

    def slices(self, ends: Sequence[int]) -> SlicesInProcess:
        """Rows by their slice."""
        cut: dict[int, list[tuple[int, int, str | None]]] = defaultdict(list)
        for at, came, who, _ in self.timed:
            cut[sum(end < came for end in ends)].append((at, came, who))
        return SlicesInProcess(dict(sorted(cut.items())))


@dataclass(frozen=True)
class SlicesInProcess:
    """As Slices."""

    rows: dict[int, list[tuple[int, int, str | None]]]

    def facts(self, wrong: Sequence[str | None]) -> list[dict[str, Any]]:
        """Of each slice."""
        found = []
        for number, rows in self.rows.items():
            sound = [row for row in rows if row[2] not in wrong]
            found.append(
                {
                    "slice": number,
                    "newest": max(row[0] for row in rows),
                    "sound_rows": len(sound),
                    "newest_sound": max((row[0] for row in sound), default=None),
                    "first_sound": min((row[1] for row in sound), default=None),
                }
            )
        return found

    def newest_of(self, sources: Sequence[str | None]) -> pa.Table:
        """By slice and source."""
        found = [
            {"slice": number, "who": who, "newest": max(row[0] for row in rows if row[2] == who)}
            for number, rows in self.rows.items()
            for who in {row[2] for row in rows} & set(sources)
        ]
        return pa.Table.from_pylist(found)

    def summaries(self, look: Callable[[int, pa.Table, pa.Table], list[bytes]], tables: int) -> list[list[bytes]]:
        """What a look at each slice finds."""
        found = []
        for number, rows in reversed(self.rows.items()):  # in any order
            table = pa.Table.from_pylist([dict(zip(ROWS.names, row, strict=True)) for row in rows], ROWS)
            earlier = [row for before, its in self.rows.items() if before < number for row in its]
            of_sources = [
                {
                    "who": who,
                    "newest": max(row[0] for row in earlier if row[2] == who),
                    "last": max(row[1] for row in earlier if row[2] == who),
                }
                for who in {row[2] for row in rows} & {row[2] for row in earlier}
            ]
            found.append(look(number, table, pa.Table.from_pylist(of_sources, SOURCES_BEFORE)))
            assert len(found[-1]) == tables
        return found


def _delay(row: tuple[int, int, str | None, int]) -> int:
    return min(max(row[1] - row[0], -(2**63)), 2**63 - 1)
