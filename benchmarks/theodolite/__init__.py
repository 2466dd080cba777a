"""Theodolite: the statistics of power meters, as others define them (github.com/cau-se/theodolite).

`workload` makes the measurements; `statistics` are what both use cases ask, `uc2` and `uc3` the queries, ours, Spark's
and SQL for the judge; `lines` says over which windows.
"""
