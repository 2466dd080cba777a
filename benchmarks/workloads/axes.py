"""The inputs along the axes: one centre, with one property changed at a time.

The centre is the workload day at R = 60: 10,000 keys, 0.7 records per (slice, key), 200,000 records per micro-batch.
"""

from dataclasses import replace
from typing import Any

from benchmarks.workloads.workload import Workload

CENTRE = Workload("centre", 200_000, 10_000, 1_728, 5)


def altered(**changes: Any) -> Workload:
    """Return the centre with other fields but the same name, so that points that equal the centre share one run."""
    return replace(CENTRE, **changes)


def of_rate(records: int, keys: int = CENTRE.keys) -> Workload:
    """Return a workload with `records` records per micro-batch, at the centre's rate."""
    return altered(records=records, keys=keys, seconds=CENTRE.seconds * records / CENTRE.records)


def of_density(per_cell: float) -> Workload:
    """Return a workload with `per_cell` records per (slice, key), in micro-batches of 20 minutes."""
    records = min(200_000, round(2_000_000 * per_cell))
    return altered(records=records, seconds=1_200, keys=round(records / (20 * per_cell)))
