"""Reports that are evenly apart, as of sensors that each report once in a fixed time."""

import numpy as np

from benchmarks.workloads.workload import START


def reports(per_batch: int, seconds: float, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the reports from `low` to before `high`, and their times, in whole milliseconds.

    There are `per_batch` in `seconds`. Instants are in microseconds.
    """
    step = 1e6 * seconds / per_batch
    first, end = (round((each - START) / step) for each in (low, high))
    numbers = np.arange(first, end)
    return numbers, START + (numbers * step).astype(np.int64) // 1000 * 1000
