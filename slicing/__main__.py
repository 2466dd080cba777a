"""The command line: windowed aggregates of CSV, JSON and Parquet files, once or as files arrive.

    python -m slicing mentions.csv.gz --time ts --keys symbol --size "7 days" --advance "1 hour" \\
        --aggregate "mean(mentions)"

Arguments are checked before Spark starts; an error is one line on stderr and exit code 2. Results go to stdout or to
`--output`, progress to stderr.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import combinators
from slicing.aggregate import Bound
from slicing.errors import InvalidType, InvalidValue, SlicingError
from slicing.grouping import Windowed, group_by
from slicing.windows import Hopping, hopping, microseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
POLL_SECONDS = 0.2

_OPTIONS = {"csv": {"header": "true", "inferSchema": "true"}, "json": {}, "parquet": {}}
_RESULT = re.compile(r"\s*(?:(\w+)\s*=\s*)?(\w+)\s*\((.*)\)\s*")
_RAISED = re.compile(r"slicing\.errors\.\w+: (.+)")
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Job:
    """What the command line asks for, checked as far as that goes without Spark. Durations are in microseconds."""

    source: Path
    source_format: str
    time: str
    keys: tuple[str, ...]
    window: Hopping
    results: dict[str, Bound]
    grace: int
    delay: int
    follow: bool
    output: Path | None
    output_format: str
    checkpoint: Path | None
    max_files: int | None
    limit: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line. Exit codes: 0, 1 if Spark failed, 2 for a wrong argument, 130 if interrupted."""
    try:
        job = parse(arguments)
        with workspace() as scratch:
            return run(job, scratch)
    except SlicingError as error:
        return complain(str(error), 2)
    except KeyboardInterrupt:
        say("interrupted")
        return 130


def complain(message: str, code: int) -> int:
    """Print an error as one line and return the exit code."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return code


# Arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line as for all other errors."""
        raise SystemExit(complain(f"{message}. See `python -m slicing --help`.", 2))


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    names = ", ".join(aggregators())
    made = _Parser(
        prog="python -m slicing",
        description="Aggregate records over sliding windows. Without --output the results are printed. Times are UTC.",
        epilog='Example: python -m slicing payments.csv --time ts --keys user --size "1 hour" --advance "1 minute" '
        '--aggregate "count()" --aggregate "spent=sum(amount)"',
    )
    add = made.add_argument
    add("input", metavar="INPUT", help="a CSV (with header), JSON lines or Parquet file, gzip included, or a directory")
    add("--time", required=True, metavar="COLUMN", help="the event time: a timestamp, or text that can be cast to one")
    add("--keys", action="append", default=[], metavar="COLUMN[,COLUMN]", help="group by these; may be repeated")
    add("--size", required=True, metavar="DURATION", help='length of a window, for example "7 days"')
    add("--advance", metavar="DURATION", help="distance between the starts of windows (default: the size)")
    add("--offset", default="0 seconds", metavar="DURATION", help="shift of all windows from the epoch")
    add(
        "--aggregate",
        action="append",
        required=True,
        metavar="[NAME=]FUNCTION(COLUMN)",
        help=f"one of {names}; may be repeated",
    )
    add("--output", metavar="PATH", help="write to this directory; .csv, .json or .parquet gives the format")
    add("--limit", type=int, default=20, metavar="N", help="print at most N rows, with --follow per micro-batch (20)")
    add("--follow", action="store_true", help="treat the directory INPUT as a stream, until Ctrl-C")
    add(
        "--delay",
        default="10 minutes",
        metavar="DURATION",
        help="with --follow: the delay of the watermark (10 minutes)",
    )
    add("--grace", default="0 seconds", metavar="DURATION", help="with --follow: keep windows open so much longer")
    add(
        "--checkpoint", metavar="DIR", help="with --follow: where to remember what is done (default: beside the output)"
    )
    add("--max-files", type=int, metavar="N", help="with --follow: read at most N files per micro-batch")
    return made


def parse(arguments: Sequence[str] | None) -> Job:
    """The job that the arguments describe. Raises InvalidValue and InvalidType, with the remedy."""
    given = parser().parse_args(arguments)
    source = Path(given.input)
    output = Path(given.output) if given.output else None
    job = Job(
        source,
        format_of_input(source),
        given.time,
        tuple(key.strip() for keys in given.keys for key in keys.split(",") if key.strip()),
        hopping(given.size, given.advance or given.size, given.offset),
        results_of(given.aggregate),
        microseconds(given.grace, "--grace"),
        microseconds(given.delay, "--delay"),
        given.follow,
        output,
        format_of_output(output) if output else "",
        Path(given.checkpoint) if given.checkpoint else None,
        given.max_files,
        given.limit,
    )
    _check(job)
    return job


def _check(job: Job) -> None:
    for name, duration in (("--grace", job.grace), ("--delay", job.delay)):
        if duration < 0:
            raise InvalidValue(f"`{name}` must not be negative. Leave it out for the default.")
    for name, count in (("--limit", job.limit), ("--max-files", job.max_files)):
        if count is not None and count < 1:
            raise InvalidValue(f"`{name}` must be positive; got {count}.")
    if not job.follow:
        _check_bounded(job)
    elif not job.source.is_dir():
        raise InvalidValue(
            f"`--follow` watches a directory for new files; `{job.source}` is a file. Leave out --follow."
        )
    elif job.output and job.output.resolve().is_relative_to(job.source.resolve()):
        raise InvalidValue(f"`--output` must not lie in the directory that is followed; got `{job.output}`.")


def _check_bounded(job: Job) -> None:
    if job.output and job.output.exists():
        raise InvalidValue(f"`--output` must not exist yet; found `{job.output}`. Remove it or choose another name.")
    if job.checkpoint or job.max_files is not None:
        raise InvalidValue("`--checkpoint` and `--max-files` are for streams. Add --follow.")


def format_of_input(path: Path) -> str:
    """ "csv", "json" or "parquet", by the extension of a file or of the files in a directory."""
    if not path.exists():
        raise InvalidValue(f"`{path}` does not exist. INPUT is a file or a directory.")
    files = _data_files(path) if path.is_dir() else [path]
    found = {known for file in files if (known := _format(file))}
    if len(found) > 1:
        raise InvalidValue(f"`{path}` must hold files of one format; found {', '.join(sorted(found))}.")
    if not found:
        held = "holds no file" if path.is_dir() else "is not a file"
        raise InvalidValue(f"`{path}` {held} of a known format. Known are {', '.join(FORMATS)}, also compressed (.gz).")
    return found.pop()


def _data_files(directory: Path) -> list[Path]:
    # Spark, too, passes over names that begin with a dot or an underscore.
    paths = (path for path in directory.rglob("*") if path.is_file())
    return [path for path in paths if not any(part[0] in "._" for part in path.relative_to(directory).parts)]


def _format(path: Path) -> str | None:
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return FORMATS.get(plain.suffix.lower())


def format_of_output(path: Path) -> str:
    """The format to write, by the extension."""
    if path.suffix.lower() not in (".csv", ".json", ".parquet"):
        raise InvalidValue(f"`--output` must end in .csv, .json or .parquet, which gives the format; got `{path}`.")
    return FORMATS[path.suffix.lower()]


def aggregators() -> dict[str, Callable[..., Any]]:
    """The combinators by name."""
    return {name: getattr(combinators, name) for name in combinators.__all__ if callable(getattr(combinators, name))}


def results_of(texts: Sequence[str]) -> dict[str, Bound]:
    """Bound aggregates by the names of their results: "spent=sum(amount)", or "sum(amount)", which is `sum_amount`."""
    results: dict[str, Bound] = {}
    for text in texts:
        name, bound = result_of(text)
        if name in results:
            raise InvalidValue(f"two results are called `{name}`. Name one: `--aggregate other={text.strip()}`.")
        results[name] = bound
    return results


def result_of(text: str) -> tuple[str, Bound]:
    """The name and the bound aggregate of one `--aggregate`."""
    match = _RESULT.fullmatch(text)
    if match is None:
        raise InvalidValue(f"`--aggregate` takes FUNCTION(COLUMN), for example mean(price) or count(); got {text!r}.")
    name, function = match[1], match[2]
    known = aggregators()
    if function not in known:
        raise InvalidValue(f"`{function}` in {text!r} is not an aggregate. Known are {', '.join(known)}.")
    arguments = [_argument(part.strip()) for part in match[3].split(",") if part.strip() not in ("", "*")]
    try:
        inspect.signature(known[function]).bind(*arguments)
    except TypeError as error:
        raise InvalidValue(f"`{function}` in {text!r}: {error}. For example: {function}(price).") from None
    default = "_".join([function, *(re.sub(r"\W+", "_", str(argument)) for argument in arguments)])
    return name or default, known[function](*arguments)


def _argument(text: str) -> str | int | float:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text.strip("`")
    return value if isinstance(value, (str, int, float)) else text


# The session


@contextmanager
def workspace() -> Iterator[Path]:
    """A directory for logs and what need not be kept."""
    path = Path(tempfile.mkdtemp(prefix="slicing-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def redirected(log: Path) -> Iterator[None]:
    """Processes started inside write their stdout and stderr to a file: Spark's JVM is not quiet when it starts."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def session(scratch: Path, name: str = "slicing", cores: str = "*") -> SparkSession:
    """A local session with what streams need; under `spark-submit` its settings win."""
    from pyspark.sql import SparkSession

    _find_packages_in_workers()
    builder = SparkSession.builder.appName(name)
    if not {"PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"} & os.environ.keys():
        builder = builder.master(f"local[{cores}]")
        for option, value in _local_options(scratch).items():
            builder = builder.config(option, value)
    with redirected(scratch / "spark.log"):
        spark = builder.getOrCreate()
    settled = spark.sparkContext.getConf()
    for option, value in _sql_options(spark).items():
        if settled.get(option) is None:
            spark.conf.set(option, value)
    return spark


def _find_packages_in_workers() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


def _local_options(scratch: Path) -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def _sql_options(spark: SparkSession) -> dict[str, str]:
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(spark.sparkContext.defaultParallelism),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }


# The run


def run(job: Job, scratch: Path) -> int:
    """Start Spark, do the job, stop Spark."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

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
    grouped: Windowed = group_by(frame, *job.keys).window(job.window, time=job.time)
    if job.grace:
        grouped = grouped.grace(f"{job.grace} microseconds")
    return grouped.aggregate(**job.results)


def with_time(frame: DataFrame, column: str) -> DataFrame:
    """The frame with its time column as a timestamp: text is cast, and what is not a time becomes null and is counted.

    Raises InvalidType for numbers, InvalidValue for a column that does not exist.
    """
    from pyspark.sql import functions as F

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
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

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
    from pyspark.sql import functions as F

    windows = windows.observe("windows", F.count(F.lit(1)).alias("windows"))
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
            # Without "addBatch" nothing was run: the query is waiting for files.
            if progress["batchId"] > shown and "addBatch" in progress["durationMs"]:
                shown = progress["batchId"]
                say(progress_line(progress))


def progress_line(progress: Any) -> str:
    """A micro-batch in one line."""
    seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
    rate = progress["numInputRows"] / seconds if seconds else 0.0
    watermark = progress["eventTime"].get("watermark", "-").removesuffix(".000Z")
    observed = {name: row.asDict() for name, row in progress["observedMetrics"].items()}
    refused: dict[str, int] = next((row for name, row in observed.items() if name.startswith("slicing")), {})
    counts = [
        f"{progress['numInputRows']:,} records ({rate:,.0f}/s)",
        f"watermark {watermark}",
        f"{observed.get('windows', {}).get('windows', 0):,} windows",
        f"{refused.get('late', 0):,} late",
        *(f"{count:,} {name.replace('_', ' ')}" for name, count in refused.items() if count and name != "late"),
    ]
    return f"micro-batch {progress['batchId']}: " + ", ".join(counts) + f", {seconds:.1f} s"


if __name__ == "__main__":
    raise SystemExit(main())
