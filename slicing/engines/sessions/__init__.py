"""Session windows: open sessions are merged with new records."""
