"""Count windows: the last records of a key, after each fixed number of records."""
