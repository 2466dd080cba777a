"""The queries of Nexmark that are windows, one per file: ours, Spark's, and SQL for DuckDB, which judges the rows.

Queries 4, 6, 9, 20 and 23 are joins, and 18 and 19 keep the newest or largest records of a key, without windows.
"""
