"""All comparisons, printed as they are measured: `python -m benchmarks.run [--quick] [--only NAME] [--write FILE]`.

Every figure is kept beside the input files, so that a page can be written from measurements of one machine that were
made one by one: `--only` measures some anew, `--write` writes all there are.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks import streams
from benchmarks.measure import Measured, session
from benchmarks.memory import Memory
from benchmarks.workloads import FOLDER

RESULTS = FOLDER / "results"
RATIOS = "| workload / baseline | baseline, s | ours, s | ratio | unit | goal |\n| --- | --- | --- | --- | --- | --- |"
PEAKS = "| window, sum of | peak MiB of a Python worker | goal |\n| --- | --- | --- |"


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few comparisons, about five minutes")
    parser.add_argument("--only", action="append", help="the name of a comparison, or Memory; repeat for several")
    parser.add_argument("--write", type=Path, help="write a page of all results so far to this file")
    options = parser.parse_args()
    for name, row in _measured(options.only, options.quick):
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(row))
        print(row, flush=True)
    if options.write:
        options.write.write_text(_page())


def _measured(only: list[str] | None, quick: bool) -> Iterator[tuple[str, str]]:
    """Rows of the page, by the names under which they are kept."""
    for comparison in streams.QUICK if quick else streams.ALL:
        if not only or comparison.__name__ in only:
            yield comparison.__name__, _row(comparison())
    if "Memory" in (only or []) or not (only or quick):
        memory = Memory()
        for size in memory.params[0]:
            for column, kind in zip(memory.params[1], ("long", "double"), strict=True):
                row = f"| {size} by 1 minute, {kind} | {memory.track_peak(size, column):,.0f} | {memory.goal} |"
                yield f"Memory {size} {kind}", row
    session().stop()


def _row(comparison: streams._Comparison) -> str:
    baseline, ours = comparison.sides()
    finished = not (baseline.stopped or ours.stopped)
    ratio = f"{comparison.ratio(baseline, ours):.2f}" if finished else "-"
    title = (comparison.__doc__ or "").rstrip(".")
    return f"| {title} | {_seconds(baseline)} | {_seconds(ours)} | {ratio} | {comparison.unit} | {comparison.goal} |"


def _seconds(measured: Measured) -> str:
    if measured.stopped:
        return f"stopped at {measured.seconds:.0f} s"
    return f"{measured.seconds:.2f} ({measured.records:,} records)"


def _page() -> str:
    kept = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "numpy", "pyarrow", "pandas"))
    lines = [
        "# Performance",
        "",
        "Written by `make bench`. Seconds are medians of steady micro-batches (or of the bounded query), both sides in "
        "one process, one after the other, each after a run that warms up the JVM; records are those of a micro-batch "
        "(or of the query). Goals are what the project has set itself, also where it does not reach them.",
        "",
        RATIOS,
        *(kept[each.__name__] for each in streams.ALL if each.__name__ in kept),
        "",
        "A million keys, 500,000 records a minute, one window a micro-batch, then 60 windows at once:",
        "",
        PEAKS,
        *(row for name, row in kept.items() if name.startswith("Memory")),
        "",
        "2 cores, 2 shuffle partitions, RocksDB with changelog checkpoints, noop sink. "
        f"Python {platform.python_version()}, {versions}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
