"""The kinds of plan nodes, one file for each family of steps."""
