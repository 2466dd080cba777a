"""What asv tracks besides the kernels: the ratio, seconds or MiB of whatever `benchmarks.run` measures."""

import math

from benchmarks.comparisons.registry import benchmarks
from benchmarks.report import results


class Tracked:
    """Results are also kept for the page."""

    timeout = 3600
    params = ([each.name for each in benchmarks()],)
    param_names = ("benchmark",)

    def track_value(self, name: str) -> float:
        """What asv records; NaN where there is no number."""
        found = next(each for each in benchmarks() if each.name == name).measured()
        results.keep(found)
        return math.nan if found.figure is None else found.figure
