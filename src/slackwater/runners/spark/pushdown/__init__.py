"""On the driver, before a query starts: steps and expressions that Spark itself can do."""
