"""Reads of a key from a store of a million keys: by store, in Python alone, and by SQL over slices and over records.

Five windows of five results each, as of one instant. Stores and the reader are on one machine. Servers keep nothing on
a disk for sure: `fsync` is off, and Redis does not write.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks.report import results
from benchmarks.running import served as running
from benchmarks.running import serving as streams
from benchmarks.running.served import Latency
from benchmarks.running.side import CORES
from benchmarks.workloads import served
from slicing.serving import Reader
from slicing.serving.levels import Cover

P50 = {"sqlite": 0.3, "postgresql": 0.8, "redis": 0.5}
P99 = {"sqlite": 1.0, "postgresql": 3.0, "redis": 2.0}
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "redis": "Redis"}
READ = "read of five windows of five results, 1 M keys"


@dataclass(frozen=True)
class Figure:
    """A figure of serving."""

    name: str
    title: str
    unit: str
    value: Callable[[], float]
    goal: float | None = None
    more_is_better: bool = False

    def measured(self) -> results.Figure:
        """Return the figure."""
        machine = results.machine(CORES)
        return results.Figure(self.name, self.title, self.value(), self.unit, self.goal, machine, self.more_is_better)


def _reads() -> Iterator[Figure]:
    """The figures of reads by store, and of what is done in Python."""
    count = f"{running.REQUESTS:,} requests"
    for kind, name in NAMES.items():
        of = f"{READ}, {name}"
        yield Figure(f"Serving-{name}-p50", f"{of}, p50 of {count}", "ms", _p50(kind), P50[kind])
        yield Figure(f"Serving-{name}-p99", f"{of}, p99 of {count}", "ms", _p99(kind), P99[kind])
    yield Figure(
        "Serving-Python", f"{READ}, in Python alone, p50 of {count}", "ms", lambda: running.in_python().p50, goal=0.15
    )


def _p50(kind: str) -> Callable[[], float]:
    return lambda: running.reads(kind).p50


def _p99(kind: str) -> Callable[[], float]:
    return lambda: running.reads(kind).p99


OF_SLICES = (
    "coalesce(sum(n) FILTER (WHERE {held}), 0)",
    "sum((high << 32) + low) FILTER (WHERE {held})",
    "sum(mean) FILTER (WHERE {held}) / sum(means) FILTER (WHERE {held})",
    "min(lowest) FILTER (WHERE {held})",
    "max(highest) FILTER (WHERE {held})",
)
OF_RECORDS = (
    "count(*) FILTER (WHERE {held})",
    "sum(n) FILTER (WHERE {held})",
    "avg(x) FILTER (WHERE {held})",
    "min(x) FILTER (WHERE {held})",
    "max(x) FILTER (WHERE {held})",
)


def of_slices(cover: Cover) -> str:
    """Return the query for all windows over a row for each slice."""
    columns = []
    for parts in cover.parts:
        within = (f"(level = {level} AND start >= {low} AND start < {high})" for level, low, high in parts or ())
        held = " OR ".join(within)
        columns += [each.format(held=held) for each in OF_SLICES]
    ranges = (
        f"SELECT * FROM by_slice WHERE key = %(key)s AND level = {level} AND start >= {low} AND start < {high}"
        for level, low, high in cover.ranges
    )
    return f"SELECT {', '.join(columns)} FROM ({' UNION ALL '.join(ranges)}) AS held"


def of_records(cover: Cover) -> str:
    """Return the query for all windows over raw records."""
    columns = [each.format(held=f"ts >= {start}") for start in cover.starts for each in OF_RECORDS]
    return (
        f"SELECT {', '.join(columns)} FROM raw WHERE key = %(key)s AND ts >= {min(cover.starts)} AND ts < {served.NOW}"
    )


@cache
def against_sql(query: Callable[[Cover], str], busy: bool, count: int) -> float:
    """Return how many times as long a query takes as a reader does. Raises ValueError if they differ."""
    reader = Reader(running.filled("postgresql"), served.CARD)
    connection = running.connected()
    text = query(reader._windows.cover(served.NOW, reader._known.stored))

    def ask(key: int) -> tuple[object, ...]:
        return connection.execute(text, {"key": key}, prepare=True, binary=True).fetchone()

    keys = running.requests(busy, count)
    for key in keys[:20]:
        found = [value for values in reader.read(key, at=served.NOW).values() for value in (values or {}).values()]
        if (wanted := list(ask(key))) != found:  # decimals of SQL equal integers
            raise ValueError(f"key {key}: SQL has {wanted}, the reader {found}")
    theirs, ours = Latency.of(ask, keys), running.read_by(reader, keys)
    return theirs.p50 / ours.p50


BENCHMARKS = (
    *_reads(),
    Figure(
        "Serving-SqlBusy",
        "SQL over a row for each slice in PostgreSQL / read, keys with a record a minute",
        "times as long",
        lambda: against_sql(of_slices, True, 5_000),
        1.0,
        more_is_better=True,
    ),
    Figure(
        "Serving-SqlSparse",
        "SQL over a row for each slice in PostgreSQL / read, keys with three records a week",
        "times as long",
        lambda: against_sql(of_slices, False, 5_000),
        1.0,
        more_is_better=True,
    ),
    Figure(
        "Serving-SqlRaw",
        "SQL over records in PostgreSQL / read, keys with a record a minute",
        "times as long",
        lambda: against_sql(of_records, True, 500),
        20.0,
        more_is_better=True,
    ),
    Figure(
        "Serving-Lookup",
        f"lookup of a key of {streams.KEYS:,} in a checkpoint / read from SQLite",
        "times as long",
        streams.beside_a_lookup,
        300.0,
        more_is_better=True,
    ),
    Figure(
        "Serving-MicroBatch",
        "micro-batch of 20,000 records, `serve_to` PostgreSQL / `on_update(latest_only=True)` with `upsert_into`",
        "x its time",
        lambda: streams.beside_a_table().store / streams.beside_a_table().table,
        1.0,
    ),
    Figure(
        "Serving-Bytes",
        "bytes of rows in PostgreSQL / pages of the state, 5,000 keys with 4 records a minute",
        "x its bytes",
        lambda: streams.beside_a_table().store_bytes / streams.beside_a_table().state_bytes,
        1.5,
    ),
    Figure(
        "Serving-Freshness",
        f"from a record in a file to its value in a reader, trigger 1 s, p50 of {streams.SAMPLES - 5} records",
        "s",
        streams.freshness,
        2.0,
    ),
)
