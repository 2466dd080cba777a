"""Storage of blocks: pages in Spark's state store, the header that finds them, and the cache of a worker process.

This package does not know how windows are assembled from blocks.
"""
