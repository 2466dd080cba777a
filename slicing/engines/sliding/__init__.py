"""Sliding windows: a window for each distinct set of records."""
