"""The torture case of heartbeats: rows of several sources that keep to their bounds, with a column of arrivals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from slackwater.events.elements import Insert, elements_of
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings, HeartbeatsOperator
from slackwater.operators.heartbeats.related import RelatedOperator, RelatedStream
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bounds import Bounds
from slackwater.testing.strategies import ordered_batches
from slackwater.testing.torture import Streams, TortureCase

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema


def heartbeat_cases(schema: EventSchema, origin: str, arrived: str) -> list[TortureCase]:
    """Heartbeats for point events; columns name the source of a row, and a number for its arrival, or none."""
    bounds = Bounds.in_order() & Bounds.uniform(0)
    units = Units(calendar=False, clock_calendar=False)
    rules = bounds.rules(units)
    greatest = Bounds.greatest(clock=True).rules(units)
    learnt = (Bounds.estimated(0.4, after=[0, 1]) & Bounds.patience(3)).rules(units)

    def case(
        name: str, settings: HeartbeatSettings, kind: type[HeartbeatsOperator] = HeartbeatsOperator
    ) -> TortureCase:
        streams: Any = st.tuples(ordered_batches(schema.payload))
        return TortureCase(name, kind, lambda state: kind(schema, settings, resume=state), streams, _rows)

    between = Bounds.in_order() & Bounds({("a", "b"): [Bound(_NEVER_SO_FAR)]})
    settings = HeartbeatSettings(between.only("a", "b").rules(units), None, arrived, 2, None, None)
    streams = [RelatedStream(name, arrived) for name in ("a", "b")]
    related = TortureCase(
        "one of two related streams",
        RelatedOperator,
        lambda state: RelatedOperator(schema, settings, streams, resume=state),
        st.tuples(ordered_batches(schema.payload), ordered_batches(schema.payload)),
        _rows,
    )
    return [
        related,
        case("heartbeats by a column of arrivals", HeartbeatSettings(rules, origin, arrived, 2, None, None)),
        case("heartbeats of one source", HeartbeatSettings(rules, None, arrived, 1, None, None)),
        case("heartbeats by estimates", HeartbeatSettings(learnt, origin, arrived, 1, None, None)),
        case("heartbeats by the greatest skew", HeartbeatSettings(greatest, origin, arrived, 2, None, None)),
        case(
            "heartbeats in shards", HeartbeatSettings(rules, origin, arrived, 2, None, None), DrivenHeartbeatsOperator
        ),
    ]


_NEVER_SO_FAR = 1_000
"""Further than any two times are apart: two streams that are drawn each by itself know nothing of each other."""


def _rows(streams: Streams) -> list[Insert]:
    """Rows pass as they are."""
    return [element for element in elements_of(streams[0]) if isinstance(element, Insert)]
