"""Heartbeats: how far each source is complete, by what is known of all of them."""
