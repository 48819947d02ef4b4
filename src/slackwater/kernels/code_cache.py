"""Where compiled loops are kept on disk: beside their source, or in the user's home, or else in a folder for a while.

Where the library is installed read-only and the user has no home to write to, as in many containers, Numba refuses to
compile at all. Then machine code is kept in a folder of the machine's temporary files, which belongs to the user alone:
who could write there could have any code run. If there is none, each process compiles for itself.

What was compiled ahead is found by users who may not write there: Numba itself passes over such a folder, and each user
would compile anew what was installed for all. So what lies beside the source, or where NUMBA_CACHE_DIR says, is looked
at first, and only what is not there is compiled, and kept elsewhere.

A loop is compiled together with the loops that it calls and the numbers that it knows by name. Numba looks only at the
file of the loop itself: machine code made of what another file had before would be used, and write beside its arrays
if that was about where things lie. So here all files count that a loop's file imports, directly or by others. They
count by what they hold, and not by their time: an image or an archive cuts times to whole seconds.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numba
from numba.core import caching, config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def jitted(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Have Numba compile a loop when it is called, and keep it where that is possible.

    A file that is run by itself has another name as a module: what was compiled of it would not fit the library.
    """
    in_library = Path(loop.__code__.co_filename).is_relative_to(_PACKAGE)
    if in_library and not loop.__module__.startswith(f"{_PACKAGE.name}."):
        return numba.njit(**options)(loop)
    dispatcher = _kept(loop, options)
    if in_library:
        ahead = list(_compiled_ahead(loop, dispatcher._cache.cache_path))  # noqa: SLF001 - Numba has no other way
        if ahead:
            dispatcher._cache = _AheadFirst(ahead, dispatcher._cache)  # noqa: SLF001
    return dispatcher


def _kept(loop: Callable[..., Any], options: dict[str, Any]) -> Any:
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
        dispatcher._cache._cache_file._source_stamp = _stamp(file)  # noqa: SLF001 - Numba has no other way to say so
    return dispatcher


class _CompiledAhead(caching.FunctionCache):
    """Machine code in a folder that is only read."""

    def __init__(self, loop: Callable[..., Any], folder: Path, name: str) -> None:
        # Numba's own way to make one looks for a folder to write to.
        self._py_func = loop
        self._impl = caching.CompileResultCacheImpl.__new__(caching.CompileResultCacheImpl)
        index: Any = caching.IndexDataCacheFile
        self._cache_file = index(str(folder), name, _stamp(Path(loop.__code__.co_filename)))
        self._enabled = True


class _AheadFirst:
    """What was compiled ahead, and then what is kept for this user; new code goes there."""

    def __init__(self, ahead: list[_CompiledAhead], kept: Any) -> None:
        self._ahead, self._kept = ahead, kept

    def load_overload(self, signature: Any, target: Any) -> Any:
        found = (one.load_overload(signature, target) for one in (*self._ahead, self._kept))
        return next((one for one in found if one is not None), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)


def _compiled_ahead(loop: Callable[..., Any], written: str | None) -> Iterator[_CompiledAhead]:
    """What there is in folders that come before the one that Numba writes to, if it writes to any."""
    code = loop.__code__
    file = Path(code.co_filename)
    flags, version = getattr(sys, "abiflags", ""), "".join(map(str, sys.version_info[:2]))
    name = f"{file.stem}.{loop.__qualname__}-{code.co_firstlineno}.py{version}{flags}"
    for folder in folders_of(file):
        if str(folder) == written:
            return
        if os.access(folder / f"{name}.nbi", os.R_OK):
            yield _CompiledAhead(loop, folder, name)


def folders_of(file: Path) -> list[Path]:
    """Where the loops of a file may be compiled ahead for all users, the first place first."""
    chosen: Any = config
    locator: Any = caching._CacheLocator  # noqa: SLF001
    below = locator.get_suitable_cache_subpath(str(file))
    return [*([Path(chosen.CACHE_DIR, below)] if chosen.CACHE_DIR else []), file.parent / "__pycache__"]


@cache
def _stamp(file: Path) -> str:
    """What stands for all that the loops of a file are made of."""
    made_of = hashlib.sha256()
    for one in sorted(_made_of(file)):
        made_of.update(str(one.relative_to(_PACKAGE)).encode() + b"\n" + _content(one))
    return made_of.hexdigest()


@cache
def _content(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


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
