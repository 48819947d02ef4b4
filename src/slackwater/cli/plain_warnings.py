"""Warnings on a command line: one line each, without the line of this library that gave it."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slackwater.cli.display import note

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as the messages that they are."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda text, *_, **__: note(f"warning: {text}")
        yield
