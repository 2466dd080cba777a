"""All benchmarks by one command: `python -m benchmarks.run [--quick | --all [--resume]] [--only NAME] [--write]`.

Every result is kept in a file of its own in `.asv`. So single benchmarks can be measured again (`--only`, repeated; a
part of a name will do), and `--write` alone makes docs/performance.md and docs/performance/measurements.md anew from
what there is. With `--resume` what ran to its end before, with the same code on the same machine, is left out: a run of
hours can be stopped and continued later.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator

from benchmarks import ROOT
from benchmarks.comparisons import registry
from benchmarks.report import page, results
from benchmarks.running import session
from benchmarks.running.resuming import Measured

Benchmark = Callable[[], results.Kept | None]


def main() -> int:
    """Measure and print the chosen benchmarks, optionally write the page; return 1 if rows differ or one failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--only", action="append", default=[], help="a benchmark, or a part of names; repeatable")
    parser.add_argument("--all", action="store_true", help="everything, for more than an hour")
    parser.add_argument("--resume", action="store_true", help="leave out what has been measured with the same code")
    parser.add_argument("--list", action="store_true", help="only print the names")
    parser.add_argument(
        "--write", action="store_true", help="write docs/performance.md and its measurements from all results"
    )
    options = parser.parse_args()
    names = [name for name, _ in _benchmarks(options.quick)]
    for part in options.only:
        if not any(part in name for name in names):
            parser.error(f"--only: no benchmark has {part!r} in its name; --all --list prints the names")
    if not (options.quick or options.all or options.only or options.write):
        parser.error("nothing to measure: give --quick, --all, or --only and a part of a name; or --write alone")
    chosen = _chosen(options.quick, options.all, options.only)
    measured = Measured(results.machine(os.cpu_count() or 1))
    if options.resume:
        chosen = ((name, each) for name, each in chosen if name not in measured)
    if options.list:
        print(*(name for name, _ in chosen), sep="\n")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM still writes the page
    try:
        # A quick run may measure only a part of a benchmark, so it marks none as measured.
        wrong = [name for name, each in chosen if not _is_right(name, each, None if options.quick else measured)]
    finally:
        session.stop()
        if options.write:
            page.write()
    if wrong:
        print(f"Failed, or rows differ: {', '.join(wrong)}.")
    return min(len(wrong), 1)


def _is_right(name: str, benchmark: Benchmark, measured: Measured | None = None) -> bool:
    """Measure and print the result; a benchmark that fails prints its error and does not stop the others."""
    print(name, end=": ", flush=True)
    start = time.monotonic()
    try:
        found = benchmark()
    except Exception:
        print(f"failed ({time.monotonic() - start:.0f} s)", flush=True)
        traceback.print_exc()
        session.stop()  # the failed benchmark may have left queries running
        return False
    if found is not None:
        results.keep(found)
    if measured:
        measured.add(name)
    print(f"{'done' if found is None else page.in_short(found)} ({time.monotonic() - start:.0f} s)", flush=True)
    return not (isinstance(found, results.Ratio) and found.differs)


def _chosen(quick: bool, every: bool, only: list[str]) -> Iterator[tuple[str, Benchmark]]:
    """The chosen benchmarks; a part of a name selects all names that contain it, unless it is a complete name."""
    there = dict(_benchmarks(quick))
    for name, benchmark in there.items():
        named = any(name == part or (part not in there and part in name) for part in only)
        if named or (not only and (quick or every)):
            yield name, benchmark


def _benchmarks(quick: bool) -> Iterator[tuple[str, Benchmark]]:
    """All benchmarks, the most important first."""
    for each in registry.benchmarks():
        if not quick or each.name in registry.QUICK:
            yield each.name, each.measured
    yield "Kernels", lambda: kernels(quick)


def kernels(quick: bool) -> None:
    """Let asv time the kernels, under the current commit."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    # The page shows the newest stored times; a few kernels that ran once must not replace all of them.
    chosen = ["--quick", "--dry-run", "--bench=^kernels.(Blocks|Assembly)"] if quick else ["--bench=^kernels"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command in (
        ["machine", "--yes"],
        ["run", f"--python={sys.executable}", f"--set-commit-hash={commit}", *chosen],
    ):
        subprocess.run([sys.executable, "-m", "asv", *command], cwd=ROOT, env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main())
