"""Who drives the operators."""
