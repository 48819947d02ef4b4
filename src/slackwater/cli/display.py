"""Shows on the standard error how a query comes along: in place on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from slackwater.progress.clock import Deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from rich.console import Console

    from slackwater.cli.standing import Standing

_ON_TERMINAL: Final = 0.25
"""Seconds between two looks, where somebody looks on."""

_IN_LINES: Final = 5.0
"""Seconds between two lines, where they are written one below the other."""


class Display:
    """Shows a query while it runs. `rows` is how many rows there are to read, where that is known."""

    def __init__(
        self, rows: int | None, *, quiet: bool, seconds: float = _ON_TERMINAL, console: Console | None = None
    ) -> None:
        self._rows = rows
        self._seconds = seconds
        self._quiet = quiet
        self._console = console
        self._live: Any = None
        self._bar: Any = None
        self._next = Deadline(0)

    @property
    def wanted(self) -> bool:
        """Whether it is time to look: that costs something."""
        return not self._quiet and self._next.has_come

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if self._console is None and sys.stderr.isatty():
            from rich.console import Console

            self._console = Console(stderr=True)
        if self._console is not None:
            self._begin_live(self._console)
        else:
            self._next = Deadline(_IN_LINES)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Show nothing more; what was shown in place is gone."""
        if self._live is not None:
            self._live.stop()

    def show(self, standing: Standing) -> None:
        """Show how it stands."""
        if self._live is None:
            note(standing.line())
            self._next = Deadline(_IN_LINES)
            return
        from rich.console import Group
        from rich.text import Text

        self._bar.update(self._bar.task_ids[0], completed=standing.progress.total_in)
        self._live.update(Group(self._bar, Text("\n".join(standing.lines()))), refresh=True)
        self._next = Deadline(self._seconds)

    def _begin_live(self, console: Console) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        known = (BarColumn(), TaskProgressColumn()) if self._rows is not None else (BarColumn(),)
        self._bar = Progress(TextColumn("running"), *known, TimeElapsedColumn(), console=console)
        self._bar.add_task("", total=self._rows)
        self._live = Live(self._bar, console=console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)


@contextmanager
def in_place(console: Console) -> Iterator[Callable[[str], None]]:
    """Show a text in the place of the one before; the last one stays."""
    from rich.live import Live
    from rich.text import Text

    with Live(console=console, auto_refresh=False) as live:
        yield lambda text: live.update(Text(text), refresh=True)


def note(text: str) -> None:
    """Write a line for people, beside the output."""
    sys.stderr.write(f"slackwater: {text}\n")
    sys.stderr.flush()
