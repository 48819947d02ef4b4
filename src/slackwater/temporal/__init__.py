"""The logical content of streams: temporal tables, freezing, compatibility, other element models."""
