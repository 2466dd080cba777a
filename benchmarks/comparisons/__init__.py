"""The comparisons and their goals: one comparison, or one family of comparisons, per file.

`registry` finds each file that has `BENCHMARKS`, and `benchmarks.run` measures them, so a new comparison is a new file.
`flink` and `old_commit` are run by hand.
"""
