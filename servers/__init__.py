"""Servers for tests and benchmarks: on 127.0.0.1 only, in a folder of their own, stopped with the block they serve."""
