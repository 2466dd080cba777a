"""Nexmark: an auction house's stream and queries, as others define them (github.com/nexmark/nexmark).

`generator` makes the events, from `ids`, `texts`, and one file for each kind of event; `workload` writes them.
`queries` has ours, Spark's, and SQL for the judge; `lines` says over which windows.
"""
