"""Where compiled loops are kept on disk: beside their source, or in the user's home, or else in a folder for a while.

Where the library is installed read-only and the user has no home to write to, as in many containers, Numba refuses to
compile at all. Then machine code is kept in a folder of the machine's temporary files, which belongs to the user alone:
who could write there could have any code run. If there is none, each process compiles for itself.

A loop is compiled together with the loops that it calls and the numbers that it knows by name. Numba looks only at the
file of the loop itself: machine code made of what another file had before would be used, and write beside its arrays
if that was about where things lie. So here all files count that a loop's file imports, directly or by others.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numba
from numba.core import config

if TYPE_CHECKING:
    from collections.abc import Callable


def jitted(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Have Numba compile a loop when it is called, and keep it where that is possible.

    A file that is run by itself has another name as a module: what was compiled of it would not fit the library.
    """
    in_library = Path(loop.__code__.co_filename).is_relative_to(_PACKAGE)
    if in_library and not loop.__module__.startswith(f"{_PACKAGE.name}."):
        return numba.njit(**options)(loop)
    with suppress(RuntimeError):  # there is no place for it
        return _cached(loop, options)
    folder = _own_temporary_folder()
    if folder is not None:
        settings: Any = config
        earlier = settings.CACHE_DIR
        settings.CACHE_DIR = folder  # looked at once, when a loop is made known
        try:
            with suppress(RuntimeError):
                return _cached(loop, options)
        finally:
            settings.CACHE_DIR = earlier
    return numba.njit(**options)(loop)


def _cached(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Have Numba keep a loop, until any file changes that it is made of."""
    dispatcher: Any = numba.njit(cache=True, **options)(loop)
    file = Path(loop.__code__.co_filename)
    if file.is_relative_to(_PACKAGE) and file.is_file():
        stats = [one.stat() for one in sorted(_made_of(file))]
        kept = dispatcher._cache._cache_file  # noqa: SLF001 - Numba has no other way to say so
        kept._source_stamp = tuple((one.st_mtime, one.st_size) for one in stats)  # noqa: SLF001
    return dispatcher


_PACKAGE: Final = Path(__file__).parents[1]
_IMPORT: Final = re.compile(rf"^ *from {_PACKAGE.name}\.([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _made_of(file: Path) -> frozenset[Path]:
    """A file of loops, and those of this package that it imports; of other files of loops theirs, too."""
    found = {file}
    for module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
        place = _PACKAGE.joinpath(*module.split("."))
        modules = [place, *(place / name for name in re.findall(r"\w+", names))]
        found |= {one.with_suffix(".py") for one in modules if one.with_suffix(".py").is_file()}
    loops = (one for one in found - {file} if one.is_relative_to(_PACKAGE / "kernels"))
    return frozenset(found).union(*map(_made_of, loops))


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
