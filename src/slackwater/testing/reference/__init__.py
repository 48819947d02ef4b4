"""The papers' algorithms as the papers have them, event by event: what faster ones are measured against."""
