"""Fills the figures that documents quote from the kept results of full benchmark runs, so that none is typed by hand.

In a Markdown table with a column `measured` and a column `figure`, the second names what the first shows:
    | what                           | measured | figure                                       |
    | nanoseconds per event          | 15 to 29 | `sort.whole_ns_least`, `sort.whole_ns_most`  |
Or the cell ends in a comment that names it, which readers of the document do not see:
    | nanoseconds per event          | 15 to 29 <!-- sort.whole_ns_least sort.whole_ns_most --> |

A figure is the name of a result file, a dot, and a name in its "figures", or machine.cpu and the like. Numbers are
rounded to two digits, and whole from ten on. Near a goal, in a column of that name, they have as many decimals as it
has: 1.1 says nothing of "at most 1.05". What has not been measured is shown as a dash. `make figures` fills all tables;
a test compares them with the results, and finds figures that stand outside of such tables.
"""

from __future__ import annotations

import json
import re
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
"""The documents that quote figures."""

NOT_MEASURED = "–"  # noqa: RUF001 - a dash, as typographers have it
_NAME = re.compile(r"`(\w+)\.([\w.]+)`")
_HIDDEN = re.compile(r"(?<=\|)[^|<]*<!-- ((?:\w+\.[\w.]+ )+)-->")
_GOAL = re.compile(r"\d+(?:\.\d+)?")
"""A number in a goal, which may be several: `≤ 1.05, ≥ 4`."""

_CLAIM = re.compile(r"\d[\d.,]*\s*(?:times|ns|ms|MiB|nanoseconds|milliseconds|M(?:illion)? e(?:vents|lements))\b")

Figures = dict[str, dict[str, float | str]]
"""By result file, by name."""


def main() -> None:
    """Fill all tables of all documents."""
    figures = kept(ROOT / "benchmarks" / "results")
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        document.write_text(filled(text, figures), encoding="utf-8")


def kept(folder: Path) -> Figures:
    """The figures of all result files, and what they were measured on."""
    found: Figures = {}
    for file in folder.glob("*.json"):
        results = json.loads(file.read_text(encoding="utf-8"))
        machine = {f"machine.{name}": str(value) for name, value in results["machine"].items()}
        found[file.stem] = {**results["figures"], **machine}
    return found


def filled(text: str, figures: Mapping[str, Mapping[str, float | str]]) -> str:
    r"""The document with every `measured` cell as its `figure` cell has it.

    >>> table = "| what | measured | figure |\n|---|--:|---|\n| speed | ? | `sort.slow`, `sort.fast` |\n"
    >>> print(filled(table, {"sort": {"slow": 0.651, "fast": 1234.5}}), end="")
    | what | measured | figure |
    |---|--:|---|
    | speed | 0.65, 1,234 | `sort.slow`, `sort.fast` |
    """

    def shown(names: list[tuple[str, str]], goal: str = "") -> str:
        return quoted([(f"{file}.{name}", figures.get(file, {}).get(name)) for file, name in names], goal)

    lines = text.split("\n")
    for at, cells, columns in _rows(lines):
        goal = cells[columns["goal"]] if "goal" in columns else ""
        cells[columns["measured"]] = f" {shown(_NAME.findall(cells[columns['figure']]), goal)} "
        lines[at] = "|".join(cells)
    return _HIDDEN.sub(lambda cell: f" {shown(_split(cell[1]))} <!-- {cell[1]}-->", "\n".join(lines))


def names_in(text: str) -> list[tuple[str, str]]:
    """Every figure that the tables of a document quote: its result file, and its name."""
    rows = _rows(text.split("\n"))
    seen = [name for _, cells, columns in rows for name in _NAME.findall(cells[columns["figure"]])]
    return [*seen, *(name for cell in _HIDDEN.finditer(text) for name in _split(cell[1]))]


def unquoted(text: str) -> list[str]:
    r"""Figures in the prose of a document: a number of times, nanoseconds and the like that no result stands behind.

    >>> unquoted("It is 2.5 times as fast.\n\n| in a table | 3 times |\n")
    ['It is 2.5 times as fast.']
    """
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in prose.split("\n") if not line.startswith("|") and _CLAIM.search(line)]


def quoted(values: Sequence[tuple[str, float | str | None]], goal: str = "") -> str:
    """Values as they are shown: the least and the most of something as a range, others one after the other.

    Where there are as many goals as values, each has its own; otherwise the first is that of all.

    >>> quoted([("a", 1.054), ("b", 1.26), ("c", 8.31)], "≤ 1.05"), quoted([("a", 1.054), ("b", 1.26)], "≤ 1.05, ≤ 2")
    ('1.05, 1.26, 8.3', '1.05, 1.3')
    """
    goals = _GOAL.findall(goal.replace(",", "")) or ["0"]  # 1,000 is one number
    goals = goals if len(goals) == len(values) else goals[:1] * len(values)
    beside = zip(values, goals, strict=True)
    shown = [NOT_MEASURED if value is None else rounded(value, its_goal) for (_, value), its_goal in beside]
    if len(values) == 2 and _is_range(*(name for name, _ in values)):
        return shown[0] if shown[0] == shown[1] else " to ".join(shown)
    return ", ".join(shown)


def _split(names: str) -> list[tuple[str, str]]:
    """The names in a comment: result file and figure of each.

    >>> _split("sort.ns s0.a.b ")
    [('sort', 'ns'), ('s0', 'a.b')]
    """
    found = (name.partition(".") for name in names.split())
    return [(file, figure) for file, _, figure in found]


def _is_range(first: str, second: str) -> bool:
    return "least" in first and first.replace("least", "most") == second


def rounded(value: float | str, goal: str = "0") -> str:
    """Two digits, and whole numbers from ten on; what is not quite 1 does not become 1.

    >>> [rounded(value) for value in (0.0727, 0.651, 0.9965, 1.505, 9.96, 14.6, 1234.5, 0, "AMD EPYC")]
    ['0.073', '0.65', '0.9965', '1.5', '10', '15', '1,234', '0', 'AMD EPYC']

    What is more than half of a goal, and less than twice as much, is as exact as that.

    >>> [rounded(value, "1.05") for value in (0.0727, 1.054, 1.7, 8.31)]
    ['0.073', '1.05', '1.70', '8.3']
    """
    if isinstance(value, str) or value == 0:
        return str(value)
    if 0.995 <= value < 1:
        return f"{value:.4f}"
    digits = _decimals(round(value, _decimals(value)))  # 9.96 becomes 10, which has a digit less behind the point
    if float(goal) / 2 < value < 2 * float(goal):
        digits = max(digits, len(goal.partition(".")[2]))
    return f"{round(value, digits):,.{digits}f}"


def _decimals(value: float) -> int:
    """How many decimals two digits have."""
    return max(0, 1 - floor(log10(abs(value))))


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str], dict[str, int]]]:
    """The rows of tables that quote: number of the line, cells, and which cell is which column."""
    columns: dict[str, int] = {}
    for at, line in enumerate(lines):
        if not line.startswith("|"):
            columns = {}
            continue
        cells: list[Any] = line.split("|")
        if not columns:
            columns = {cell.strip(): place for place, cell in enumerate(cells)}
            continue
        if {"measured", "figure"} <= columns.keys() and _NAME.search(cells[columns["figure"]]):
            yield at, cells, columns


if __name__ == "__main__":
    main()
