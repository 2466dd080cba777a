"""The part of a micro-batch that is there without work: `python -m benchmarks.public.fixed [--only PART]`.

Each line against Spark is run with all of its events, then with a hundredth of them, over the same event time. What is
left then is of Spark and of stages that have next to nothing to do, so it bounds every ratio: no mending of what is
done per record brings a line beyond Spark's time divided by it.
"""

import argparse
from dataclasses import replace

from benchmarks.public import stream
from benchmarks.public.catalogue import LINES
from benchmarks.public.line import OURS, SPARK
from benchmarks.report.tables import line as row
from benchmarks.report.tables import markdown
from benchmarks.running.session import stop

SHARE = 0.01


def main() -> None:
    """Print the seconds of a micro-batch of the chosen lines, with all events and with few."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the names of lines")
    only = parser.parse_args().only
    print(markdown(("benchmark and query", "seconds", "with a hundredth of the events")))
    for line in (each for each in LINES if each.against == SPARK and only in each.name):
        side = line.side(OURS)
        runs = (stream.run(each) for each in (side, replace(side, workload=line.workload.cut(SHARE))))
        print(row((line.name, *("stopped" if each.stopped else f"{each.seconds:.2f}" for each in runs))), flush=True)
    stop()


if __name__ == "__main__":
    main()
