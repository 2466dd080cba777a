"""The Spark half of the command line: reads, runs and prints a job, once or as files arrive."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slicing.cli.command import FAILED, UNREADABLE, Job
from slicing.cli.console import complain, failure, print_table, reporting_alive, say, showing_progress, visible
from slicing.cli.csv_files import CSV
from slicing.cli.loading import BAD
from slicing.cli.reading import bounded, stream
from slicing.cli.session import session
from slicing.drawing import Display, counted
from slicing.spark.columns import quoted
from slicing.spark.plausible import plausible
from slicing.spark.progress import REMEMBERED, MicroBatch, micro_batch, panel

POLL_SECONDS = 0.2
INPUT = "input"
"""The name of the observed metrics of a stream's input."""

_RECORDS = {
    "csv": "Lines of CSV have as many fields as the header.",
    "json": "JSON has one object in each line.",
    "parquet": "",
}


def run(job: Job, scratch: Path) -> int:
    """Start Spark, run the job, stop Spark; return the exit code."""
    say(f"starting Spark to read {job.source} ...")
    with reporting_alive("Spark has been starting"):
        spark = session(scratch)
    signal.signal(signal.SIGINT, interrupt)
    return reported(spark, scratch, lambda: follow(job, spark, scratch) if job.follow else once(job, spark))


def reported(spark: SparkSession, scratch: Path, work: Callable[[], int]) -> int:
    """Return the exit code of `work`, or that of an error of Spark, which is printed. Stops Spark."""
    try:
        return work()
    except (PySparkException, Py4JError) as error:
        return complain(f"{failure(error)} (Spark's log: {keep_log(scratch)})", FAILED)
    finally:
        spark.stop()


def keep_log(scratch: Path) -> Path:
    """Return the path of a copy of Spark's log, which only its owner can read because it may contain records."""
    handle, name = tempfile.mkstemp(prefix="slicing-", suffix=".log")
    os.close(handle)
    return Path(shutil.copyfile(scratch / "spark.log", name))


def interrupt(*_: Any) -> NoReturn:
    """Exit at once. Replaces pyspark's handler, which calls into Spark and fails if it interrupts such a call."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt


@dataclass
class InputCounts:
    """The numbers of read and of unreadable records, and an example of an unreadable one."""

    records: int = 0
    unreadable: int = 0
    example: str | None = None

    def add(self, counts: dict[str, Any]) -> None:
        """Add the metrics that `accounted` observed."""
        self.records += counts["records"]
        self.unreadable += counts["unreadable"]
        self.example = self.example or counts["example"]

    def exit_code(self, job: Job) -> int:
        """Report the unreadable records, and return the exit code."""
        if not self.unreadable:
            return 0
        lost = f"{self.unreadable:,} of {self.records:,} records could not be read and are in no window"
        if job.allow_bad:
            say(lost)
            return 0
        right = f"Times are text such as 2024-05-01T12:00:00Z. {_RECORDS[job.source_format]}"
        return complain(f"{lost}, for example {self.example!r}. {right} Accept it with --allow-bad.", UNREADABLE)


def accounted(job: Job, frame: DataFrame, observation: Observation | str) -> DataFrame:
    """Return the readable records; observe the number of all and of unreadable ones as metrics."""
    metrics = [
        F.count(F.lit(1)).alias("records"),
        F.count(quoted(BAD)).alias("unreadable"),
        F.max(F.substring(quoted(BAD), 1, 100)).alias("example"),
        F.count_if(quoted(job.time).isNull() & quoted(BAD).isNull()).alias("without_time"),
    ]
    return frame.observe(observation, *metrics).where(quoted(BAD).isNull()).drop(BAD)


def presented(job: Job, frame: DataFrame) -> DataFrame:
    """Return the windows with columns `window_start` and `window_end`, for formats without structs."""
    times = [F.col(f"window.{edge}").alias(f"window_{edge}") for edge in ("start", "end")]
    return frame.select(*map(quoted, job.keys), *times, *map(quoted, job.results))


def once(job: Job, spark: SparkSession) -> int:
    """Run on bounded input: print or write all windows, then one line about the run; return the exit code."""
    started = time.monotonic()
    read, made = Observation("read"), Observation("made")
    windows = job.aggregate(accounted(job, bounded(job, spark), read)).observe(made, F.count(F.lit(1)).alias("windows"))
    with showing_progress(spark):
        table = None if job.output else top(job, windows)
        if job.output:
            write(job, windows, job.output)
    if table:
        print_table(*table)
    input_counts, counts = InputCounts(), read.get
    input_counts.add(counts)
    say(summary(job, counts | made.get, time.monotonic() - started))
    return input_counts.exit_code(job)


def write(job: Job, windows: DataFrame, output: Path) -> None:
    """Write all windows to the output directory."""
    frame = presented(job, windows) if job.output_format == "csv" else windows
    writer = frame.write.format(job.output_format)
    if job.output_format == "csv":
        writer = writer.options(**CSV)
    writer.save(str(output.absolute()))


def top(job: Job, windows: DataFrame) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return the first rows by window and key: column names, rows of text, and which columns are numeric."""
    frame = presented(job, windows)
    ordered = frame.orderBy("window_start", "window_end", *map(quoted, job.keys)).limit(job.limit)
    texts = ordered.select(*(quoted(name).cast("string").alias(name) for name in frame.columns))
    rows = [["null" if cell is None else cell for cell in row] for row in texts.collect()]
    numeric = [kind.startswith(("tiny", "small", "int", "big", "float", "double", "dec")) for _, kind in frame.dtypes]
    return frame.columns, rows, numeric


def summary(job: Job, counts: dict[str, int], seconds: float) -> str:
    """Return one line about a bounded run."""
    windows = counts["windows"]
    shown = f", {min(job.limit, windows):,} shown" if not job.output else f" in {job.output}"
    timeless = counts["without_time"]
    lost = f"; without time, and so in no window: {counted(timeless, 'record')}" if timeless else ""
    return f"{windows:,} windows{shown}, from {counts['records']:,} records, in {seconds:.1f} s{lost}"


# Streams


def follow(job: Job, spark: SparkSession, scratch: Path) -> int:
    """Process the files of a directory as a stream until a signal, and show its progress; return the exit code."""
    with stopping() as stop, ExitStack() as first:
        first.enter_context(reporting_alive("the first micro-batch has been under way"))
        # A record from the year 9999 would move the watermark there, and all later records would be late.
        frame = plausible(
            accounted(job, stream(job, spark), INPUT), f"`{job.time.replace('`', '``')}`", f"{job.ahead} microseconds"
        )
        frame = frame.withWatermark(f"`{job.time.replace('`', '``')}`", f"{job.delay} microseconds")
        display = Display(sys.stderr)
        query = sink(job, job.aggregate(frame), job.checkpoint or scratch / "checkpoint", display).start()
        say(f"following {job.source}; Ctrl-C ends")
        try:
            input_counts = show_micro_batches(query, stop, first.close, display, visible(str(job.source)))
        finally:
            query.stop()
    error = query.exception()
    if error is not None and not stop.is_set():
        raise error
    say("stopped; windows still open are kept in the checkpoint" if job.checkpoint else "stopped")
    return input_counts.exit_code(job)


def sink(job: Job, windows: DataFrame, checkpoint: Path, display: Display) -> DataStreamWriter:
    """Return the writer of the stream: to files, or a printer of rows after each micro-batch."""

    if job.output_format == "csv":
        windows = presented(job, windows)
    writer = windows.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint.absolute()))
    writer = writer.trigger(processingTime="1 second")
    if job.output is None:
        return writer.foreachBatch(lambda batch, _: print_rows(job, batch, display))
    writer = writer.format(job.output_format).option("path", str(job.output.absolute()))
    return writer.options(**CSV) if job.output_format == "csv" else writer


def print_rows(job: Job, batch: DataFrame, display: Display) -> None:
    """Print the first windows of a micro-batch, with a single action: each action runs the stateful operator again."""
    table = top(job, batch)
    if table[1]:
        with display.printing_above():
            print_table(*table)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set, so that they do not interrupt Spark; a second SIGINT interrupts."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(*_: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, interrupt)

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_micro_batches(
    query: StreamingQuery, stop: threading.Event, started: Callable[[], None], display: Display, name: str
) -> InputCounts:
    """Show each micro-batch until `stop` is set or the query ends; call `started` at the first one.

    A terminal shows a few lines that are updated, under this name; other outputs get one line per micro-batch.
    """
    input_counts, known = InputCounts(), deque[MicroBatch](maxlen=REMEMBERED)
    going = True
    while going:
        going = query.isActive and not stop.wait(POLL_SECONDS)
        for progress in query.recentProgress:
            found = micro_batch(progress)
            if found and (not known or found.number > known[-1].number):
                started()
                line = figures(found, progress, input_counts)
                known.append(replace(found, query=name))
                display.show(name, panel(known) if display.live else visible(line))
    return input_counts


def figures(found: MicroBatch, progress: Mapping[str, Any], input_counts: InputCounts) -> str:
    """Return the figures of a micro-batch with its unreadable records. Spark's record count includes CSV headers."""
    observed = progress["observedMetrics"].get(INPUT)
    if observed is None:
        return found.line()
    counts = observed.asDict()
    input_counts.add(counts)
    lost = f", {counts['unreadable']:,} unreadable" if counts["unreadable"] else ""
    return replace(found, records=counts["records"]).line() + lost
