"""All comparisons, printed as they are measured: `python -m benchmarks.run [--quick] [--only NAME] [--write FILE]`."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version
from pathlib import Path

from benchmarks import streams
from benchmarks.measure import Measured, session

HEAD = "| workload / baseline | baseline, s | ours, s | ratio | unit | goal |\n| --- | --- | --- | --- | --- | --- |"


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few comparisons, about five minutes")
    parser.add_argument("--only", action="append", help="the name of a comparison; repeat for several")
    parser.add_argument("--write", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    chosen = streams.QUICK if options.quick else streams.ALL
    rows = [HEAD]
    print(HEAD, flush=True)
    for comparison in (each for each in chosen if not options.only or each.__name__ in options.only):
        rows.append(_row(comparison()))
        print(rows[-1], flush=True)
    session().stop()
    if options.write:
        options.write.write_text(_page(rows))


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


def _page(rows: list[str]) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "numpy", "pyarrow", "pandas"))
    lines = [
        "# Performance",
        "",
        "Written by `make bench`. Seconds are medians of steady micro-batches (or of the bounded query), both sides in "
        "one process, one after the other; records are those of a micro-batch (or of the query).",
        "",
        *rows,
        "",
        "2 cores, 2 shuffle partitions, RocksDB with changelog checkpoints, noop sink. "
        f"Python {platform.python_version()}, {versions}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
