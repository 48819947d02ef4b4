"""HTML that notebooks show for streams, results and profiles. Every text is escaped: rows and names are other people's.

Nothing here knows what it shows; each class says in `_repr_html_` what is worth a look.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def block(title: str, *parts: str) -> str:
    """A title in bold, and what was made by the functions below it.

    >>> block("<Query>")
    '<div><b>&lt;Query&gt;</b></div>'
    """
    return f"<div><b>{escape(title)}</b>{''.join(parts)}</div>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of texts below their names.

    >>> table(["k"], [["a & b"]])
    '<table><thead><tr><th>k</th></tr></thead><tbody><tr><td>a &amp; b</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = ("".join(f"<td>{escape(value)}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def note(text: str) -> str:
    """A line of text."""
    return f"<p>{escape(text)}</p>"


def folded(summary: str, text: str) -> str:
    """A text with lines of its own, shown when somebody asks for it."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
