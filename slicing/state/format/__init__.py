"""The stored header of a bucket, and the comparison of a checkpoint with a query."""
