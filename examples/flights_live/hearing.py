"""What the two collectors hear of the flights, and what each of them says, in its own order and by its own clock.

A flight is heard of when it has landed, so that long flights come hours after short ones that left later. Blue listens
to the radio: each flight takes some minutes, and one in twenty it misses. Green asks all airports every quarter of an
hour, and lists what it was told by destination. Departures are what a collector makes of its own clock and the minutes
in the air; `heard` is when a message was sent by the clock of the feed, and stands for the server's own time stamp: the
feed runs much faster than the server's clock.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flight_list import BEGIN
from mishaps import AHEAD_BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mishaps import Mishaps

BLUE, GREEN = "blue", "green"
NEVER_LATER: Final = timedelta(hours=12)
"""No message is sent longer than this after a departure: at most 11 h 35 in the air, and a quarter to be heard of."""

_QUARTER: Final = timedelta(minutes=15)
_MISSED_OF: Final = 20
_RADIO_MINUTES: Final = 10


class Message(NamedTuple):
    """What a collector sends."""

    heard: datetime
    data: bytes


def heard_by(collector: str, flights: Iterable[Mapping[str, Any]], mishaps: Mishaps) -> list[Message]:
    """The messages of a collector, in the order in which it sends them."""
    if collector == BLUE:
        said = [(_by_radio(flight, mishaps), flight) for flight in flights if _is_received(flight)]
    else:
        said = [(_by_asking(flight), flight) for flight in flights]
    said.sort(key=lambda one: (one[0], *((one[1]["dest"],) if collector == GREEN else ())))
    return [Message(heard, _written(collector, flight, heard, mishaps)) for heard, flight in said]


def _is_received(flight: Mapping[str, Any]) -> bool:
    return bool(flight["number"] % _MISSED_OF)


def _by_radio(flight: Mapping[str, Any], mishaps: Mishaps) -> datetime:
    """Some minutes after landing; what was heard without a line is sent when it is there again."""
    heard: datetime = flight["landed"] + timedelta(minutes=flight["number"] * 7 % _RADIO_MINUTES)
    return mishaps.back if mishaps.quiet <= heard < mishaps.back else heard


def _by_asking(flight: Mapping[str, Any]) -> datetime:
    """At the next quarter of an hour."""
    since: timedelta = flight["landed"] - BEGIN
    return BEGIN + -(-since // _QUARTER) * _QUARTER


def _written(collector: str, flight: Mapping[str, Any], heard: datetime, mishaps: Mishaps) -> bytes:
    """The message, as JSON. While a clock is ahead, so are the departures by it."""
    is_wrong = collector == GREEN and mishaps.wrong <= heard < mishaps.right
    departed = flight["departed"] + (AHEAD_BY if is_wrong else timedelta())
    about = {name: flight[name] for name in ("number", "flight", "carrier", "dest")}
    return json.dumps({**about, "departed": departed.isoformat(), "heard": heard.isoformat()}).encode()
