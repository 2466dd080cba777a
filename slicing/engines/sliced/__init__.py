"""Windows that are assembled from slices: a bucket of slices, and the families of windows over them."""
