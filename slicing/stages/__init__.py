"""The code before and after the shuffle: the first stage, execution plans, flat rows, a local runner.

This package does not import pyspark: callers pass in the facts about a task."""
