"""Pipelines in TOML: one source and a few steps, by the words of the streams themselves; the rest is for Python.

    group_by = ["station"]

    [source]                      # sw.stream(...)
    path = "readings.csv"         # beside this file
    time = "at"

    [window]
    tumbling = "1h"               # .tumbling("1h")

    [sort]                        # .sort(...), or [bands], .in_bands(...)
    patience = "30s"

    [aggregates]                  # .group_by("station").aggregate(...)
    mean = "mean(value)"

    [output]
    main = "means.parquet"
    late = "late.parquet"

Rule: whatever is not in the table of keys below is refused, and named with what it may have been meant to be.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import slackwater as sw
from slackwater.cli.pipeline import MAIN, Output, Pipeline
from slackwater.errors import PlanError, message
from slackwater.sources.delta import is_delta_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_TEXT, _LENGTH, _FLAG, _TEXTS, _LENGTHS, _SHARE, _TABLE = (
    *("a text", "a length of time, or of sequence numbers", "true or false", "a list of texts"),
    *("a list of lengths, the shortest first", "a share below 1", "a table"),
)
_EXAMPLES: Final = {
    _TEXT: '"..."', _LENGTH: '"30s"', _FLAG: "true", _TEXTS: '["a", "b"]', _LENGTHS: '["10s", "5m"]', _SHARE: "0.01",
    _TABLE: "[...]",
}  # fmt: skip

_BOUNDS: Final = {
    "in_order": _FLAG,
    "disorder": _LENGTH,
    "sensors": _LENGTH,
    "uniform": _LENGTH,
    "delay": _LENGTH,
    "idle": _LENGTH,
    "lull": _LENGTH,
    "estimated": _SHARE,
    "only": _TEXTS,
    "once_seen": _FLAG,
}
_LATENESS: Final = {"late": _TEXT, "ahead": _LENGTH, "bounds": _TABLE}

KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "": {"group_by": _TEXTS},
    "source": {
        "path": _TEXT,
        "time": _TEXT,
        "until": _TEXT,
        "name": _TEXT,
        "origin": _TEXT,
        "arrived": _TEXT,
        "columns": _TEXT,
        "ordered": _FLAG,
        "untimed_is_late": _FLAG,
    },
    "window": {"tumbling": _LENGTH, "hopping": _LENGTH, "hop": _LENGTH, "sliding": _LENGTH, "offset": _LENGTH},
    "sort": {"patience": _LENGTH, **_LATENESS},
    "sort.bounds": _BOUNDS,
    "bands": {"patiences": _LENGTHS, **_LATENESS},
    "bands.bounds": _BOUNDS,
    "aggregates": {},
    "output": {"main": _TEXT, "late": _TEXT, "format": _TEXT, "checkpoint": _TEXT},
}
"""Every table, its keys, and what each of them is. Those of aggregates are the names of columns."""

_LATE: Final[Mapping[str, Callable[[], sw.Late]]] = {
    "divert": sw.Late.divert, "drop": sw.Late.drop, "adjust": sw.Late.adjust, "raise": sw.Late.raise_error,
}  # fmt: skip
_AGGREGATES: Final[Mapping[str, Callable[..., sw.Aggregate]]] = {
    "count": sw.count,
    "sum": sw.sum,
    "min": sw.min,
    "max": sw.max,
    "mean": sw.mean,
    "count_distinct": sw.count_distinct,
    "top_k": sw.top_k,
}
_CALL: Final = re.compile(r"\s*(?P<function>\w+)\s*\(\s*(?P<column>[^(),]*?)\s*(?:,\s*(?P<k>\d+)\s*)?\)\s*")
_NEEDED: Final = ("path", "time")


def pipeline_of_toml(path: Path, text: str, session: Any) -> Pipeline:
    """Read a file; with a session, as a stream of Spark."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = 'tables are [source], keys are time = "at"; texts are in quotes'
        raise PlanError(message("a pipeline is no TOML", {"file": path, "cause": error}, hint)) from error
    return _Reader(path, document).pipeline(session)


class _Reader:
    """One file, table by table; every refusal names the file and the key."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document
        self._check("", {name: one for name, one in document.items() if name not in KEYS})
        for name in KEYS:
            self._check(name, self._table(name))

    def pipeline(self, session: Any) -> Pipeline:
        """All of it."""
        streams = self._streams(session)
        names = [MAIN] if len(streams) == 1 else [f"band-{number}" for number in range(len(streams))]
        outputs = {name: Output(stream) for name, stream in zip(names, streams, strict=True)}
        places = {name: self._place(name, text) for name, text in self._table("output").items()}
        return Pipeline(outputs, {"output" if name == MAIN else name: text for name, text in places.items()})

    # ---- what is there -----------------------------------------------------------------------------------------------

    def _table(self, name: str) -> dict[str, Any]:
        """A table, or a table in it; nothing where there is none."""
        if not name:
            return {key: one for key, one in self._document.items() if key in KEYS[""]}
        found: Any = self._document
        for part in name.split("."):
            found = found.get(part, {})
            if not isinstance(found, dict):
                raise self._refused(f"[{name}] is a table", found, f"write [{name}] on a line of its own")
        return dict(found)

    def _check(self, table: str, found: Mapping[str, Any]) -> None:
        known = KEYS[table]
        for key, value in found.items():
            if table == "aggregates":
                self._require(table, key, value, _TEXT)
            elif key in known:
                self._require(table, key, value, known[key])
            else:
                places = [*known, *(name for name in KEYS if name and not table and "." not in name)]
                raise self._unknown(table, key, places)

    def _require(self, table: str, key: str, value: Any, kind: str) -> None:
        lengths = str | int
        fits = {
            _TEXT: isinstance(value, str) and bool(value),
            _LENGTH: isinstance(value, lengths) and not isinstance(value, bool),
            _FLAG: isinstance(value, bool),
            _TEXTS: _is_list(value, str),
            _LENGTHS: _is_list(value, lengths),
            _SHARE: isinstance(value, int | float) and not isinstance(value, bool),
            _TABLE: isinstance(value, dict),
        }
        if not fits[kind]:
            where = f"{f'[{table}] ' if table else ''}{key}"
            raise self._refused(f"{where} is {kind}", repr(value), f"for example {key} = {_EXAMPLES[kind]}")

    def _unknown(self, table: str, key: str, known: Iterable[str]) -> PlanError:
        names = list(known)
        near = get_close_matches(key, names, n=1)
        elsewhere = [f"[{other}]" for other, keys in KEYS.items() if other and key in keys]
        hint = f"did you mean {near[0]}?" if near else f"it belongs to {' or '.join(elsewhere)}" if elsewhere else ""
        if not hint:
            hint = "there is no such key; what a TOML file cannot say is written in Python"
        facts = {"file": self._path, "key" if table else "key or table": f"[{table}] {key}" if table else key}
        return PlanError(message("a pipeline names what is not known", {**facts, "known are": ", ".join(names)}, hint))

    def _refused(self, headline: str, got: Any, hint: str) -> PlanError:
        return PlanError(message(headline, {"file": self._path, "got": got}, hint))

    # ---- what it means -----------------------------------------------------------------------------------------------

    def _streams(self, session: Any) -> list[sw.Stream]:
        sort, bands = self._table("sort"), self._table("bands")
        aggregates = {name: self._aggregate(name, text) for name, text in self._table("aggregates").items()}
        keys = self._document.get("group_by", [])
        self._refuse_half(keys, aggregates)
        stream = self._source(session)
        window = self._table("window")
        if "tumbling" in window:  # a row is late only when its whole window is complete
            stream = self._windowed(stream, window)
        if bands:
            stream = self._windowed(stream, {name: one for name, one in window.items() if "tumbling" not in window})
            grouped: Any = stream.group_by(*keys) if aggregates else stream
            return list(grouped.in_bands(*bands["patiences"], **self._lateness("bands"), **aggregates))
        if "sort" in self._document:
            stream = stream.sort(sort.get("patience"), **self._lateness("sort"))
        if "tumbling" not in window:
            stream = self._windowed(stream, window)
        return [stream.group_by(*keys).aggregate(**aggregates) if aggregates else stream]

    def _refuse_half(self, keys: object, aggregates: Mapping[str, object]) -> None:
        """Refuse what needs something else that is not there."""
        source, sort, bands = self._table("source"), self._table("sort"), self._table("bands")
        for key in _NEEDED:
            if key not in source:
                raise self._refused(f"[source] names its {key}", "nothing", f'write {key} = "..." below [source]')
        if "sort" in self._document and "bands" in self._document:
            hint = "leave one of them out: [bands] sorts, too"
            raise self._refused("a pipeline has one way to wait, and this has two", "[sort], [bands]", hint)
        if "bands" in self._document and "patiences" not in bands:
            raise self._refused("[bands] names its patiences", "none", 'write patiences = ["10s", "5m"]')
        if sort and "late" in sort and not {"patience", "bounds"} & set(sort):
            raise self._refused("[sort] has no patience by which rows could be late", "late", 'write patience = "30s"')
        if keys and not aggregates:
            raise self._refused("group_by is for aggregates, and there are none", keys, '[aggregates] n = "count()"')
        waits = "sort" in self._document or "bands" in self._document
        if aggregates and not (waits or source.get("ordered")):
            hint = 'write [sort] with patience = "30s", or [source] ordered = true where rows come in order'
            raise self._refused("[aggregates] need to know when a window is complete", ", ".join(aggregates), hint)

    def _source(self, session: Any) -> Any:
        source = self._table("source")
        place = self._beside(source["path"])
        names = {
            name: source[name] for name in ("until", "name", "origin", "arrived", "untimed_is_late") if name in source
        }
        rows = place if session is None else _rows_on_spark(session, place, source.get("columns"))
        if session is not None:
            names.setdefault("name", Path(source["path"]).name)
        stream = sw.stream(rows, time=source["time"], **names)
        return stream.assume_ordered() if source.get("ordered") else stream

    def _windowed(self, stream: Any, window: Mapping[str, Any]) -> Any:
        kinds = [name for name in ("tumbling", "hopping", "sliding") if name in window]
        if not window:
            return stream
        if len(kinds) != 1:
            hint = 'write one of tumbling = "1h", hopping = "1h" with hop = "10m", sliding = "1h"'
            raise self._refused("[window] has one kind of windows", ", ".join(window), hint)
        (kind,) = kinds
        if ("hop" in window) != (kind == "hopping"):
            raise self._refused("hopping and hop go together", ", ".join(window), 'hopping = "1h" and hop = "10m"')
        if kind == "sliding" and "offset" in window:
            raise self._refused("sliding windows have no offset", window["offset"], "leave it out")
        if kind == "sliding":
            return stream.sliding(window[kind])
        lengths = [window[name] for name in (kind, "hop") if name in window]
        return getattr(stream, kind)(*lengths, offset=window.get("offset"))

    def _lateness(self, table: str) -> dict[str, Any]:
        found = self._table(table)
        chosen: dict[str, Any] = {"ahead": found["ahead"]} if "ahead" in found else {}
        if "late" in found:
            if found["late"] not in _LATE:
                hint = f"write one of {', '.join(_LATE)}"
                raise self._refused(f"[{table}] late says what becomes of late rows", found["late"], hint)
            chosen["late"] = _LATE[found["late"]]()
        if bounds := self._table(f"{table}.bounds"):
            chosen["bounds"] = self._bounds(table, bounds)
        return chosen

    def _bounds(self, table: str, found: Mapping[str, Any]) -> sw.Bounds:
        parts = []
        for name, value in found.items():
            if name in {"only", "once_seen"}:
                continue
            if name == "in_order":
                parts += [sw.Bounds.in_order()] if value else []
            else:
                parts.append(getattr(sw.Bounds, name)(value))
        if not parts:
            hint = 'write in_order = true, or disorder = "5s"'
            raise self._refused(f"[{table}.bounds] says what is known of sources", ", ".join(found), hint)
        bounds = reduce(and_, parts)
        bounds = bounds.only(*found["only"]) if "only" in found else bounds
        return bounds.once_seen() if found.get("once_seen") else bounds

    def _aggregate(self, name: str, text: str) -> sw.Aggregate:
        call = _CALL.fullmatch(text)
        function = text.partition("(")[0].strip() if call is None else str(call["function"])
        if call is None or function not in _AGGREGATES:
            near = get_close_matches(function, _AGGREGATES, n=1)
            known = ", ".join(f"{one}(column)" for one in _AGGREGATES if one != "top_k")
            hint = f"did you mean {near[0]}(...)?" if near else f"write count(), {known} or top_k(column, 3)"
            raise self._refused(f"[aggregates] {name} is no aggregate", repr(text), hint)
        column, k = call["column"], call["k"]
        if (function == "top_k") != (k is not None) or (not column and function != "count"):
            hint = "count() counts rows; all others name a column, and top_k(column, 3) how many"
            raise self._refused(f"[aggregates] {name} is not complete", repr(text), hint)
        return _AGGREGATES[function](*([column] if column else []), *([int(k)] if k else []))

    def _place(self, key: str, text: str) -> str:
        return text if key == "format" else self._beside(text)

    def _beside(self, text: str) -> str:
        """A path as it is seen from the file that names it."""
        return text if "://" in text or text == "-" else str(self._path.parent / text)


def _is_list(value: Any, kinds: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, kinds) and one is not True for one in value)


def _rows_on_spark(session: Any, place: str, columns: str | None) -> Any:
    """A folder as Spark reads it while files come: Parquet, a Delta table, or CSV and JSON lines by Spark itself."""
    path = Path(place)
    if is_delta_table(path):
        return sw.delta_table(session, place)
    if "://" not in place and not path.is_dir():
        facts, hint = {"path": place}, "name a folder; --runner in-process reads single files"
        raise PlanError(message("on Spark a source is a folder to which files come", facts, hint))
    place = place if "://" in place else str(path.absolute())
    ending = _ending_in(path) if "://" not in place else ".parquet"
    if ending == ".csv":
        reading = session.readStream.option("header", True)
        return reading.schema(columns or session.read.csv(place, header=True, inferSchema=True).schema).csv(place)
    if ending in {".json", ".jsonl", ".ndjson"}:
        return session.readStream.schema(columns or session.read.json(place).schema).json(place)
    return sw.parquet_files(session, place, schema=columns)


def _ending_in(folder: Path) -> str:
    """Which files a folder has."""
    files = (one for one in sorted(folder.rglob("*")) if one.is_file() and not one.name.startswith(("_", ".")))
    return next((one.suffix for one in files), ".parquet")
