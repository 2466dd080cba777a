"""What goes in, and what must come out: seeded records (`workload`), those with a name (`inputs`) and along an axis
(`axes`), the payments of the demo (`feed`), and whether two sides gave the same rows (`rows`).
"""
