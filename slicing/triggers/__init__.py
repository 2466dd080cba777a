"""Triggers, accumulation modes, and the output of late records: immutable values, one trigger per file."""
