"""Operators that pair the rows of two streams by key and time, and the parts that they share."""
