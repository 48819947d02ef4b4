"""Settings for all tests: Hypothesis is deterministic, with a short and a thorough profile."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]

for _name, _examples in {"short": 40, "thorough": 1_000}.items():
    settings.register_profile(
        _name,
        derandomize=True,
        database=None,  # nothing is left behind
        deadline=None,
        max_examples=_examples,
        suppress_health_check=_SLOW_IS_FINE,
    )
settings.load_profile("short")
