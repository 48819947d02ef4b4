"""From the plan that was written to the plan that is run."""
