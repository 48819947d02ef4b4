"""Compiled loops of the merges of replicas: indexes of events, and what each case of LMerge does with them."""
