"""How time is cut: edges, the slices between them, and the kinds of windows, each of which is a range of slices.

Integers only: no clocks, no keys, no Spark. A new kind of window is a file here.
"""
