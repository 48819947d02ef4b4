"""Public testing kit: the torture harness, oracles, Hypothesis strategies and a generator of presentations.

To test an operator of your own, write a TortureCase for it and hand it to `torture`. Strategies for its streams are in
`slackwater.testing.strategies`, which needs Hypothesis; slow oracles to learn from are in `slackwater.testing.oracles`.
"""

from slackwater.testing.presentations import Presentation, present, present_batch
from slackwater.testing.tables import assert_same_table
from slackwater.testing.torture import TortureCase, assert_lawful, torture

__all__ = [
    "Presentation",
    "TortureCase",
    "assert_lawful",
    "assert_same_table",
    "present",
    "present_batch",
    "torture",
]
