"""All lines: `python -m benchmarks.public [--resume] [--only PART] [--turns 2] [--minutes 60] [--write]`.

Each line is kept as soon as it is measured. With `--resume`, lines that were measured with the same code on the same
machine are left out. No line begins when the minutes are over: the next run with `--resume` continues. The table at the
end has all lines that are kept; `--write` puts it into docs/performance.md, where other lines stay as they are.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.public import measuring
from benchmarks.public.catalogue import LINES
from benchmarks.public.table import table
from benchmarks.report import guide, page, results
from benchmarks.running.resuming import Measured

PART = "public"


def main() -> int:
    """Measure the chosen lines and print the table; return 1 if rows differ in any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--resume", action="store_true", help="leave out what has been measured with the same code")
    parser.add_argument("--only", action="append", default=[], help="a part of the names of lines; repeatable")
    parser.add_argument("--turns", type=int, default=2, help="how many turns each side has; the best one counts")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long lines may begin")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    done, wrong = Measured(results.machine(os.cpu_count() or 1)), 0
    chosen = [line for line in LINES if not options.only or any(part in line.name for part in options.only)]
    waiting = [line for line in chosen if not (options.resume and line.name in done)]
    end = time.monotonic() + 60 * options.minutes
    while waiting and (start := time.monotonic()) < end:
        line = waiting.pop(0)
        found = measuring.measured(line, options.turns)
        results.keep(found, measuring.FOLDER)
        done.add(line.name)
        wrong += found.differs is not None
        print(f"{line.name}: {page.in_short(found)} ({time.monotonic() - start:.0f} s)", flush=True)
    if waiting:
        print(f"not measured in {options.minutes:g} minutes: {'; '.join(line.name for line in waiting)}")
    print(table(results.kept(measuring.FOLDER)))
    if options.write:
        write(page.GUIDE)
    return min(wrong, 1)


def write(path: Path) -> None:
    """Put the lines that are kept into a page."""
    before = path.read_text()
    lines = table(results.kept(measuring.FOLDER), guide.part(before, PART))
    path.write_text(guide.with_part(before, PART, lines))


if __name__ == "__main__":
    sys.exit(main())
