"""Inputs of the benchmarks and the comparison of outputs: seeded records (`workload`), named inputs (`inputs`), inputs
along an axis (`axes`), payments of the demo (`feed`), and a check for equal rows (`rows`).
"""
