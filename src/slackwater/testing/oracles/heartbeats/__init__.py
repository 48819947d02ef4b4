"""Heartbeats from bounds on skew, disorder and latency, as the paper defines them, in ticks and whole numbers.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.

Strategies for systems and for rows that keep to their bounds are in `strategies`, which needs Hypothesis.
"""

from slackwater.testing.oracles.heartbeats.constraints import by_constraints
from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.largest import literal_largest
from slackwater.testing.oracles.heartbeats.simulate import CROWDED, USUAL, Pace, Sent, arrivals_of, simulate
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Emitted, Skew, System, obeys
from slackwater.testing.oracles.heartbeats.systems import closed, global_counter, repeating, sensors, uniform
from slackwater.testing.oracles.heartbeats.theorems import can_stall, closed_under_composition, needs_timeout

__all__ = [
    "CROWDED",
    "NOTHING_YET",
    "USUAL",
    "Emitted",
    "Pace",
    "Sent",
    "Skew",
    "System",
    "arrivals_of",
    "by_constraints",
    "can_stall",
    "closed",
    "closed_under_composition",
    "figure_2",
    "global_counter",
    "literal_largest",
    "needs_timeout",
    "obeys",
    "overall",
    "repeating",
    "sensors",
    "simulate",
    "uniform",
]
