"""Sliding windows for PySpark, assembled from slices."""
