"""Shows the examples in docstrings as code: Markdown would take a line that begins with `>>>` for a quotation.

An extension of griffe, which reads the docstrings for the site.
"""

from __future__ import annotations

from typing import Any

import griffe


class DoctestFences(griffe.Extension):
    """Puts every example, with what it prints, between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object when it has been read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    r"""Put examples between fences: from a line with `>>>` to the next empty one.

    >>> print(fenced("It adds.\n\n>>> 1 + 1\n2\n\nThat is all."))
    It adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    That is all.
    """
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        if inside and not line.strip():
            lines.append("```")
            inside = False
        elif not inside and line.lstrip().startswith(">>> "):
            lines.append("```pycon")
            inside = True
        lines.append(line)
    return "\n".join(lines[:-1])
