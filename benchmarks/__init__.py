"""Benchmarks: `make bench` measures all and writes docs/performance.md; asv finds them in this folder too."""

import os

# Both sides of a comparison get as many cores; Polars looks at this when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "2")
