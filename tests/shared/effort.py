"""How hard tests of Hypothesis try where one law is tested of very many steps or plans.

Each step is driven by many such tests, the torture harness first of all, so that each needs fewer examples by day. With
more examples in the profile (`make laws`, `make test-long`) they grow, too.
"""

from __future__ import annotations

from hypothesis import settings

FEWER = settings(max_examples=max(10, settings().max_examples * 3 // 5))
"""Three fifths of the examples that other tests have."""
