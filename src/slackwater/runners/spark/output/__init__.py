"""On the driver and in write tasks: what a micro-batch gives, handed to sinks exactly once."""
