"""On the driver, before a query starts: what every shard runs, how many there are, and which rows go where."""
