"""Assembly of chosen windows from the rows that exist: point lookups, range aggregates, merged intervals."""
