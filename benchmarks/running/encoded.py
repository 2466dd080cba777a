"""The size of a micro-batch's partials in the encoding of the state, without a state."""

from functools import cache

import pyarrow.parquet as pq

from benchmarks.running import warm
from benchmarks.running.session import configured
from benchmarks.running.side import Settings
from benchmarks.workloads.workload import Workload
from slicing.content.packing import to_text


@cache
def size(workload: Workload, length: str, advance: str, column: str) -> int:
    """Return the bytes of the partials of the last micro-batch of count and sum of a column, as one bucket's pages.

    `length` and `advance` are those of the windows. The first stage makes the pages, which are as large as they can be.
    """
    with configured(Settings()):
        query = warm.defined(workload, length, advance, column=column).query()
    table = pq.read_table(workload.files()[-workload.parts :], columns=["ts", "key", column])
    records = table.rename_columns(["time", "k0", "v0"])
    shipped = query.execution_plan.first_stage((0,))(records.to_batches())
    return sum(len(to_text(page)) for batch in shipped for page in batch["block"].to_pylist() if page)
