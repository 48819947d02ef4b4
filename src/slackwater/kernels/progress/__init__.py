"""Compiled loops about what is complete: punctuations among rows, and rows that are late."""
