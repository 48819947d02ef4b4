"""Measuring disorder: how far a stream is from being ordered, in the measures that decide what to do about it."""
