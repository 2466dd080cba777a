"""Flink SQL from Maven's artifacts, as a side of the public benchmarks: its input, its job in one JVM, its rows."""
