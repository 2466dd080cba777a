"""Families of windows: windows in order, each a range of slices of one cut."""
