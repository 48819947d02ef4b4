"""What flows: elements, columnar batches of them, and how user tables become such batches."""
