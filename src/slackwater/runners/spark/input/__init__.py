"""In map tasks: rows are read, treated row by row, and packed for their shards."""
