"""Sliding windows: one window per distinct set of records of a key."""
