"""Families of windows: a family has its windows in order, each a range of slices of one cut."""
