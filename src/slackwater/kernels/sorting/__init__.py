"""Compiled loops that sort times, merge ordered columns and measure disorder."""
