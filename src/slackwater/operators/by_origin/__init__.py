"""Operators whose rows go by the heartbeat of their own source, not by the least of all."""
