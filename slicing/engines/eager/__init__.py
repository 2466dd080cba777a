"""The eager plan: every record is folded into every window that covers it."""
