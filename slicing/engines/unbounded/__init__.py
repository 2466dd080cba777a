"""The window that never closes: one total for each key."""
