"""Benchmarks that others define: `python -m benchmarks.public` measures the lines of all that `catalogue` names.

A benchmark has a folder of its own with its data, its queries, and its `lines`. Here is what they share: `query` and
`line` say what is measured, `judge` has DuckDB's rows, `check` compares them, `side` and `measuring` run both sides.
"""
