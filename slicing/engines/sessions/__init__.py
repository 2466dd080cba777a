"""Session windows: new records are merged with the open sessions."""
