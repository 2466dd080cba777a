"""Count windows: the last records of a key, after every so many."""
