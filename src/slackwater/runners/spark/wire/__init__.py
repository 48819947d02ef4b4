"""What crosses between processes: chunks of rows as bytes."""
