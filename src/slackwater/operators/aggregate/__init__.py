"""Aggregates of windows and groups, at once, in bands or early; and the parts that they are made of."""
