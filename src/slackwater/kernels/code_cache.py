"""Where compiled loops are kept on disk: beside their source, or in the user's home, or else in a folder for a while.

Where the library is installed read-only and the user has no home to write to, as in many containers, Numba refuses to
compile at all. Then machine code is kept in a folder of the machine's temporary files, which belongs to the user alone:
who could write there could have any code run. If there is none, each process compiles for itself.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
from numba.core import config

if TYPE_CHECKING:
    from collections.abc import Callable


def jitted(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Have Numba compile a loop when it is called, and keep it where that is possible."""
    with suppress(RuntimeError):  # there is no place for it
        return numba.njit(cache=True, **options)(loop)
    folder = _own_temporary_folder()
    if folder is not None:
        settings: Any = config
        earlier = settings.CACHE_DIR
        settings.CACHE_DIR = folder  # looked at once, when a loop is made known
        try:
            with suppress(RuntimeError):
                return numba.njit(cache=True, **options)(loop)
        finally:
            settings.CACHE_DIR = earlier
    return numba.njit(**options)(loop)


@cache
def _own_temporary_folder() -> str | None:
    """A folder for temporary files that nobody else can write to; None if there is none."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir(), f"slackwater-kernels-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return str(folder) if ours or os.name == "nt" else None
