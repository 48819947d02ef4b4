"""Updates by key become changes: each value lasts until the next one of its key."""
