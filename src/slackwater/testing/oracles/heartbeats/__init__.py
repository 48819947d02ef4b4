"""Heartbeats from bounds on skew, disorder and latency, as the paper defines them, in ticks and whole numbers.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.

Strategies for systems and for rows that keep to their bounds are in `strategies`, which needs Hypothesis.
"""

from slackwater.testing.oracles.heartbeats.constraints import by_constraints
from slackwater.testing.oracles.heartbeats.estimates import (
    adaptive,
    by_current_estimates,
    by_estimates,
    estimate,
    greatest_skew,
)
from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.groups import essential, grouped, in_groups, joined, strongest
from slackwater.testing.oracles.heartbeats.labels import Step, heartbeats_of_steps, labels, memory_links
from slackwater.testing.oracles.heartbeats.largest import literal_largest
from slackwater.testing.oracles.heartbeats.processes import run_counter, run_sensors
from slackwater.testing.oracles.heartbeats.simulate import CROWDED, USUAL, Pace, Sent, arrivals_of, simulate
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Emitted, Skew, System, obeys
from slackwater.testing.oracles.heartbeats.systems import (
    closed,
    global_counter,
    global_counter_at_once,
    repeating,
    sensors,
    uniform,
)
from slackwater.testing.oracles.heartbeats.theorems import can_stall, closed_under_composition, needs_timeout

__all__ = [
    "CROWDED",
    "NOTHING_YET",
    "USUAL",
    "Emitted",
    "Pace",
    "Sent",
    "Skew",
    "Step",
    "System",
    "adaptive",
    "arrivals_of",
    "by_constraints",
    "by_current_estimates",
    "by_estimates",
    "can_stall",
    "closed",
    "closed_under_composition",
    "essential",
    "estimate",
    "figure_2",
    "global_counter",
    "global_counter_at_once",
    "greatest_skew",
    "grouped",
    "heartbeats_of_steps",
    "in_groups",
    "joined",
    "labels",
    "literal_largest",
    "memory_links",
    "needs_timeout",
    "obeys",
    "overall",
    "repeating",
    "run_counter",
    "run_sensors",
    "sensors",
    "simulate",
    "strongest",
    "uniform",
]
