"""Compiled loops over columns of rows: gathered, numbered, laid out as words, spread over places."""
