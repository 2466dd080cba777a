"""The eager strategy: every record is folded into every window that covers it."""
