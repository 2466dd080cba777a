"""A day of payments as a stream: hourly figures of every user, every minute, and how long Spark's own windows take.

    python -m benchmarks.demo [--quick]

Both engines get the same files one after another, take turns on the machine, and pass their windows to the same sink,
so their micro-batches and what comes out of them can be compared.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

import combinators as C
from benchmarks import ROOT
from benchmarks.demo_page import page
from benchmarks.workloads.feed import Feed, write
from slicing import group_by, hopping
from slicing.cli.session import session
from slicing.drawing import Display
from slicing.spark.progress import REMEMBERED, micro_batch, panel

SIZE, ADVANCE, DELAY = "1 hour", "1 minute", "10 minutes"
QUICK = Feed(records=200_000, users=1_000, files=10)
SPARK_SECONDS = {False: 75, True: 30}

PAGE = ROOT / "build" / "demo.html"

NEXT = 'python -m slicing payments.csv --time ts --keys user --size "1 hour" --aggregate "spent=sum(amount)"'
HEAD = "file  records watermark   windows  slicing    Spark  faster   who spent most in the newest window"


@dataclass
class Engine:
    """A query over its own directory, with the progress of its micro-batches since the last call of `batch`."""

    name: str
    inbox: Path
    query: object = None
    newest: list = field(default_factory=list)
    seen: int = -1
    known: deque = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def feed(self, path):
        """Make the next file available to the query."""
        os.link(path, self.inbox / path.name)

    def wait(self, seconds):
        """Return whether all available files are processed within `seconds`, including the closing of windows."""
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        worker.join(seconds)
        return not worker.is_alive()

    def _work(self):
        try:
            self.query.processAllAvailable()
        except Exception:
            # Stopped while waiting, or failed: `batch` finds out which.
            return

    def batch(self):
        """Return the figures since the last call: of a micro-batch with records, and of one that closes windows."""
        if error := self.query.exception():
            raise error
        fresh = [p for p in self.query.recentProgress if p["batchId"] > self.seen and "addBatch" in p["durationMs"]]
        self.seen = max((p["batchId"] for p in fresh), default=self.seen)
        self.known.extend(replace(found, query=self.name) for found in map(micro_batch, fresh) if found)
        return Batch(
            sum(p["numInputRows"] for p in fresh),
            fresh[-1]["eventTime"].get("watermark", "") if fresh else "",
            tuple(sum(p["observedMetrics"]["made"][name] or 0 for p in fresh) for name in ("windows", "spent")),
            sum(p["durationMs"]["triggerExecution"] for p in fresh) / 1000,
            sum(counts["late"] + counts["late_for_some"] for p in fresh for counts in refused(p)),
        )


@dataclass(frozen=True)
class Batch:
    """The figures of the micro-batches of one file."""

    records: int
    watermark: str
    made: tuple
    seconds: float
    late: int


def refused(progress):
    """Return the framework's counts of refused records in a micro-batch; empty for Spark's own windows."""
    return [row for name, row in progress["observedMetrics"].items() if name.startswith("slicing")]


def ours(payments):
    """Return count, sum, mean and maximum of each user's payments, with this framework; print the plan."""
    grouped = group_by(payments, "user").window(hopping(SIZE, advance=ADVANCE), time="ts")
    results = {"orders": C.count(), "spent": C.sum("amount"), "mean": C.mean("amount"), "largest": C.max("amount")}
    print(grouped.plan(**results), end="\n\n")
    return grouped.aggregate(**results)


def sparks(payments):
    """Return the same results with Spark's own windows."""
    from pyspark.sql import functions as F

    return payments.groupBy("user", F.window("ts", SIZE, ADVANCE)).agg(
        F.count("*").alias("orders"),
        F.sum("amount").alias("spent"),
        F.avg("amount").alias("mean"),
        F.max("amount").alias("largest"),
    )


def start(spark, name, windows_of, schema, root):
    """Return an engine whose query waits for files."""
    from pyspark.sql import functions as F

    engine = Engine(name, root / name / "in")
    engine.inbox.mkdir(parents=True)
    payments = spark.readStream.schema(schema).parquet(str(engine.inbox)).withWatermark("ts", DELAY)
    made = windows_of(payments).observe("made", F.count("*").alias("windows"), F.sum("spent").alias("spent"))

    def newest(batch, _):
        order = (F.col("window.end").desc(), F.col("spent").desc(), "user")
        row = batch.orderBy(*order).selectExpr("*", "date_format(window.start, 'HH:mm') as t").limit(1).collect()
        engine.newest = row or engine.newest

    writer = made.writeStream.outputMode("append").option("checkpointLocation", str(root / name / "checkpoint"))
    engine.query = writer.foreachBatch(newest).trigger(processingTime="100 milliseconds").start()
    return engine


class Show:
    """The live table: a line per file, each cell as soon as it is known.

    In a terminal, a panel below it shows the progress of our micro-batches.
    """

    def __init__(self, seconds):
        self.display, self.line = Display(sys.stdout), ""
        self.left = self.limit = seconds
        self.pairs, self.equal, self.ours = [], True, []
        self.stopped = None

    def file(self, number, path, mine, spark):
        """Let both engines process a file, one after the other, and print its line."""
        mine.feed(path)
        mine.wait(None)
        batch = mine.batch()
        self.ours.append(batch)
        clock = batch.watermark[11:16] or "-"
        self._cell(f"{number:>4} {batch.records:>8,} {clock:>9} {batch.made[0]:>9,} {batch.seconds:>6.1f} s ")
        if self.display.live and mine.known:
            self.display.show(mine.name, panel(mine.known))
        self._cell(self._spark(path, batch, spark) if self.stopped is None else f"{'-':>8} {'':>7}")
        self._cell(f"   {spender(mine.newest)}\n")

    def _cell(self, text):
        """Add a cell to the line of a file; a complete line stays above the panel."""
        if not self.display.live:
            say(text)
            return
        self.line += text
        self.display.show("file", self.line.rstrip("\n"))
        if text.endswith("\n"):
            self.display.end("file")
            self.line = ""

    def _spark(self, path, batch, spark):
        spark.feed(path)
        began = time.monotonic()
        finished = spark.wait(self.left)
        self.left -= time.monotonic() - began
        if not finished:
            spark.query.stop()
            self.stopped = time.monotonic() - began
            return f"> {self.stopped:.0f} s".rjust(8) + " stopped"
        other = spark.batch()
        self.pairs.append((batch, other))
        self.equal &= batch.made == other.made
        return f"{other.seconds:>6.1f} s {other.seconds / batch.seconds:>5.1f} x"

    def summary(self):
        """Return the totals and the comparison, a line each."""
        batches, rows = self.ours, sum(batch.made[0] for batch in self.ours)
        seconds, records = sum(batch.seconds for batch in batches), sum(batch.records for batch in batches)
        late = sum(batch.late for batch in batches)
        text = f"slicing: {records:,} records and {rows:,} windows in {seconds:.1f} s, {late:,} records late\n"
        if self.stopped is not None:
            text += f"Spark's window(): stopped after {self.limit} s in all, in file {len(self.pairs) + 1}\n"
        return text + self._comparison() if self.pairs else text

    def seconds(self):
        """Return the seconds of each file, of both engines; None where Spark was stopped."""
        spark = [other.seconds for _, other in self.pairs]
        return list(zip_longest((mine.seconds for mine in self.ours), spark))

    def _comparison(self):
        ratios = [other.seconds / mine.seconds for mine, other in self.pairs]
        total = [sum(batch.seconds for batch in side) for side in zip(*self.pairs, strict=True)]
        equal = "the same number of windows and the same sums" if self.equal else "DIFFERENT windows"
        return (
            f"on the {len(ratios)} files that both finished: {total[0]:.1f} s and {total[1]:.1f} s, "
            f"{statistics.median(ratios):.1f} x in the median; {equal}\n"
        )


def spender(rows):
    """Return the user who spent most in the newest closed window, as text."""
    if not rows:
        return "none closed yet"
    row = rows[0]
    return f"{row.t} + 1 h: user {row.user} spent {row.spent / 100:,.2f} in {row.orders} payments"


def say(text):
    """Print text without a line break, and flush."""
    print(text, end="", flush=True)


def finish(seconds, summary, path=PAGE):
    """Print the summary and what to do next, and write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(seconds, summary), encoding="utf-8")
    say(f"\n{summary}\n{next_steps(path)}")


def next_steps(path):
    """Return what to do next, a line each."""
    return (
        f"see the result:  {path.as_uri()}\n"
        "read:            docs/quickstart.md, then docs/how-do-i.md\n"
        f"your own file:   {NEXT}\n"
    )


def run(quick, root):
    """Generate the payments, run both engines, compare."""
    feed = QUICK if quick else Feed()
    say(f"writing {feed.records:,} payments of {feed.users:,} users over a day ...\n")
    paths = write(feed, root / "feed")
    say("starting Spark ...\n\n")
    spark = session(root, "demo")
    try:
        schema = spark.read.parquet(str(paths[0])).schema
        mine = start(spark, "slicing", ours, schema, root)
        other = start(spark, "spark", sparks, schema, root)
        show = Show(SPARK_SECONDS[quick])
        say(f"{SIZE} windows every {ADVANCE}, watermark {DELAY} behind; seconds per file: slicing, Spark's window()\n")
        say(f"{HEAD}\n")
        for number, path in enumerate(paths, start=1):
            show.file(number, path, mine, other)
        finish(show.seconds(), show.summary())
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def main():
    """Run the demo; Ctrl-C ends it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, a third of the time")
    quick = parser.parse_args().quick
    root = Path(tempfile.mkdtemp(prefix="slicing-demo-"))
    began = time.monotonic()
    try:
        run(quick, root)
        say(f"done in {time.monotonic() - began:.0f} s\n")
    except KeyboardInterrupt:
        say("\nstopped\n")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
