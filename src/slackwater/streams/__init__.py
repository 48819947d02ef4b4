"""The fluent API: frozen streams whose methods add one plan node each."""
