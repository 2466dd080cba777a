"""Compare predictions with the measured streams.

`python -m benchmarks.scale [--only day] [--shares 0.1 1 10] [--calibrate]`

The workloads day, dense and keys run at a share of their records and keys, as dense per key as before, and `plan.at` is
asked for the same. Prints seconds of a micro-batch, bytes that the checkpoint grows by, and predicted by measured; the
goal is within 25 %. With `--calibrate` the coefficients are measured first, else they are those that this machine has.
"""

import argparse
from collections.abc import Sequence

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
from slicing.explain.coefficients import Coefficients, known
from slicing.explain.scale import Scale

WORKLOADS = {"day": (DAY, MINUTE), "dense": (DENSE, TEN_SECONDS), "keys": (KEYS, MINUTE)}
GOAL = 0.25


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


def compared(name: str, share: float, coefficients: Coefficients) -> list[str]:
    """Return a row of the table."""
    whole, advance = WORKLOADS[name]
    workload = whole if share == 1 else whole.cut(share)
    scale = predicted(workload, advance, coefficients)
    run = streams.run(Side(Ours(), workload, HOUR, advance, WARM))
    grown = run.checkpoint_bytes * run.records
    ratio, bytes_ratio = scale.seconds_per_micro_batch / run.seconds, scale.checkpoint_bytes / grown
    within = "yes" if abs(ratio - 1) <= GOAL else "no"
    seconds = f"{scale.seconds_per_micro_batch:.2f} s", f"{run.seconds:.2f} s", f"{ratio:.2f}", within
    return [name, f"{share:g}", *seconds, f"{scale.checkpoint_bytes:,.0f}", f"{grown:,.0f}", f"{bytes_ratio:.2f}"]


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
    head = [
        "workload",
        "share",
        "predicted",
        "measured",
        "ratio",
        "within 25 %",
        "bytes predicted",
        "measured",
        "ratio",
    ]
    print(f"coefficients: {coefficients}\n\n{markdown(head, rows)}")


if __name__ == "__main__":
    main()
