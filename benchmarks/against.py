"""This tree against an older commit, in turns: `python -m benchmarks.against COMMIT [--only NAME] [--turns 3]`."""

import argparse
import signal
import sys

from benchmarks.baselines.old_commit import both
from benchmarks.comparisons import old_commit
from benchmarks.report import tables


def main() -> int:
    """Print a line for each comparison; return 1 if rows differ in any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("commit", help="a commit, branch or tag")
    parser.add_argument("--only", action="append", default=[], help="a part of the names of lines; repeatable")
    parser.add_argument("--turns", type=int, default=3, help="how many turns each side has; the best one counts")
    parser.add_argument("--share", type=float, default=1.0, help="of all records and keys, to try it")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error(f"--turns: at least 1; got {options.turns}")
    for part in options.only:
        if not any(part in line.name for line in old_commit.LINES):
            names = "; ".join(line.name for line in old_commit.LINES)
            parser.error(f"--only: no line has {part!r} in its name; there are: {names}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that SIGTERM still removes the work tree
    print(tables.markdown(old_commit.HEAD), flush=True)
    differs = False
    with both(options.commit) as (now, then):
        for cells in old_commit.lines(now.watched, then.watched, options.only, options.turns, options.share):
            print(tables.line(cells), flush=True)
            differs |= "differ" in cells[3]
    print(f"best of {options.turns} turns", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
