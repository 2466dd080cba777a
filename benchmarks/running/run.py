"""The figures of a run."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slicing.profiling import STAGES
from slicing.stages.metrics import PREAGGREGATE, timer

PYTHON = {"preaggregate": PREAGGREGATE} | {stage: timer(stage) for stage in STAGES}
"""The stages of ours in Python, with the metrics that have their microseconds if a side is timed."""


@dataclass(frozen=True)
class Run:
    """The medians of the steady micro-batches of a stream; or the figures of a bounded query, which has no state.

    `records`, `rows`, `read_bytes`, `gets`, `puts`, `partials_read` and `partials_written` are per micro-batch, or of
    the query. `each` has the seconds and rows of each micro-batch. `state_rows` and `state_bytes` (in memory and in
    files) are those at the end. `checkpoint_bytes` are the bytes of state written to the checkpoint, per record.
    `worker_mib` is the peak of the largest Python worker, `idle_mib` that of a worker with the same imports and hardly
    any records. `peak_mib` is the peak of all processes of a side, if measured. `took` is the seconds of the whole
    stream, `processor` its processor seconds, if measured. `around` is the seconds per micro-batch in which Spark plans
    and logs. `stages` has the processor seconds of each stage in Python, if timed.
    """

    seconds: float
    records: int
    rows: int = 0
    batches: int = 1
    stopped: bool = False
    store: str = ""
    note: str = ""
    each: tuple[tuple[float, int], ...] = ()
    state_rows: int = 0
    state_bytes: int = 0
    read_bytes: int = 0
    gets: int = 0
    puts: int = 0
    partials_read: int = 0
    partials_written: int = 0
    checkpoint_bytes: float = 0.0
    worker_mib: float = 0.0
    peak_mib: float = 0.0
    idle_mib: float = 0.0
    took: float = 0.0
    processor: float = 0.0
    around: float = 0.0
    stages: tuple[tuple[str, float], ...] = ()

    @property
    def per_record(self) -> float:
        """Seconds per record."""
        return self.seconds / self.records


def shown(run: Run) -> str:
    """Return the seconds as text, or when the run was stopped."""
    return f"stopped at {run.seconds:.0f} s" if run.stopped else f"{run.seconds:.2f} s"


def of_progress(full: Sequence[Any], steady: Sequence[Any], written: int, store: str) -> Run:
    """Return the medians of the `steady` micro-batches; `full` has all with records, which wrote `written` bytes."""

    def median(value: Callable[[Any], float]) -> int:
        return round(statistics.median(map(value, steady)))

    def stored(name: str) -> int:
        return median(lambda each: sum(operator["customMetrics"].get(name, 0) for operator in each["stateOperators"]))

    def observed(name: str) -> int:
        return median(lambda each: sum((m.asDict().get(name) or 0) for m in each["observedMetrics"].values()))

    each = tuple((p["durationMs"]["triggerExecution"] / 1000, int(p["sink"]["numOutputRows"])) for p in steady)
    last = steady[-1]["stateOperators"]
    return Run(
        seconds=statistics.median(seconds for seconds, _ in each),
        records=median(lambda each: each["numInputRows"]),
        rows=round(statistics.median(rows for _, rows in each)),
        batches=len(steady),
        store=store,
        each=each,
        state_rows=sum(operator["numRowsTotal"] for operator in last),
        state_bytes=sum(o["memoryUsedBytes"] + o["customMetrics"].get("rocksdbSstFileSize", 0) for o in last),
        read_bytes=stored("rocksdbTotalBytesRead"),
        gets=stored("rocksdbGetCount"),
        puts=stored("rocksdbPutCount"),
        partials_read=observed("partials_read"),
        partials_written=observed("partials_written"),
        checkpoint_bytes=written / sum(p["numInputRows"] for p in full),
        around=statistics.median(p["durationMs"]["triggerExecution"] - p["durationMs"]["addBatch"] for p in steady)
        / 1000,
        stages=tuple((stage, observed(metric) / 1e6) for stage, metric in PYTHON.items()),
    )
