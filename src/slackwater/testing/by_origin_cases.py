"""The torture cases of operators that go by origin: rows of several sources, some late for their own."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from slackwater.events.elements import Insert, elements_of
from slackwater.operators.by_origin.aggregate import AggregateByOriginOperator, Groups
from slackwater.operators.by_origin.by_origin import ByOriginSettings
from slackwater.operators.by_origin.driven import DrivenAggregateByOriginOperator, DrivenSortByOriginOperator
from slackwater.operators.by_origin.sort import SortByOriginOperator
from slackwater.operators.emission import band_output
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.policies.late import Late
from slackwater.policies.windows import Tumbling
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.oracles.by_origin import release_within_origins
from slackwater.testing.oracles.heartbeats.figure_2 import figure_2
from slackwater.testing.oracles.heartbeats.system import Skew, System
from slackwater.testing.strategies import disordered_batches
from slackwater.testing.torture import Streams, TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.bound_rules import Rules

_GRID, _WINDOW, _BEHIND_OTHERS = 2, 5, 15
_BEHIND_OWN = (1, 4)
"""How far rows may be behind those of their own source, for each band."""


def by_origin_cases(
    points: EventSchema, intervals: EventSchema, aggregates: Mapping[str, Aggregate]
) -> list[TortureCase]:
    """Cases for rows whose first column names the source, and whose second says when they arrived."""
    return [
        _sort(points, is_points=True),
        _sort(intervals, is_points=False),
        _sort(points, is_points=True, newcomers_are_free=True),
        _aggregate(points, aggregates, band=None),
        _aggregate(points, aggregates, band=0),
        _aggregate(points, aggregates, band=1),
        replace(
            _sort(points, is_points=True, kind=DrivenSortByOriginOperator), name="sort points within origins in shards"
        ),
        replace(
            _aggregate(points, aggregates, band=None, kind=DrivenAggregateByOriginOperator),
            name="aggregate by origin in shards",
        ),
    ]


def _rules(behind_own: int, *, newcomers_are_free: bool = False) -> Rules:
    bounds = Bounds.disorder(behind_own)
    bounds = bounds if newcomers_are_free else bounds & Bounds.uniform(_BEHIND_OTHERS)
    return bounds.rules(Units(calendar=False, clock_calendar=False))


def _settings(schema: EventSchema, rules: Rules, **more: Any) -> ByOriginSettings:
    origin, arrived = schema.payload.names
    beats = HeartbeatSettings(rules, origin, arrived, _GRID, None)
    return ByOriginSettings(schema, schema, beats, Late.drop(), **more)


def _in_time(streams: Streams, behind_own: int, window: int = 1, *, newcomers_are_free: bool = False) -> list[Insert]:
    """The rows that are not late for their own source, found by the paper's algorithm."""
    rows = [element for element in elements_of(streams[0]) if isinstance(element, Insert)]
    who, landed = ([row.payload[place] for row in rows] for place in (0, 1))  # type: ignore[index]
    names = list(dict.fromkeys(who)) or [None]
    both = range(len(names))
    others = () if newcomers_are_free else (Skew(0, _BEHIND_OTHERS + 1),)
    bounds = {(i, j): (*others, Skew(0, behind_own + 1)) if i == j else others for i in both for j in both}
    ticks = [tick - min(landed, default=0) // _GRID for tick in accumulate((at // _GRID for at in landed), max)]
    arrivals = [(tick, names.index(one), row.start) for tick, one, row in zip(ticks, who, rows, strict=True)]
    beats = figure_2(System((0,) * len(names), bounds), arrivals, max(ticks, default=0))
    late = release_within_origins(beats, arrivals, window).late
    return [row for n, row in enumerate(rows) if n not in late]


def _sort(
    schema: EventSchema,
    *,
    is_points: bool,
    newcomers_are_free: bool = False,
    kind: type[SortByOriginOperator] = SortByOriginOperator,
) -> TortureCase:
    streams: Any = st.tuples(disordered_batches(schema.payload, intervals=not is_points))
    settings = _settings(schema, _rules(_BEHIND_OWN[0], newcomers_are_free=newcomers_are_free))
    return TortureCase(
        f"sort {'points' if is_points else 'intervals'} within {'new ' * newcomers_are_free}origins",
        kind,
        lambda state: kind(settings, resume=state),
        streams,
        lambda streams: _in_time(streams, _BEHIND_OWN[0], newcomers_are_free=newcomers_are_free),
        ordered=False,
    )


def _aggregate(
    schema: EventSchema,
    aggregates: Mapping[str, Aggregate],
    band: int | None,
    kind: type[AggregateByOriginOperator] = AggregateByOriginOperator,
) -> TortureCase:
    origin = schema.payload.names[0]
    window = Tumbling(_WINDOW)
    windowed = windowed_schema(schema)

    def build(state: Any) -> AggregateByOriginOperator:
        sooner = () if band is None else tuple(map(_rules, _BEHIND_OWN[:-1]))
        settings = _settings(schema, _rules(_BEHIND_OWN[-1]), windows=window, sooner=sooner)
        groups = Groups(windowed, (origin,), origin, aggregates, (window,), banded=band is not None)
        return kind(settings, groups, to_groups=[WindowOperator(window, schema, ordered=False)], resume=state)

    def oracle(streams: Streams) -> Iterable[Insert]:
        in_time = _in_time(streams, _BEHIND_OWN[-1 if band is None else band], _WINDOW)
        starts = [row.start - row.start % _WINDOW for row in in_time]
        rows = [
            Insert((row.start, *row.payload), start, start + _WINDOW)  # type: ignore[misc]
            for row, start in zip(in_time, starts, strict=True)
        ]
        for answer in aggregate_oracle(rows, windowed.payload.names, [origin], aggregates):
            of_band = () if band is None else (band,)
            yield Insert((*answer.payload, *of_band), answer.start, answer.end)  # type: ignore[misc]

    streams: Any = st.tuples(disordered_batches(schema.payload))
    name = "aggregate by origin" if band is None else f"in_bands by origin, band {band} of 2"
    output = band_output(band) if band else None
    return TortureCase(name, kind, build, streams, oracle, ordered=False, output=output)
