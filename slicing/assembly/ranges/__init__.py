"""Chosen windows from the rows that are present: point lookups, range aggregates, merged intervals."""
