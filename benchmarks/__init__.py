"""Benchmarks: `make bench` measures all and writes docs/performance.md; asv finds them in this folder too.

`comparisons` says what is measured, on inputs of `workloads`, against `baselines`; `running` runs it, `report` shows
it.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# asv drops PYTHONPATH: without this it would measure whichever checkout is installed, and not the one it is run in.
sys.path.insert(0, str(ROOT))
# Both sides of a comparison get as many cores; Polars looks at this when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "2")
