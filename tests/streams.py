"""Helpers for tests on streams: seeded worlds, files read one a micro-batch, what goes out when, and how to compare."""

import json
import math
import os
import random
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

import combinators as C
from slicing.triggers.trigger import WAITING

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_700_006_400 * SECOND  # a whole hour
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SCHEMA = "world bigint, ts timestamp, n bigint, x double, s string, d date, m decimal(12,2), f bigint"
ARROW = pa.schema(
    [
        ("world", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("m", pa.decimal128(12, 2)),
        ("f", pa.int64()),
    ]
)


# --- records --------------------------------------------------------------------------------------------------------


def record(world, time, n=1, x=1.0, s="a", d=None, m=None):
    """One record; `f` follows from the time, so that records of equal time agree on who is first."""
    return {
        "world": world,
        "ts": time,
        "n": n,
        "x": x,
        "s": s,
        "d": d or date(2024, 2, 29),
        "m": Decimal("1.25") if m is None else m,
        "f": None if time is None or time % 13 == 0 else time % 1_000_003,
    }


def table(records):
    """Records as a file has them; times are microseconds."""
    columns = {name: [each[name] for each in records] for name in ARROW.names}
    arrays = [pa.array(columns[name], ARROW.field(name).type) for name in ARROW.names]
    return pa.Table.from_arrays(arrays, schema=ARROW)


@dataclass
class World:
    """The habits of one key: how many records, how late, how odd."""

    name: int | None
    choice: random.Random
    rate: int
    disorder: int
    late: float
    edges: float
    nulls: float
    odd: tuple
    alive: range
    silent: float
    ahead: bool
    past: list = field(default_factory=list)

    def records(self, number, base, edge):
        """Its records of file `number`, when the clock of the stream stands at `base`."""
        if number not in self.alive or self.choice.random() < self.silent:
            return []
        made = [self._record(base, edge) for _ in range(self.choice.randint(1, self.rate))]
        made += [dict(each) for each in made if self.choice.random() < 0.1]
        if self.past and self.choice.random() < 0.2:
            made.append(dict(self.choice.choice(self.past)))
        self.past += made[:2]
        self.choice.shuffle(made)
        return made

    def _record(self, base, edge):
        choice = self.choice
        back = choice.expovariate(1 / self.disorder) if self.disorder else choice.randint(0, MINUTE)
        if choice.random() < self.late:
            back += choice.choice([10 * MINUTE, HOUR, 3 * HOUR, 40 * HOUR])
        time = base - int(back)
        if self.ahead and choice.random() < 0.3:
            time = base + choice.randint(0, 2 * MINUTE)
        if choice.random() < self.edges:
            time = time // edge * edge - choice.choice([0, 0, 0, 1, 1000])
        if choice.random() < self.nulls / 4:
            time = None
        made = record(
            self.name,
            time,
            n=choice.choice([choice.randint(-1000, 1000), 2**53 + 1, -(2**53)]),
            x=choice.choice([choice.uniform(-1, 1), choice.uniform(0, 1e6), -0.0, 1e16, *self.odd]),
            s=choice.choice(["", "a", "B", "é", "zz", "\U0001f600"]) + choice.choice("xyz"),
            d=date(1960, 1, 1) + timedelta(choice.randint(0, 30_000)),
            m=Decimal(choice.randint(-(10**9), 10**9)).scaleb(-2),
        )
        for name in ("n", "x", "s", "d", "m"):
            if choice.random() < self.nulls:
                made[name] = None
        return made


def _world(name, seed, files):
    choice = random.Random(f"{seed} {name}")
    start = choice.choice([0, 0, 0, choice.randrange(files)])
    end = choice.choice([files, files, choice.randint(start + 1, files)])
    return World(
        name,
        choice,
        rate=choice.choice([1, 3, 8, 40]),
        disorder=choice.choice([0, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR]),
        late=choice.choice([0, 0.05, 0.3]),
        edges=choice.choice([0, 0.1, 0.9]),
        nulls=choice.choice([0, 0.1, 0.5]),
        odd=choice.choice([(), (), (math.nan,), (math.inf, -math.inf), (math.nan, math.inf)]),
        alive=range(start, end),
        silent=choice.choice([0, 0.3, 0.7]),
        ahead=choice.random() < 0.1,
    )


def worlds(seed, files=12, count=50, edge=MINUTE):
    """Files with the records of `count` worlds under one clock; world 0 is the key null, edges are multiples of `edge`.

    The clock stands still, creeps, moves by a whole minute, jumps over many windows; one record is exactly on it.
    """
    clock = random.Random(f"clock {seed}")
    steps = [clock.choice([0, 20 * SECOND, MINUTE, MINUTE, MINUTE, 3 * MINUTE, 10 * MINUTE]) for _ in range(files)]
    steps[2 * files // 3] = 2 * HOUR
    people = [_world(name or None, seed, files) for name in range(count)]
    base, tables = START, []
    for number, step in enumerate(steps):
        base += step
        made = [each for world in people for each in world.records(number, base, edge)]
        tables.append(table([*made, record(1, base)]))
    return tables


# --- files and queries ----------------------------------------------------------------------------------------------


def write(tables, directory, first=0):
    """One file per table, read in this order."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(tables, first):
        path = directory / f"f{number:04d}.parquet"
        pq.write_table(each, path)
        os.utime(path, (1e9 + number, 1e9 + number))


def source(spark, directory, delay="0 seconds", per_batch=1, schema=SCHEMA):
    """The files as a stream with a watermark on `ts`."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch)
    return reader.parquet(str(directory)).withWatermark("ts", delay)


@contextmanager
def ending(spark, emission):
    """Queries with the trigger "availableNow" end: by the clock, micro-batches without data would follow for ever."""
    if emission.by_clock and WAITING in emission.asks:
        spark.conf.set(NO_DATA, "false")
    try:
        yield
    finally:
        spark.conf.unset(NO_DATA)


NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
POWER_CUT = "power cut"


@dataclass
class Output:
    """What a query put out: a table per micro-batch, and the progress of each.

    The micro-batches in `cuts` fail, once, after all their work; what is put out when they are run again has to be the
    same.
    """

    tables: dict = field(default_factory=dict)
    progress: dict = field(default_factory=dict)
    cuts: set = field(default_factory=set)
    lost: dict = field(default_factory=dict)

    def sink(self, frame, batch):
        """For foreachBatch."""
        found = frame.toArrow()
        if batch in self.cuts:
            self.cuts.remove(batch)
            self.lost[batch] = found
            raise RuntimeError(POWER_CUT)
        if batch in self.lost:
            assert _in_order(found) == _in_order(self.lost[batch]), "a repeated micro-batch has the same rows"
        self.tables[batch] = found

    def note(self, query):
        """Take over the progress of the micro-batches that ran."""
        for each in query.recentProgress:
            # Reported too while a query waits, with the id of the micro-batch to come.
            if "addBatch" in each["durationMs"]:
                self.progress[each["batchId"]] = each

    def rows(self, *keys):
        """Rows as dicts, by micro-batch, keys and start of the window."""
        found = {}
        for batch, each in self.tables.items():
            for row, start in zip(each.to_pylist(), starts(each), strict=True):
                place = (batch, *(row[key] for key in keys), start)
                assert place not in found, "a window goes out once; of sessions, by 'emission'"
                found[place] = row
        return found

    def counters(self, name):
        """The observed counter of each micro-batch, 0 ones left out."""
        found = {}
        for batch, each in self.progress.items():
            (row,) = [row for label, row in each["observedMetrics"].items() if label.startswith("slicing")]
            if row[name]:
                found[batch] = row[name]
        return found

    def watermarks(self):
        """The watermark of each micro-batch, in milliseconds."""
        return {batch: _millis(each["eventTime"]["watermark"]) for batch, each in self.progress.items()}


def _in_order(found):
    return sorted(map(repr, found.to_pylist()))


def _millis(text):
    return micros(datetime.fromisoformat(text)) // 1000


def micros(instant):
    """Microseconds since the epoch; an instant without a zone is in UTC."""
    return (instant.replace(tzinfo=instant.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def starts(found):
    """Starts of the windows of a result, in microseconds."""
    return pc.struct_field(found["window"].combine_chunks(), "start").cast(pa.int64()).to_pylist()


@dataclass
class Running:
    """A query whose micro-batches `output` collects; with no trigger it runs until stopped."""

    frame: object
    checkpoint: Path
    trigger: dict = field(default_factory=dict)
    output: Output = field(default_factory=Output)
    attempts: int = 20
    mode: str = "append"

    def __post_init__(self):
        self.start()

    def start(self):
        """Start it, or start it again where it was."""
        writer = self.frame.writeStream.foreachBatch(self.output.sink).outputMode(self.mode)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        self.query = (writer.trigger(**self.trigger) if self.trigger else writer).start()

    def finish(self):
        """Wait until all there is has been processed; returns the output.

        Spark gives the Python process that it starts with a query ten seconds to connect, and no setting for it. On a
        busy machine that is not enough: the query is started again then.
        """
        while True:
            try:
                self.query.awaitTermination(300) if self.trigger else self.query.processAllAvailable()
                break
            except StreamingQueryException as error:
                self.again(error)
        self.output.note(self.query)
        return self.output

    def again(self, error):
        """Start it again after a failure that a test makes, or that a busy machine has; others are raised."""
        self.output.note(self.query)
        if POWER_CUT not in str(error):
            self.attempts -= 1
            if "failed to connect back" not in str(error) or not self.attempts:
                raise error
            time.sleep(1)
        self.start()

    def micro_batches(self):
        """For each that is done: its number, how many files were read, its watermark and the time of its trigger.

        As the checkpoint says, with one file a micro-batch; times are milliseconds.
        """
        for number in sorted(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")):
            _, times, source = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
            times, files = json.loads(times), json.loads(source)["logOffset"] + 1
            yield number, files, times["batchWatermarkMs"], times["batchTimestampMs"]


def wait_until(condition, queries):
    """Wait for a condition while queries run, which are started again if they fail as in `Running.finish`."""
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline
        for each in queries:
            if not each.query.isActive:
                each.again(each.query.exception())
        time.sleep(0.1)


class Interrupted(Exception):
    """What stops a query in its sink."""


def ends(writer):
    """Whether the query came to the end of its input, and not to grief."""
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if "Interrupted" not in str(error):
            raise
        return False
    return True


def run(*frames, checkpoint=None):
    """Run queries side by side over all files there are; the output of each."""
    root = Path(tempfile.mkdtemp())
    places = [checkpoint] if checkpoint else [root / f"checkpoint{i}" for i in range(len(frames))]
    running = [Running(frame, place, {"availableNow": True}) for frame, place in zip(frames, places, strict=True)]
    outputs = [each.finish() for each in running]
    shutil.rmtree(root)
    return outputs


class Live:
    """Queries that keep running (or are restarted before every further step) while files arrive.

    A step's files appear at once, so its micro-batches with data follow one another; then a micro-batch without data
    runs if the watermark has moved.
    """

    def __init__(self, spark, root, delay="0 seconds"):
        self.spark, self.root, self.delay = spark, root, delay
        self.files = self.steps = 0
        self.running, self.restarted = [], []

    def source(self):
        """A stream of all steps."""
        return source(self.spark, self.root / "step*", self.delay)

    def add(self, frame, restart=False, mode="append", output=None):
        """Run a query along; returns its output."""
        place = self.root / f"checkpoint{len(self.running)}"
        self.running.append(Running(frame, place, output=output or Output(), mode=mode))
        if restart:
            self.restarted.append(self.running[-1])
        return self.running[-1].output

    def step(self, *tables):
        """Let files arrive and wait until nothing is left to do; returns the micro-batches of the first query."""
        before = set(self.running[0].output.tables)
        if self.steps:
            self.restart(self.restarted)
        write(tables, self.root / "staged", self.files)
        (self.root / "staged").rename(self.root / f"step{self.steps:03d}")
        self.files, self.steps = self.files + len(tables), self.steps + 1
        for each in self.running:
            each.finish()
        return sorted(set(self.running[0].output.tables) - before)

    def restart(self, queries=None):
        """Stop some queries, or all, and start them again where they were."""
        for each in self.running if queries is None else queries:
            each.query.stop()
            each.start()

    def stop(self):
        """End all queries."""
        for each in self.running:
            each.query.stop()


# --- references -----------------------------------------------------------------------------------------------------

OURS = {
    "records": C.count(),
    "known": C.count("x"),
    "total": C.sum("n"),
    "least": C.min("n"),
    "most": C.max("n"),
    "x_least": C.min("x"),
    "x_most": C.max("x"),
    "s_least": C.min("s"),
    "s_most": C.max("s"),
    "d_least": C.min("d"),
    "d_most": C.max("d"),
    "m_total": C.sum("m"),
    "m_mean": C.mean("m"),
    "m_most": C.max("m"),
    "f_first": C.first("f"),
    "f_last": C.last("f"),
    "n_mean": C.mean("n"),
    "x_total": C.sum("x"),
    "x_mean": C.mean("x"),
    "x_var": C.variance("x"),
    "x_dev": C.stddev_pop("x"),
}
FLOATS = ("n_mean", "x_total", "x_mean", "x_var", "x_dev")
EXACT = tuple(name for name in OURS if name not in FLOATS)


def by_spark(over=None):
    """Spark's functions for the results of `OURS`, and what their bounds need; `over` a window of its own kind."""
    columns = {
        "records": F.count("*"),
        "known": F.count("x"),
        "total": F.sum("n"),
        "least": F.min("n"),
        "most": F.max("n"),
        "x_least": F.min("x"),
        "x_most": F.max("x"),
        "s_least": F.min("s"),
        "s_most": F.max("s"),
        "d_least": F.min("d"),
        "d_most": F.max("d"),
        "m_total": F.sum("m"),
        "m_mean": F.avg("m"),
        "m_most": F.max("m"),
        "f_first": F.min_by("f", "ts"),
        "f_last": F.max_by("f", "ts"),
        "n_mean": F.avg("n"),
        "n_size": F.sum(F.abs(F.col("n").cast("double"))),
        "x_total": F.sum("x"),
        "x_size": F.sum(F.abs("x")),
        "x_mean": F.avg("x"),
        "x_var": F.var_samp("x"),
        "x_dev": F.stddev_pop("x"),
    }
    return [(column if over is None else column.over(over)).alias(name) for name, column in columns.items()]


def spark_window(window, column="ts"):
    """Spark's own window of the same shape; it takes only offsets smaller than the advance."""
    length = [f"{part} microseconds" for part in (window.size, window.advance, window.offset % window.advance)]
    return F.window(column, *length).alias("window")


def same(a, b):
    """Whether exact values are equal; NaN equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b and type(a) is type(b)


def close(a, b, bound):
    """Whether floats are within a bound; where one is not finite they have to be equal."""
    if a is None or b is None:
        return a is b
    if not (math.isfinite(a) and math.isfinite(b)):
        return same(a, b)
    return abs(a - b) <= bound


def exact_differences(ours, theirs, names=EXACT):
    """Places at which a row is missing or an exact value differs: place, name, ours, theirs."""
    missing = [(place, "row", place in ours, place in theirs) for place in ours.keys() ^ theirs.keys()]
    return missing + [
        (place, name, ours[place][name], theirs[place][name])
        for place in ours.keys() & theirs.keys()
        for name in names
        if not same(ours[place][name], theirs[place][name])
    ]


def float_differences(ours, theirs):
    """Places at which a float is outside the bounds of the contract: 1e-12 x sum(|x|) for sums and means, 1e-10 of
    max(variance, 1e-4 x mean^2) for variances.
    """
    found = []
    for place in ours.keys() & theirs.keys():
        a, b = ours[place], theirs[place]
        size, mean, var = (_finite(b[name]) for name in ("x_size", "x_mean", "x_var"))
        pop = _finite(b["x_dev"]) ** 2
        bounds = {
            "n_mean": 1e-12 * _finite(b["n_size"]) / max(b["records"], 1),
            "x_total": 1e-12 * size,
            "x_mean": 1e-12 * size / max(b["known"], 1),
            "x_var": 1e-10 * max(var, 1e-4 * mean * mean),
        }
        found += [
            (place, name, a[name], b[name]) for name, bound in bounds.items() if not close(a[name], b[name], bound)
        ]
        squares = [None if row["x_dev"] is None else row["x_dev"] ** 2 for row in (a, b)]
        if not close(*squares, 1e-10 * max(pop, 1e-4 * mean * mean)):
            found.append((place, "x_dev", *squares))
    return found


def _finite(value):
    return value if value is not None and math.isfinite(value) else 0.0


@dataclass
class Brute:
    """What has to come out, record by record, from files read one a micro-batch."""

    rows: dict = field(default_factory=dict)
    counters: dict = field(default_factory=dict)
    watermarks: list = field(default_factory=list)
    refused: list = field(default_factory=list)


def brute(tables, window, delay=0, grace=0):
    """Rows (micro-batch, world, start) -> records and their sum of n, counters by name and micro-batch; times in us.

    The only arithmetic is on windows: those of a record, and whether their end plus grace is past the watermark.
    """
    out = Brute(counters={name: {} for name in ("late", "late_for_some", "no_time", "no_window")})
    newest, seen = 0, 0
    for each in [*tables, None]:
        out.watermarks.append(seen)
        newest = max([newest, *(t for t in times_of(each) if t is not None)])
        seen = max(seen, newest // 1000 - delay // 1000)
    closes, content = {}, {}
    for batch, each in enumerate(tables):
        before = out.watermarks[max(batch - 1, 0)] if batch else 0
        for world, at, n in zip(each["world"].to_pylist(), times_of(each), each["n"].to_pylist(), strict=True):
            cause = _take(window, grace, before, world, at, n, content)
            if cause:
                out.counters[cause][batch] = out.counters[cause].get(batch, 0) + 1
                out.refused.append((batch, cause, before, world, at, n))
        for place in content.keys() - closes.keys():
            closes[place] = batch
    for (world, begin), values in content.items():
        ends = (begin + window.size + grace) / 1000
        batches = [b for b, mark in enumerate(out.watermarks) if ends <= mark and b >= closes[world, begin]]
        if batches:
            known = [n for n in values if n is not None]
            out.rows[batches[0], world, begin] = {"records": len(values), "total": sum(known) if known else None}
    return out


def times_of(each):
    """Event times of a table, in microseconds."""
    return [] if each is None else each["ts"].cast(pa.int64()).to_pylist()


def _take(window, grace, before, world, time, n, content):
    if time is None:
        return "no_time"
    last = (time - window.offset) // window.advance * window.advance + window.offset
    begins = [b for b in range(last, time - window.size, -window.advance) if b <= time < b + window.size]
    if not begins:
        return "no_window"
    taken = [b for b in begins if b + window.size + grace > before * 1000]
    for begin in taken:
        content.setdefault((world, begin), []).append(n)
    return None if len(taken) == len(begins) else "late_for_some" if taken else "late"
