"""Running one side of a comparison: its steady micro-batches, or one bounded query, and what they cost."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.queries import Query
from benchmarks.workloads import FOLDER, Workload
from slicing.spark.session import BATCH_BYTES, UNLIMITED

UNSTEADY = 2
DELAY = "5 seconds"
COMPARED_BATCHES = 4
"""Rows are compared after so many micro-batches, the same ones for both sides, however many are measured."""
LIMIT_SECONDS = 240.0
CORES = 2

_STORE = "spark.sql.streaming.stateStore."
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
STORES = {"RocksDB": "RocksDBStateStoreProvider", "default store": "HDFSBackedStateStoreProvider"}


@dataclass(frozen=True)
class Run:
    """Medians of the steady micro-batches of a stream, or one bounded query, which has no state.

    `records`, `rows`, `read_bytes`, `gets`, `puts`, `partials_read` and `partials_written` are those of a micro-batch,
    or of the query; `each` has seconds and rows of every one. `state_rows` and `state_bytes` are what was there at the
    end, in memory and in files; `checkpoint_bytes` what the stream wrote of state into its checkpoint, per record;
    `worker_mib` is the peak of the largest Python worker, and `took` the seconds of the whole stream.
    """

    seconds: float
    records: int
    rows: int = 0
    batches: int = 1
    stopped: bool = False
    store: str = ""
    note: str = ""
    each: tuple[tuple[float, int], ...] = ()
    state_rows: int = 0
    state_bytes: int = 0
    read_bytes: int = 0
    gets: int = 0
    puts: int = 0
    partials_read: int = 0
    partials_written: int = 0
    checkpoint_bytes: float = 0.0
    worker_mib: float = 0.0
    took: float = 0.0

    @property
    def per_record(self) -> float:
        """Seconds per record."""
        return self.seconds / self.records


_sessions: dict[int, SparkSession] = {}


def session(cores: int = CORES) -> SparkSession:
    """The one session of a benchmark process: RocksDB with changelog checkpoints, as many partitions as cores.

    Asking for another number of cores ends the session there is.
    """
    if cores not in _sessions:
        stop()
        _find_packages_in_workers()
        (FOLDER / "spark").mkdir(parents=True, exist_ok=True)
        spark = (
            SparkSession.builder.master(f"local[{cores}]")
            .config("spark.driver.memory", "6g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(FOLDER / "spark"))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.shuffle.partitions", cores)
            .config("spark.sql.session.timeZone", "UTC")
            .config(BATCH_BYTES, UNLIMITED)
            .config(_STORE + "rocksdb.changelogCheckpointing.enabled", "true")
            .config(_STORE + "providerClass", _PROVIDERS + STORES["RocksDB"])
            .getOrCreate()
        )
        _sessions[cores] = spark
    return _sessions[cores]


def stop() -> None:
    """End the session, if there is one, also one whose JVM has died."""
    while _sessions:
        try:
            _sessions.popitem()[1].stop()
        except (Py4JError, OSError):
            # Without these the next session gets another JVM.
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
            SparkSession._instantiatedSession = None


def _find_packages_in_workers() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    here = str(Path(__file__).resolve().parent.parent)
    if here not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))


@dataclass(frozen=True)
class Settings:
    """How a stream runs: delay, output mode, state store, cores and shuffle partitions; which micro-batches count.

    `warm_up` is the share of the workload's records with which it is warmed up; 0 for not at all. `batch_bytes` limits
    the Arrow batches that Spark hands to Python.
    """

    delay: str = DELAY
    mode: str = "append"
    store: str = "RocksDB"
    cores: int = CORES
    partitions: int | None = None
    unsteady: int = UNSTEADY
    steady: int = 4
    warm_up: float = 0.1
    limit: float = LIMIT_SECONDS
    batch_bytes: str = UNLIMITED

    @property
    def counted(self) -> int:
        """Micro-batches behind those of a history."""
        return self.unsteady + self.steady


def stream(query: Query, workload: Workload, size: str, advance: str, settings: Settings = Settings()) -> Run:
    """The steady micro-batches of a stream, into a noop sink; once per process for the same arguments.

    The micro-batches of a workload's history are not counted. Unless told otherwise, the same query runs twice, each
    time from an empty checkpoint: the first run, on a part of the records, only lets the JVM compile what both sides
    are about to do. Where that one is stopped there is no second; where the history is long, it does the same.
    """
    return _once(query, workload, size, advance, settings)


@cache
def _once(query: Query, workload: Workload, size: str, advance: str, settings: Settings) -> Run:
    if (cold := warm_up(query, workload, size, advance, settings)) and cold.stopped:
        return cold
    return _stream(query, workload, size, advance, settings)


def warm_up(query: Query, workload: Workload, size: str, advance: str, settings: Settings) -> Run | None:
    """The run that warms up, if there is one."""
    if not settings.warm_up or workload.before >= settings.counted:
        return None
    return _stream(query, workload.cut(settings.warm_up), size, advance, settings)


def faster(query: Query, workload: Workload, size: str, advance: str, settings: Settings = Settings()) -> Run:
    """The faster of Spark's two state stores; the note has both figures.

    The second one is stopped when it has taken as long as the first one did, and a quarter more: it is slower then.
    """
    default = stream(query, workload, size, advance, replace(settings, store="default store"))
    limit = settings.limit if default.stopped else max(20.0, 1.25 * default.took)
    rocks = stream(query, workload, size, advance, replace(settings, store="RocksDB", limit=limit))
    best = min(default, rocks, key=lambda run: (run.stopped, run.seconds))
    slower = rocks.stopped and not default.stopped  # not at the limit of all streams
    return replace(best, note=f"on default store {shown(default)}; on RocksDB {'slower' if slower else shown(rocks)}")


def shown(run: Run) -> str:
    """Seconds, or where the run was stopped."""
    return f"stopped at {run.seconds:.0f} s" if run.stopped else f"{run.seconds:.2f} s"


@contextmanager
def configured(settings: Settings, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session, set up for streams that are started meanwhile, with `more` settings, and as it was again."""
    spark = session(settings.cores)
    wanted = {
        _STORE + "providerClass": _PROVIDERS + STORES[settings.store],
        "spark.sql.shuffle.partitions": str(settings.partitions or settings.cores),
        BATCH_BYTES: settings.batch_bytes,
        **(more or {}),
    }
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def source(
    spark: SparkSession, workload: Workload, delay: str, together: int = 1, path: str | None = None
) -> DataFrame:
    """The stream, with as many of the workload's micro-batches `together` in one; of files elsewhere if so told."""
    reader = spark.readStream.schema(workload.schema).option("maxFilesPerTrigger", workload.parts * together)
    return reader.parquet(path or str(workload.path())).withWatermark("ts", delay)


def noop(out: DataFrame, settings: Settings, checkpoint: str | Path) -> DataStreamWriter:
    """What writes a stream nowhere."""
    writer = out.writeStream.format("noop").outputMode(settings.mode)
    return writer.option("checkpointLocation", str(checkpoint))


def batches(workload: Workload, settings: Settings) -> int:
    """Micro-batches to run, with those of the history. Raises ValueError if the workload has fewer."""
    if settings.counted > workload.batches:
        raise ValueError(
            f"`unsteady` and `steady` must be micro-batches of the workload; got {settings.unsteady} and "
            f"{settings.steady} of `{workload.name}`, which has {workload.batches}. Count fewer, or give it more."
        )
    return workload.before + settings.counted


def _stream(query: Query, workload: Workload, size: str, advance: str, settings: Settings) -> Run:
    wanted = batches(workload, settings)
    with (
        configured(settings) as spark,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint,
        workers() as peaks,
    ):
        out = query(source(spark, workload, settings.delay), size, advance)
        running = noop(out, settings, checkpoint).trigger(availableNow=True).start()
        start = time.monotonic()
        stopped = _wait(running, wanted, start + settings.limit)
        progress = running.recentProgress
        written = bytes_of(Path(checkpoint) / "state")
        running.stop()
    taken = time.monotonic() - start
    if stopped:
        return Run(taken, workload.records, stopped=True, store=settings.store)
    found = medians(progress, workload.before, settings, written)
    return replace(found, worker_mib=max(peaks.values(), default=0), took=taken)


def _wait(running: StreamingQuery, batches: int, deadline: float) -> bool:
    """Whether the time was over before that many micro-batches with data were done. Raises what the query raised."""
    while running.isActive and len(running.recentProgress) < batches:
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.05)
    if error := running.exception():
        raise error
    return False


def medians(progress: Sequence[Any], before: int, settings: Settings, written: int) -> Run:
    """The steady ones of micro-batches, of which the first `before` are a history's; `written` bytes in all."""
    full = [each for each in progress if each["numInputRows"]]
    steady = full[before + settings.unsteady :][: settings.steady]
    assert len(steady) == settings.steady, f"{len(full)} micro-batches are too few"

    def median(values: Iterator[float]) -> float:
        return statistics.median(values)

    def custom(progress: Any, name: str) -> int:
        return sum(operator["customMetrics"].get(name, 0) for operator in progress["stateOperators"])

    def observed(progress: Any, name: str) -> int:
        return sum((metrics.asDict().get(name) or 0) for metrics in progress["observedMetrics"].values())

    last = steady[-1]["stateOperators"]
    each = tuple((p["durationMs"]["triggerExecution"] / 1000, int(p["sink"]["numOutputRows"])) for p in steady)
    return Run(
        seconds=median(seconds for seconds, _ in each),
        records=round(median(p["numInputRows"] for p in steady)),
        rows=round(median(rows for _, rows in each)),
        batches=len(steady),
        store=settings.store,
        each=each,
        state_rows=sum(operator["numRowsTotal"] for operator in last),
        state_bytes=sum(o["memoryUsedBytes"] + o["customMetrics"].get("rocksdbSstFileSize", 0) for o in last),
        read_bytes=round(median(custom(p, "rocksdbTotalBytesRead") for p in steady)),
        gets=round(median(custom(p, "rocksdbGetCount") for p in steady)),
        puts=round(median(custom(p, "rocksdbPutCount") for p in steady)),
        partials_read=round(median(observed(p, "partials_read") for p in steady)),
        partials_written=round(median(observed(p, "partials_written") for p in steady)),
        checkpoint_bytes=written / sum(p["numInputRows"] for p in full),
    )


def bytes_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@cache
def bounded(query: Query, workload: Workload, size: str, advance: str, repeat: int = 1) -> Run:
    """Median seconds of a bounded query into a noop sink, after a run that warms up."""
    out = query(read(workload), size, advance)
    seconds = []
    for _ in range(repeat + 1):
        start = time.monotonic()
        out.write.format("noop").mode("overwrite").save()
        seconds.append(time.monotonic() - start)
    return Run(statistics.median(seconds[1:]), workload.total, rows=out.count(), batches=repeat)


def read(workload: Workload) -> DataFrame:
    """A workload as a bounded DataFrame."""
    return session().read.schema(workload.schema).parquet(str(workload.path()))


@contextmanager
def parquet_of_stream(
    query: Query, workload: Workload, size: str, advance: str, mode: str = "append"
) -> Iterator[DataFrame]:
    """All rows that a stream over the whole workload writes into Parquet, those of update mode one after another."""
    spark = session()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as folder:
        together = -(-(workload.before + workload.batches) // COMPARED_BATCHES)
        out = query(source(spark, workload, DELAY, together), size, advance)

        def write(rows: DataFrame, _: int) -> None:
            rows.write.mode("append").parquet(f"{folder}/rows")

        writer = out.writeStream.foreachBatch(write).outputMode(mode)
        running = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
        running.awaitTermination()
        yield spark.read.parquet(f"{folder}/rows")


def closed(rows: DataFrame, workload: Workload) -> DataFrame:
    """Those of a bounded query's windows that a stream over the same workload has closed at its end."""
    delay = F.expr(f"interval {DELAY}")
    newest = read(workload).agg(F.date_trunc("millisecond", F.max("ts")) - delay).first()
    assert newest is not None
    return rows.where(F.col("window.end") <= F.lit(newest[0]))


@contextmanager
def parquet_of_bounded(query: Query, workload: Workload, size: str, advance: str) -> Iterator[DataFrame]:
    """All rows that a bounded query writes into Parquet."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True, dir=FOLDER) as folder:
        query(read(workload), size, advance).write.parquet(f"{folder}/rows")
        yield session().read.parquet(f"{folder}/rows")


@contextmanager
def workers() -> Iterator[dict[int, float]]:
    """MiB that each Python worker of this process has had at most, looked up four times a second. Linux only."""
    seen: dict[int, float] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.25):
            for process in _descendants(os.getpid()):
                _note(process, seen)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def processor_seconds() -> float:
    """Processor time of this process and all below it so far, those that have ended included. Linux only."""
    ticks = 0
    for process in [os.getpid(), *_descendants(os.getpid())]:
        try:
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue  # it has just ended
    return ticks / os.sysconf("SC_CLK_TCK")


def _descendants(root: int) -> list[int]:
    """The processes below one, by the parents that /proc names."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(path.parent.name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _note(process: int, seen: dict[int, float]) -> None:
    try:
        folder = Path(f"/proc/{process}")
        if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
            fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            # A worker is forked: until it is used, its peak is that of the process it comes from.
            seen[process] = max(seen.get(process, 0.0), int(fields["VmRSS"].split()[0]) / 1024)
    except (OSError, KeyError):
        pass  # it has just ended
