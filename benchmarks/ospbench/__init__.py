"""OSPBench: the flow of traffic at measuring points of roads, as others define it (Klarrio's benchmark on GitHub).

Its data, of the Dutch roads, is not to be had: `workload` makes data of its shape. `window_stage` has the query, ours,
the authors' for Structured Streaming by its definition, and SQL for the judge; `lines` says over which windows.
"""
