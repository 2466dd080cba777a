"""Benchmarks: `make bench` measures all of them and writes docs/performance; asv finds its benchmarks here too.

`comparisons` defines the measurements, on inputs of `workloads`, against `baselines`. `running` runs them, and `report`
writes tables and plots.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# asv drops PYTHONPATH. Without this line it would measure the installed checkout instead of its own.
sys.path.insert(0, str(ROOT))
# Both sides of a comparison get equally many cores; Polars reads this variable when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "2")
