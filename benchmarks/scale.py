"""Compare predictions with streams: `python -m benchmarks.scale [--only day] [--shares 0.1 1 10] [--calibrate]`.

The workloads day, dense and keys run at a share of their records and keys, as dense per key as before, and `plan.at` is
asked for the same. Prints, each predicted / measured and their ratio: the seconds of a micro-batch, the bytes of the
state at the end, the bytes by which a micro-batch lets the checkpoint grow, and the memory of the largest worker. The
goal is within 25 %; a star says that it is missed. With `--calibrate` the coefficients are measured first, else they
are those that this machine has.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import combinators as C
from benchmarks.baselines.ours import Ours
from benchmarks.report.tables import markdown
from benchmarks.running import streams
from benchmarks.running.session import configured, stop
from benchmarks.running.side import CORES, WARM, Settings, Side
from benchmarks.workloads.inputs import DAY, DENSE, HOUR, KEYS, MINUTE, TEN_SECONDS
from benchmarks.workloads.workload import Workload
from slicing import group_by, hopping
from slicing.cli import calibrate
from slicing.drawing import size
from slicing.explain.coefficients import Coefficients, known
from slicing.explain.scale import Scale
from slicing.windows.time.durations import microseconds

WORKLOADS = {"day": (DAY, MINUTE), "dense": (DENSE, TEN_SECONDS), "keys": (KEYS, MINUTE)}
GOAL = 0.25
SETTINGS = replace(WARM, describes=True)


def predicted(workload: Workload, advance: str, coefficients: Coefficients) -> Scale:
    """Return the prediction for a workload on the cores of a benchmark."""
    with configured(Settings()) as spark:
        frame = streams.source(spark, workload)
        windowed = group_by(frame, "key").window(hopping(HOUR, advance), time="ts")
        plan = windowed.plan(records=C.count(), total=C.sum("v"))
    return plan.at(
        keys=workload.keys,
        records_per_second=workload.records / workload.seconds,
        cores=CORES,
        trigger=f"{round(workload.seconds)} seconds",
        coefficients=coefficients,
    )


@dataclass(frozen=True)
class Figure:
    """A predicted and a measured number, and how to show them."""

    predicted: float
    measured: float
    show: Callable[[float], str]

    @property
    def cell(self) -> str:
        """Both numbers and their ratio; a star says that the ratio is beyond the goal."""
        ratio = self.predicted / self.measured
        missed = "" if abs(ratio - 1) <= GOAL else " *"
        return f"{self.show(self.predicted)} / {self.show(self.measured)} = {ratio:.2f}{missed}"


def compared(name: str, share: float, coefficients: Coefficients) -> list[str]:
    """Return a row of the table."""
    whole, advance = WORKLOADS[name]
    workload = whole if share == 1 else whole.cut(share)
    scale = predicted(workload, advance, coefficients)
    run = streams.run(Side(Ours(), workload, HOUR, advance, SETTINGS))
    stop()  # workers are reused, and keep the memory of the workload before
    figures = (
        Figure(scale.seconds_per_micro_batch, run.seconds, lambda seconds: f"{seconds:.2f} s"),
        Figure(scale.state_bytes * _filled(workload), run.state_bytes, size),
        Figure(scale.checkpoint_bytes, run.checkpoint_bytes * run.records, size),
        Figure(scale.worker_bytes, run.worker_mib * 2**20, size),
    )
    return [name, f"{share:g}", *(figure.cell for figure in figures)]


def _filled(workload: Workload) -> float:
    """The share of the predicted slices that the state has at the end of a run, which may be shorter than a window."""
    size, span = microseconds(HOUR, "size") / 1e6, SETTINGS.counted * workload.seconds
    return min(1.0, span / (size + workload.seconds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--calibrate", action="store_true")
    asked = parser.parse_args(arguments)
    coefficients = calibrate.measured(cores=str(CORES)) if asked.calibrate else known()
    stop()
    rows = [compared(name, share, coefficients) for name in asked.only for share in asked.shares]
    head = ["workload", "share", "micro-batch", "state", "checkpoint", "worker memory"]
    print(f"coefficients: {coefficients}\n\n{markdown(head, rows)}")


if __name__ == "__main__":
    main()
