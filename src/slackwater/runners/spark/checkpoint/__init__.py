"""On the driver: whose a checkpoint is, and whether what it holds can be read."""
