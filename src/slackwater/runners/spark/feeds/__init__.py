"""Data sources of Spark in Python: Delta tables and streams of NATS JetStream, read as Arrow batches."""
