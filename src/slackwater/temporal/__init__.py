"""The logical content of streams: temporal tables, freezing, compatibility, other element models.

>>> from slackwater.temporal import Adjust, Insert, temporal_table_of
>>> stream = [Insert("A", 6, 20), Adjust("A", 6, 20, 30), Adjust("A", 6, 30, 25)]
>>> temporal_table_of(stream) == temporal_table_of([Insert("A", 6, 25)])
True
"""

from slackwater.events.elements import Adjust, Element, Insert, Punctuate
from slackwater.temporal.compatibility import check_compatible, check_compatible_multiset
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.open_close import Close, Open, from_open_close, to_open_close
from slackwater.temporal.table import TemporalEvent, TemporalTable, equivalent, temporal_table_of

__all__ = [
    "Adjust",
    "Close",
    "Element",
    "Freeze",
    "Insert",
    "Open",
    "Punctuate",
    "TemporalEvent",
    "TemporalTable",
    "check_compatible",
    "check_compatible_multiset",
    "equivalent",
    "freeze_of",
    "from_open_close",
    "temporal_table_of",
    "to_open_close",
]
