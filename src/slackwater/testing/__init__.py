"""Public testing kit: oracles, the torture harness, Hypothesis strategies and a generator of presentations."""
