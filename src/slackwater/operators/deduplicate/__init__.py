"""The operator that keeps one row of each event that arrives several times, and its parts."""
