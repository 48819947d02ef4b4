"""Heartbeats from bounds on skew, disorder and latency, as the paper defines them, in ticks and whole numbers.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.
"""

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.system import (
    NOTHING_YET,
    Arrival,
    Emitted,
    Skew,
    Source,
    System,
    Tick,
    Time,
    obeys,
)

__all__ = [
    "NOTHING_YET",
    "Arrival",
    "Emitted",
    "Skew",
    "Source",
    "System",
    "Tick",
    "Time",
    "figure_2",
    "obeys",
    "overall",
]
