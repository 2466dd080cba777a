"""How time is divided: edges, the slices between them, and the kinds of windows; a window is a range of slices.

Integers only: no clocks, no keys, no Spark. A new kind of window is one file in this folder.
"""
