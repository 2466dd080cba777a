"""What is run against what, and the goal: one comparison, or family of them, a file.

A file that has `BENCHMARKS` is found by `registry` and measured by `benchmarks.run`, so adding a comparison is
adding a file. `flink` and `old_commit` are run by hand.
"""
