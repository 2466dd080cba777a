"""Benchmarks: `make bench` measures all and writes docs/performance.md; asv finds them in this folder too."""

import os
import sys
from pathlib import Path

# asv drops PYTHONPATH: without this it would measure whichever checkout is installed, and not the one it is run in.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# Both sides of a comparison get as many cores; Polars looks at this when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "2")
