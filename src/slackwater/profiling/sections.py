"""Sections of a page: a title, and below it texts, tables and pictures, in the order in which they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from slackwater.errors import PlanError, message

Part: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""A text; a table, as one mapping for each row; or a picture, as Vega-Lite."""


class Section:
    """What stands below one title."""

    def __init__(self, title: str, *parts: Part) -> None:
        self.title = title
        self.parts = parts


def sections_of(given: Mapping[str, Sequence[Any]]) -> Iterator[Section]:
    """What a user gives, read: by title the parts, of which pictures may be charts of Altair.

    >>> [section.title for section in sections_of({"Found": ["three rows", [{"at": 1}, {"at": 2}]]})]
    ['Found']
    """
    for title, parts in given.items():
        if isinstance(parts, str | Mapping):
            hint = f"write a list of its parts: {{{title!r}: [...]}}"
            raise PlanError(message("a section of a page is a list", {"section": title}, hint))
        yield Section(title, *(_part_of(title, part) for part in parts))


def html_of(section: Section, place_of: Callable[[Mapping[str, Any]], str]) -> str:
    """A section as HTML, with numbers at the right; `place_of` keeps a picture and says by which name it will be found.

    >>> print(html_of(Section("Rows", "<b> is text", [{"at": 1200, "by": "a"}]), str))
    <h2>Rows</h2>
    <p>&lt;b&gt; is text</p>
    <table>
    <tr><th class="number">at</th><th>by</th></tr>
    <tr><td class="number">1,200</td><td>a</td></tr>
    </table>
    """
    return "\n".join([f"<h2>{escape(section.title)}</h2>", *(_html(part, place_of) for part in section.parts)])


def _html(part: Part, place_of: Callable[[Mapping[str, Any]], str]) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Mapping):
        return f'<div id="{place_of(part)}"></div>'
    names = list(dict.fromkeys(name for row in part for name in row))
    columns = {name: [_shown(row.get(name)) for row in part] for name in names}
    kinds = {name: ' class="number"' if _are_numbers(columns[name]) else "" for name in names}
    head = "".join(f"<th{kinds[name]}>{escape(name)}</th>" for name in names)
    rows = [
        "".join(f"<td{kinds[name]}>{escape(columns[name][row])}</td>" for name in names) for row in range(len(part))
    ]
    return "\n".join(["<table>", *(f"<tr>{cells}</tr>" for cells in (head, *rows)), "</table>"])


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether all begin with a digit or a sign, with a unit behind or not, but for those that are empty."""
    return any(cells) and all(cell.lstrip("+-")[:1].isdigit() for cell in cells if cell)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _part_of(title: str, part: Any) -> Part:
    drawn = part.to_dict() if hasattr(part, "to_dict") else part
    is_table = isinstance(drawn, list | tuple) and all(isinstance(row, Mapping) for row in drawn)
    if is_table or isinstance(drawn, str | Mapping):
        return drawn
    hint = "give a text, a list of mappings for a table, or a chart of Altair"
    raise PlanError(message("this cannot stand on a page", {"section": title, "got": repr(type(part).__name__)}, hint))
