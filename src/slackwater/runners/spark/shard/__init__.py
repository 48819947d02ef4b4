"""In stateful tasks: the operators of a plan, one instance for each shard."""
