"""The code before and after the shuffle: the first stage, execution plans, flat rows, a local runner.

Nothing here imports pyspark: what a task knows is handed in."""
