"""Pure state machines over event batches: no clock, no I/O, no thread, no Spark."""
