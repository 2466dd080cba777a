"""Where blocks are kept: pages in Spark's store with the header that finds them, and what a worker process remembers.

How windows are assembled from them is not known here.
"""
