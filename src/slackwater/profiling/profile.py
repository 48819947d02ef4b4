"""profile(): how disordered a recording is, where that comes from, and what to set for a stream like it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from slackwater import notebook
from slackwater.disorder.profile import DisorderProfile
from slackwater.errors import PlanError, message
from slackwater.profiling.advice import (
    AheadGuard,
    PatienceAdvice,
    ahead_guard,
    bands_of,
    bounds_advice,
    patience_advice,
    trade_offs_of,
)
from slackwater.profiling.clocks import WrongClock, without_wrong_clocks, wrong_clocks
from slackwater.profiling.log_buckets import RESOLUTION
from slackwater.profiling.measures import (
    Copies,
    Future,
    PatienceOutcome,
    SourceProfile,
    Spread,
    completeness,
    copies_of,
    rows_from_the_future,
    source_profiles,
)
from slackwater.profiling.on_spark import MeasuredBySpark, measured_by_spark
from slackwater.profiling.recording import Columns
from slackwater.profiling.series import Heat, Skew, SpanOfRows, heat_of, skews_of, spans_of
from slackwater.profiling.slices import What
from slackwater.profiling.text import lines_of
from slackwater.sources.stream import feed_of, feed_of_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slackwater.disorder.fitted import FittedBounds
    from slackwater.progress.instants import Duration, Instant
    from slackwater.runners.spark.source import SparkFeed


_NAMES: Final = {"sources": ["name"], "wrong_clocks": ["name"], "heat": ["name"], "skews": ["ahead", "behind"]}
"""Which fields of what is found have names of sources in them, which may be of any type."""


@dataclass(frozen=True, repr=False)
class StreamProfile:
    """What profile() found, to print, to look at, and to keep: `to_dict()` has all of it in plain values.

    Lengths of time are in microseconds where `calendar` says so, and else in the units of the column.
    """

    name: str
    rows: int
    untimed: int
    """Rows that had no time, which are left out of all else."""

    oldest: Instant
    newest: Instant
    calendar: bool
    clock_calendar: bool
    """Whether arrivals are calendar time."""

    disorder: DisorderProfile
    lateness: Spread
    """How far rows are behind the newest of all."""

    within: Spread | None
    """How far they are behind the newest of their own source: what no bound between sources can mend."""

    delay: Spread | None
    """How long they were under way, by the clock of arrival."""

    curve: tuple[tuple[Duration, float], ...]
    """The part of the rows that is complete, by patience."""

    patiences: tuple[PatienceAdvice, ...]
    trade_offs: tuple[PatienceOutcome, ...]
    """What patiences do, the shortest first: rows that are late, how long the others wait, and how many at a time."""

    bands: tuple[Duration, ...]
    """Patiences for in_bands(); empty where one is as good as several."""

    bounds: FittedBounds | None
    ahead: AheadGuard | None
    sources: tuple[SourceProfile, ...]
    """Those with the most rows first."""

    wrong_clocks: tuple[WrongClock, ...]
    """Sources whose rows are left out of the curve, the patiences and the bounds: nothing could wait for them."""

    copies: Copies | None
    future: Future | None
    sound_rows: int
    """Rows that have a time, and whose clock is not wrong: those that the curve is made of."""

    spans: tuple[SpanOfRows, ...]
    heat: tuple[Heat, ...]
    skews: tuple[Skew, ...]
    resolution: float = 0.0
    """By which part of it a length may be too long that is not a greatest one: above 0 where lengths were counted in
    buckets, as Spark does it."""

    def __repr__(self) -> str:
        late = f"{self.disorder.late:,} late ({self.disorder.late_fraction:.1%})"
        sources = f", {len(self.sources):,} sources" if self.sources else ""
        return f"<StreamProfile of {self.name}: {self.rows:,} rows{sources}, {late}>"

    def __str__(self) -> str:
        return "\n".join(lines_of(self))

    def _repr_html_(self) -> str:
        return notebook.block(repr(self), notebook.folded("measures and advice", str(self)))

    def write_html(
        self, path: str | Path, *, title: str | None = None, more: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Write a page that opens without a network: what to write, and pictures of what was measured.

        It needs `pip install 'slackwater[report]'`. The page has the name of what was profiled, or your title. `more`
        are sections of your own, which come first: by title a list of texts, tables (a list of mappings, one for each
        row) and charts of Altair.

        >>> import slackwater as sw
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> found = sw.profile([{"at": at} for at in (1, 3, 2, 4)], time="at")
        >>> with TemporaryDirectory() as folder:
        ...     found.write_html(f"{folder}/profile.html", more={"Last night": ["The gate was closed."]})
        ...     Path(folder, "profile.html").read_text(encoding="utf-8")[:15]
        '<!DOCTYPE html>'
        """
        from slackwater.profiling.page import page_of

        Path(path).write_text(page_of(self, title, more), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, for JSON: names of sources as texts, bounds as the Python that makes them.

        >>> import slackwater as sw
        >>> found = sw.profile([{"at": at} for at in (1, 3, 2, 4)], time="at", first=1).to_dict()
        >>> found["rows"], found["disorder"]["late"], found["curve"]
        (4, 1, ((0, 0.75), (1, 1.0)))
        """
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name in {"lateness", "within", "delay"}:
                found[name] = None if value is None else {f"{share:g}": length for share, length in value.at}
            elif name == "bounds":
                found[name] = None if value is None else _bounds_as_dict(value)
            elif name in _NAMES:
                spelled = ({key: str(getattr(one, key)) for key in _NAMES[name]} for one in value)
                found[name] = [asdict(one) | names for one, names in zip(value, spelled, strict=True)]
            elif name == "disorder":
                found[name] = asdict(value) | {"lateness": {f"{at:g}": one for at, one in value.lateness.items()}}
            elif name in {"patiences", "trade_offs", "spans"}:
                found[name] = [asdict(one) for one in value]
            else:
                found[name] = asdict(value) if hasattr(value, "__dataclass_fields__") else value
        return found


def _bounds_as_dict(bounds: FittedBounds) -> dict[str, Any]:
    return {
        "python": bounds.text,
        "fitted": asdict(bounds.fitted),
        "on_the_rest": asdict(bounds.on_the_rest),
        "curve": [{"beyond": point.beyond, **asdict(point.outcome)} for point in bounds.curve],
    }


def profile(
    source: Any,
    *,
    time: str,
    arrived: str | None = None,
    origin: str | None = None,
    epoch: str | None = None,
    table: str | None = None,
    first: float = 0.7,
    copies: bool = True,
    on_rows: Callable[[int], None] | None = None,
) -> StreamProfile:
    """Measure how disordered recorded rows are, and where that comes from; and say what to set for such a stream.

    - `source`: what stream() takes and has an end: an Arrow table or reader, a pandas or Polars frame, a relation of
      DuckDB, a DeltaTable, a path, a DataFrame of Spark. The last is measured by Spark, which reads it once; it has no
      order, so `arrived` is needed. Lengths are then counted in buckets, and `resolution` says how far they may be off.
    - `time`: the column of event times. `arrived`: that of arrivals; without it rows arrived as they stand. `origin`:
      that of their sources. With both, bounds are fitted, and clocks and pauses of sources looked at.
    - `epoch`: where times are whole numbers that count from 1970 on, their unit: "s", "ms", "us" or "ns".
    - `table`: which table of a file of DuckDB, where it has several.
    - `first`: choices are tried out: made from this part of the recording, and counted on the rest; 1 leaves that out.
    - `copies`: whether to look for rows that came more than once, for which all columns are read.
    - `on_rows`: called with the number of rows of each batch that was read, for a bar.

    >>> import slackwater as sw
    >>> rows = [{"at": at, "by": "ab"[at % 2]} for at in (1, 2, 5, 4, 7, 6, 9, 10, 8, 11)]
    >>> found = sw.profile(rows, time="at", origin="by", first=1)
    >>> found
    <StreamProfile of rows: 10 rows, 2 sources, 3 late (30.0%)>
    >>> found.lateness.greatest, found.within.greatest, [one.patience for one in found.patiences]
    (2, 2, [1, 2, 2, 2])
    """
    if not 0 < first <= 1:
        hint = "first=0.7 tries choices on the last three tenths, first=1 on none"
        raise PlanError(message("this is no part of a recording", {"first": first}, hint))
    if epoch not in {None, "s", "ms", "us", "ns"}:
        raise PlanError(message("epoch= is a unit of time", {"got": repr(epoch)}, 'write "s", "ms", "us" or "ns"'))
    columns = Columns(time, arrived, origin, epoch)
    feed = feed_of(source) if table is None else feed_of_table(source, table)
    columns.require(feed)
    if getattr(feed, "only_on_spark", False):
        return _on_spark(cast("SparkFeed", feed), columns, first, copies=copies, on_rows=on_rows)
    recording = columns.read(feed, contents=copies, on_rows=on_rows)
    sources = source_profiles(recording)
    clocks = wrong_clocks(sources)
    sound = without_wrong_clocks(recording, clocks)
    patiences = patience_advice(sound, first)
    curve = tuple(completeness(sound))
    own, delays = recording.own_lateness, recording.delays
    return StreamProfile(
        name=recording.name,
        rows=len(recording.times) + recording.untimed,
        untimed=recording.untimed,
        oldest=int(recording.times.min()),
        newest=int(recording.newest[-1]),
        calendar=recording.calendar,
        clock_calendar=recording.clock_calendar,
        disorder=DisorderProfile.of(recording.times, calendar=recording.calendar),
        lateness=Spread.of(recording.lateness),
        within=None if own is None else Spread.of(own),
        delay=None if delays is None else Spread.of(delays),
        curve=curve,
        patiences=patiences,
        trade_offs=trade_offs_of(sound, curve, patiences),
        bands=bands_of(patiences),
        bounds=bounds_advice(sound, first),
        ahead=ahead_guard(recording),
        sources=sources,
        wrong_clocks=clocks,
        copies=copies_of(recording),
        future=rows_from_the_future(recording),
        sound_rows=len(sound.times),
        spans=spans_of(sound),
        heat=heat_of(recording),
        skews=skews_of(sound),
    )


def _on_spark(
    feed: SparkFeed, columns: Columns, first: float, *, copies: bool, on_rows: Callable[[int], None] | None
) -> StreamProfile:
    """The same of a DataFrame, measured by Spark."""
    if columns.arrived is None:
        hint = 'name the column that says when each row arrived: arrived="landed"'
        raise PlanError(message("the rows of a DataFrame have no order of arrival", {"source": feed.name}, hint))
    if feed.live or feed.read_in_python:
        facts, hint = {"source": feed.name}, "profile a recording: read the same folder or table by spark.read"
        raise PlanError(message("a profile looks at all rows of a DataFrame, and a stream has no end", facts, hint))
    found = measured_by_spark(feed, columns, first, copies=copies)
    if on_rows is not None:
        on_rows(found.rows)
    return profile_of(feed.name, found)


def profile_of(name: str, found: MeasuredBySpark) -> StreamProfile:
    """What Spark has found, as a profile."""
    patiences = found.patiences()
    lateness = found.spread(What.LATENESS)
    assert lateness is not None
    return StreamProfile(
        name=name,
        rows=found.rows,
        untimed=found.untimed,
        oldest=found.oldest,
        newest=found.newest,
        calendar=found.calendar,
        clock_calendar=found.clock_calendar,
        disorder=found.disorder(),
        lateness=lateness,
        within=found.spread(What.WITHIN),
        delay=found.spread(What.DELAY),
        curve=found.curve(),
        patiences=patiences,
        trade_offs=found.trade_offs(),
        bands=bands_of(patiences),
        bounds=found.bounds(),
        ahead=found.ahead(),
        sources=found.sources,
        wrong_clocks=found.wrong_clocks,
        copies=found.copies,
        future=found.future,
        sound_rows=found.sound_rows,
        spans=found.spans(),
        heat=found.heat(),
        skews=found.skews(),
        resolution=RESOLUTION,
    )
