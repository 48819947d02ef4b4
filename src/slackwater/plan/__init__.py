"""What was asked: frozen nodes, the properties of every edge, and explanations."""
