"""Slow, obvious versions of what operators and kernels do fast."""
