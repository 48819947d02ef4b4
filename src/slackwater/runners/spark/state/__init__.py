"""In stateful tasks: what a shard remembers between micro-batches, and how it is stored."""
