"""The memory growth of a process from 10 to 200 micro-batches of a function: `python -m benchmarks.running.held NAME`.

The process does the work of Spark's Python workers, in the same units, with its state in a dictionary. It prints the
growth in MiB. Windows close as fast as others begin, so the state does not grow.
"""

import gc
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from slicing import Aggregate, hopping
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.aggregates.spill import FIRST, spilling
from slicing.assembly.choice import choose
from slicing.content.block import Shape
from slicing.laws import dry_run
from slicing.stages.execution_plan import Aggregation
from slicing.stages.support_of import support_of
from slicing.state.format.fingerprint import fingerprint_of
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_close
from slicing.triggers.trigger import MicroBatchTime

KEYS, MINUTE, EARLY, LATE = 5_000, 60_000_000, 10, 200


def _pairs(a, b):
    return (a[0] + b[0], a[1] + b[1])


def _sum(a, b):
    return a + b


FUNCTIONS = {
    "numpy's floats in a tuple": ("double", lambda: (0, 0.0), lambda acc, v: (acc[0] + 1, acc[1] + np.log(v)), _pairs),
    "a list for a tuple": ("bigint", lambda: (0, 0), lambda acc, v: [acc[0] + 1, acc[1] + v], _pairs),
    "beyond 64 bits in between": ("bigint", lambda: 0, lambda acc, v: (acc + v * 2**63) % 2**61, _sum),
    "integers kept free": ("bigint", lambda: 0, lambda acc, v: max(acc, FIRST + v), max),
    "not the same type each time": ("bigint", lambda: 0.0, lambda acc, v: np.float32(v) if v % 2 else acc + v, _sum),
}
"""By name: the type of the values, and the functions `init`, `agg` and `combine`."""


def grown(name: str) -> float:
    """Return the MiB of this process after `LATE` micro-batches minus those after `EARLY`."""
    kind, init, agg, combine = FUNCTIONS[name]
    made = kernel("value", Aggregate(init, agg, combine, laws=False))
    dry_run(made, [kind])
    rebuilt, (label, aggregate) = made.__reduce__()[:2]
    own = rebuilt(label, aggregate)  # as unpickled in a worker
    window = hopping("4 minutes", "1 minute")
    shape = Shape(window.family, (Field("k", "bigint"),), (own,))
    trees = (choose(own, window.family),)
    execution_plan = support_of(window).execution_plan(Aggregation(shape, trees, ((0,),)))
    stage, store = execution_plan.first_stage((0,)), MemoryStore()
    fingerprint = fingerprint_of(shape, ["partials"], [["v"]], "1 over 1 shuffle partition")
    held = {}
    for number in range(1, LATE + 1):
        rng = np.random.default_rng(number)
        times = rng.integers(number * MINUTE, (number + 1) * MINUTE, KEYS)
        values = rng.integers(1, 10**6, KEYS)
        columns = [times, np.arange(KEYS), values.astype(np.float64) if kind == "double" else values]
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns], ["time", "k0", "v0"])
        with spilling():
            rows = pa.Table.from_batches(stage([batch])).to_pydict()
        with spilling():
            bucket = execution_plan.bucket(0, fingerprint, store, on_close())
            bucket.accept(execution_plan.shipped(rows))
            for _ in bucket.close(MicroBatchTime(number * MINUTE)):
                pass
        if number in (EARLY, LATE):
            del bucket, rows
            gc.collect()
            held[number] = _resident()
    return held[LATE] - held[EARLY]


def _resident() -> float:
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) / 1024


if __name__ == "__main__":
    print(grown(sys.argv[1]))
