"""Compiled loops that find rows by their key: partners of a join, successors, repeats."""
