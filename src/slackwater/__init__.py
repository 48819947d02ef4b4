"""Slackwater: the time layer for PySpark."""
