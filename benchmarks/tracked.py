"""What asv tracks in addition to the kernels: the ratio, seconds or MiB of each benchmark of `benchmarks.run`."""

import math

from benchmarks.comparisons.registry import benchmarks
from benchmarks.report import results


class Tracked:
    """A benchmark of asv; its results are also stored for the page."""

    timeout = 3600
    params = ([each.name for each in benchmarks()],)
    param_names = ("benchmark",)

    def track_value(self, name: str) -> float:
        """Return the figure that asv records; NaN if there is none."""
        found = next(each for each in benchmarks() if each.name == name).measured()
        results.keep(found)
        return math.nan if found.figure is None else found.figure
