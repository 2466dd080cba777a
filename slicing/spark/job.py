"""The command line's half on Spark: reading, running and showing a job, once or as files arrive."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slicing.errors import InvalidType, InvalidValue
from slicing.spark.progress import micro_batch
from slicing.spark.session import session

POLL_SECONDS = 0.2

_OPTIONS: dict[str, dict[str, str]] = {"csv": {"header": "true", "inferSchema": "true"}, "json": {}, "parquet": {}}
_RAISED = re.compile(r"slicing\.errors\.\w+: (.+)")


@dataclass(frozen=True)
class Job:
    """What the command line asks for, checked as far as that goes without Spark. Durations are in microseconds."""

    source: Path
    source_format: str
    time: str
    keys: tuple[str, ...]
    results: tuple[str, ...]
    aggregate: Callable[[DataFrame], DataFrame]
    grace: int
    delay: int
    follow: bool
    output: Path | None
    output_format: str
    checkpoint: Path | None
    max_files: int | None
    limit: int


def complain(message: str, code: int) -> int:
    """Print an error as one line and return the exit code."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code


def run(job: Job, scratch: Path) -> int:
    """Start Spark, do the job, stop Spark."""
    say(f"starting Spark to read {job.source} ...")
    spark = session(scratch)
    signal.signal(signal.SIGINT, interrupt)
    try:
        return follow(job, spark, scratch) if job.follow else once(job, spark)
    except (PySparkException, Py4JError) as error:
        return complain(f"{reason(error)} (Spark's log: {keep_log(scratch)})", 1)
    finally:
        spark.stop()


def keep_log(scratch: Path) -> Path:
    """A copy of Spark's log that stays."""
    handle, name = tempfile.mkstemp(prefix="slicing-", suffix=".log")
    os.close(handle)
    return Path(shutil.copy(scratch / "spark.log", name))


def interrupt(*_: Any) -> NoReturn:
    """End at once, in place of pyspark's handler, which calls into Spark and fails when that is what it interrupts."""
    logging.disable(logging.CRITICAL)
    raise KeyboardInterrupt


def reason(error: Exception) -> str:
    """What failed, in one line: the framework's own message if a worker raised one, else Spark's first line."""
    text = str(error)
    raised = _RAISED.search(text)
    return raised[1] if raised else next(filter(None, text.splitlines()), type(error).__name__)


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def windowed(job: Job, frame: DataFrame) -> DataFrame:
    """The windows of a DataFrame, with the time column made a timestamp."""
    frame = with_time(frame, job.time)
    if frame.isStreaming:
        frame = frame.withWatermark(job.time, f"{job.delay} microseconds")
    return job.aggregate(frame)


def with_time(frame: DataFrame, column: str) -> DataFrame:
    """The frame with its time column as a timestamp: text is cast, and what is not a time becomes null and is counted.

    Raises InvalidType for numbers, InvalidValue for a column that does not exist.
    """

    kind = dict(frame.dtypes).get(column)
    if kind is None:
        raise InvalidValue(f"time column `{column}` does not exist; the columns are {', '.join(frame.columns)}.")
    if kind in ("timestamp", "timestamp_ntz"):
        return frame
    if kind in ("string", "date"):
        return frame.withColumn(column, F.col(f"`{column}`").try_cast("timestamp"))
    raise InvalidType(
        f"time column `{column}` must hold timestamps or text such as 2024-05-01T12:00:00Z; got {kind}, and a number "
        f'does not say its unit. Convert it first, for example with `F.timestamp_seconds("{column}")`.'
    )


def presented(job: Job, frame: DataFrame) -> DataFrame:
    """Windows as columns `window_start` and `window_end`, for what knows no structs."""
    times = ("window.start as window_start", "window.end as window_end")
    return frame.selectExpr(*map(_quoted, job.keys), *times, *map(_quoted, job.results))


def _quoted(name: str) -> str:
    return f"`{name}`"


def once(job: Job, spark: SparkSession) -> int:
    """Bounded input: print or write all windows, then one line about the run."""

    started = time.monotonic()
    read, made = Observation("read"), Observation("made")
    frame = with_time(
        spark.read.format(job.source_format).options(**_OPTIONS[job.source_format]).load(str(job.source)), job.time
    )
    without = F.count_if(F.col(_quoted(job.time)).isNull()).alias("without_time")
    frame = frame.observe(read, F.count(F.lit(1)).alias("records"), without)
    windows = windowed(job, frame).observe(made, F.count(F.lit(1)).alias("windows"))
    if job.output:
        write(job, windows)
    else:
        print_table(top(job, windows))
    counts = read.get | made.get
    say(summary(job, counts, time.monotonic() - started))
    return 0


def write(job: Job, windows: DataFrame) -> None:
    """Write all windows to the output directory."""
    frame = presented(job, windows) if job.output_format == "csv" else windows
    writer = frame.write.format(job.output_format)
    if job.output_format == "csv":
        writer = writer.option("header", "true")
    writer.save(str(job.output))


def top(job: Job, windows: DataFrame) -> tuple[list[str], list[list[str]], list[bool]]:
    """The first rows by window and key as text, with the names of the columns and which of them are numbers."""
    frame = presented(job, windows)
    ordered = frame.orderBy("window_start", *map(_quoted, job.keys)).limit(job.limit)
    cast = [f"cast({_quoted(name)} as string) as {_quoted(name)}" for name in frame.columns]
    rows = [["null" if cell is None else cell for cell in row] for row in ordered.selectExpr(*cast).collect()]
    numeric = [kind.startswith(("tiny", "small", "int", "big", "float", "double", "dec")) for _, kind in frame.dtypes]
    return frame.columns, rows, numeric


def print_table(table: tuple[list[str], list[list[str]], list[bool]]) -> None:
    """Print rows in columns, numbers to the right."""
    names, rows, numeric = table
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for cells in [names, ["-" * width for width in widths], *rows]:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        print("  ".join(aligned).rstrip(), flush=True)


def summary(job: Job, counts: dict[str, int], seconds: float) -> str:
    """One line about a bounded run."""
    windows = counts["windows"]
    shown = f", {min(job.limit, windows):,} shown" if not job.output else f" in {job.output}"
    lost = f"; {counts['without_time']:,} records had no time and are in no window" if counts["without_time"] else ""
    return f"{windows:,} windows{shown}, from {counts['records']:,} records, in {seconds:.1f} s{lost}"


# Streams


def follow(job: Job, spark: SparkSession, scratch: Path) -> int:
    """The files of a directory as a stream, until a signal: one line of progress per micro-batch."""
    with stopping() as stop:
        query = sink(job, windowed(job, stream_of(job, spark)), checkpoint(job, scratch)).start()
        say(f"following {job.source}; Ctrl-C ends")
        try:
            watch(query, stop)
        finally:
            query.stop()
    error = query.exception()
    if error is not None and not stop.is_set():
        raise error
    say("stopped; windows still open are kept in the checkpoint" if kept(job) else "stopped")
    return 0


def stream_of(job: Job, spark: SparkSession) -> DataFrame:
    """The directory as a stream, with the schema of the files that are there already."""
    options = _OPTIONS[job.source_format]
    schema = spark.read.format(job.source_format).options(**options).load(str(job.source)).schema
    reader = spark.readStream.format(job.source_format).schema(schema).options(**options)
    if job.max_files is not None:
        reader = reader.option("maxFilesPerTrigger", job.max_files)
    return reader.load(str(job.source))


def kept(job: Job) -> bool:
    """Whether the checkpoint outlives the run."""
    return job.checkpoint is not None or job.output is not None


def checkpoint(job: Job, scratch: Path) -> Path:
    """Where the stream remembers: as asked for, beside the output, or nowhere for long."""
    if job.checkpoint is not None:
        return job.checkpoint
    return job.output.with_name(job.output.name + ".checkpoint") if job.output else scratch / "checkpoint"


def sink(job: Job, windows: DataFrame, checkpoint: Path) -> DataStreamWriter:
    """The writer of the stream: files, or rows printed after each micro-batch."""

    if job.output_format == "csv":
        windows = presented(job, windows)
    writer = windows.writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(processingTime="1 second")
    if job.output is None:
        return writer.foreachBatch(lambda batch, _: print_rows(job, batch))
    writer = writer.format(job.output_format).option("path", str(job.output))
    return writer.option("header", "true") if job.output_format == "csv" else writer


def print_rows(job: Job, batch: DataFrame) -> None:
    """Print a micro-batch's first windows. One action only: each would run the stateful operator again."""
    table = top(job, batch)
    if table[1]:
        print_table(table)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, instead of interrupting a call into Spark; the second one interrupts."""
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


def watch(query: StreamingQuery, stop: threading.Event) -> None:
    """Print a line for every micro-batch until asked to stop or the query ends."""
    shown = -1
    while query.isActive and not stop.wait(POLL_SECONDS):
        for progress in query.recentProgress:
            found = micro_batch(progress)
            if found and found.number > shown:
                shown = found.number
                say(found.line())
