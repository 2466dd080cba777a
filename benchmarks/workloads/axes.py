"""The inputs along the axes: one centre, and what changes of it at a time.

The centre is the workload day at R = 60: 10,000 keys, 0.7 records per (slice, key), 200,000 records per micro-batch.
"""

from dataclasses import replace
from typing import Any

from benchmarks.workloads.workload import Workload

CENTRE = Workload("centre", 200_000, 10_000, 1_728, 5)


def altered(**changes: Any) -> Workload:
    """The centre but for some fields; of its name, so that all points in it are one run."""
    return replace(CENTRE, **changes)


def of_rate(records: int, keys: int = CENTRE.keys) -> Workload:
    """Micro-batches of so many records at the centre's rate."""
    return altered(records=records, keys=keys, seconds=CENTRE.seconds * records / CENTRE.records)


def of_density(per_cell: float) -> Workload:
    """So many records per (slice, key) in micro-batches of 20 minutes."""
    records = min(200_000, round(2_000_000 * per_cell))
    return altered(records=records, seconds=1_200, keys=round(records / (20 * per_cell)))
