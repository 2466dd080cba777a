"""Spark's own ways: `window()`, the same by `explode`, in two steps, and sums over ranges of slices."""

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from benchmarks.baselines.query import keys_of, labels_of, window_struct
from slicing.windows.time.durations import microseconds


@dataclass(frozen=True)
class SparkWindow:
    """Spark's own `groupBy(window(...))`."""

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every record is copied into each of its windows."""
        grouped = frame.groupBy(*keys_of(frame), F.window("ts", size, advance))
        return grouped.agg(F.count("*").alias("records"), F.sum(self.column).alias("total"))


@dataclass(frozen=True)
class SparkSessions:
    """Spark's own `groupBy(session_window(...))`; `size` is the gap."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return sessions; records are sorted by key and time, and sessions are merged in the state one by one."""
        grouped = frame.groupBy(*keys_of(frame), F.session_window("ts", size).alias("window"))
        return grouped.agg(F.count("*").alias("records"), F.sum("v").alias("total"))


@dataclass(frozen=True)
class SparkCounting:
    """Bounded: the last `records` records at every `advance` records of a key, by a range of rows."""

    records: int
    advance: int

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return sums over rows, for every `advance`-th record of a key; the lengths of the call are ignored."""
        keys = keys_of(frame)
        by_time = Window.partitionBy(*keys).orderBy("ts")
        over = by_time.rowsBetween(1 - self.records, 0)
        window = window_struct(F.min(F.unix_micros("ts")).over(over), F.max(F.unix_micros("ts")).over(over) + 1)
        columns = window, F.count("*").over(over).alias("records"), F.sum("v").over(over).alias("total")
        rows = frame.select(*keys, F.row_number().over(by_time).alias("number"), *columns)
        return rows.where(F.col("number") % self.advance == 0).drop("number")


@dataclass(frozen=True)
class SparkOver:
    """Bounded: `OVER (... RANGE BETWEEN size PRECEDING AND CURRENT ROW)`; times of a key are distinct."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return a row for each record, with the window that ends with it."""
        keys, time, length = keys_of(frame), F.unix_micros("ts"), microseconds(size, "size")
        over = Window.partitionBy(*keys).orderBy(time).rangeBetween(-length, 0)
        sums = F.count("*").over(over).alias("records"), F.sum("v").over(over).alias("total")
        return frame.select(*keys, window_struct(time - length, time + 1), *sums)


@dataclass(frozen=True)
class SparkOvers:
    """Bounded: `OVER` of several lengths in one row; times of a key are distinct, and `size` is ignored."""

    lengths: tuple[str, ...]

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return a row for each record, with columns `records` and `total` for each length."""
        keys, time = keys_of(frame), F.unix_micros("ts")
        lengths = [microseconds(each, "length") for each in self.lengths]
        overs = [Window.partitionBy(*keys).orderBy(time).rangeBetween(-length, 0) for length in lengths]
        made = []
        for number, over in enumerate(overs):
            made += [
                F.count("*").over(over).alias(f"records_l{number}"),
                F.sum("v").over(over).alias(f"total_l{number}"),
            ]
        return frame.select(*keys, F.timestamp_micros(time + 1).alias("window_end"), *made)


@dataclass(frozen=True)
class SparkExploded:
    """Bounded: the rows of `groupBy(window(...))` at any R, by one exploded row per record and window.

    Spark plans `window()` as one projection per window; planning alone takes minutes above a few hundred of them.
    """

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every record is copied into each of its windows by `explode`."""
        keys, step, length = keys_of(frame), microseconds(advance, "advance"), microseconds(size, "size")
        newest = F.unix_micros("ts") - F.pmod(F.unix_micros("ts"), F.lit(step))
        starts = F.sequence(newest - (length - step), newest, F.lit(step))
        grouped = frame.withColumn("start", F.explode(starts)).groupBy(*keys, "start")
        sums = grouped.agg(F.count("*").alias("records"), F.sum(self.column).alias("total"))
        return sums.select(*keys, window_struct(F.col("start"), F.col("start") + length), "records", "total")


@dataclass(frozen=True)
class SparkSizes:
    """Bounded: windows of several sizes, one query after another."""

    sizes: tuple[str, ...]
    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the rows of all sizes."""
        query = SparkExploded(self.column)
        return reduce(DataFrame.unionAll, [query(frame, each, advance) for each in self.sizes])


@dataclass(frozen=True)
class SparkCumulating:
    """Bounded: windows that begin at each multiple of `size` and end at each `advance`, by `explode`."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every record is copied into each of its windows that ends after it."""
        keys, step, length = keys_of(frame), microseconds(advance, "advance"), microseconds(size, "size")
        time = F.unix_micros("ts")
        start, slice_start = (time - F.pmod(time, F.lit(each)) for each in (length, step))
        ends = F.explode(F.sequence(slice_start + step, start + length, F.lit(step)))
        grouped = frame.withColumn("start", start).withColumn("end", ends).groupBy(*keys, "start", "end")
        sums = grouped.agg(F.count("*").alias("records"), F.sum("v").alias("total"))
        return sums.select(*keys, window_struct(F.col("start"), F.col("end")), "records", "total")


@dataclass(frozen=True)
class SparkDays:
    """Bounded: days of a zone, by `date_trunc`."""

    zone: str

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return days; every record is in the day of the zone's wall clock."""
        keys = keys_of(frame)
        day = F.to_date(F.from_utc_timestamp("ts", self.zone))
        grouped = frame.withColumn("day", day).groupBy(*keys, "day")
        sums = grouped.agg(F.count("*").alias("records"), F.sum("v").alias("total"))
        start, end = (
            F.unix_micros(F.to_utc_timestamp(each.cast("timestamp"), self.zone))
            for each in (F.col("day"), F.date_add("day", 1))
        )
        return sums.select(*keys, window_struct(start, end), "records", "total")


@dataclass(frozen=True)
class SparkTwoStep:
    """Spark's own two steps: tumbling windows of the advance, then `window()` over them."""

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows; every slice is copied into each of its windows."""
        keys = keys_of(frame)
        slices = _slices(frame, advance, self.column)
        grouped = slices.groupBy(*keys, F.window("window", size, advance))
        return grouped.agg(F.sum("n").alias("records"), F.sum("s").alias("total"))


@dataclass(frozen=True)
class SparkFeatures:
    """Bounded: aggregates over ranges of the union of records and labels, filtered to the labels."""

    lengths: tuple[str, ...]
    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the labels with columns `records`, `total` and `average` for each length."""
        both, keys, made = _with_labels(frame, self.column), keys_of(frame), []
        for number, length in enumerate(self.lengths):
            over = _before(frame, length)
            made += [
                F.nullif(F.count("one").over(over), F.lit(0)).alias(f"records_l{number}"),
                F.sum(self.column).over(over).alias(f"total_l{number}"),
                F.avg(self.column).over(over).alias(f"average_l{number}"),
            ]
        return both.select(*keys, "ts", "label", *made).where("label is not null")


@dataclass(frozen=True)
class SparkDistinctFeatures:
    """Bounded: the size of the set of values over a range of the union of records and labels."""

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return the labels with a column `values`."""
        found = F.size(F.collect_set("d").over(_before(frame, size)))
        made = F.nullif(found, F.lit(0)).cast("bigint").alias("values")
        return _with_labels(frame, "d").select(*keys_of(frame), "ts", "label", made).where("label is not null")


def _with_labels(frame: DataFrame, column: str) -> DataFrame:
    records = frame.select(
        *keys_of(frame), "ts", F.lit(None).cast("bigint").alias("label"), column, F.lit(1).alias("one")
    )
    return records.unionByName(labels_of(frame), allowMissingColumns=True).withColumn("at", F.unix_micros("ts"))


def _before(frame: DataFrame, length: str) -> WindowSpec:
    return Window.partitionBy(*keys_of(frame)).orderBy("at").rangeBetween(-microseconds(length, "length"), -1)


@dataclass(frozen=True)
class SparkRange:
    """Bounded: `sum(...).over(rangeBetween)` over slices, with a row for each window that holds a record.

    A window is a row at its newest slice. Slices without records are inserted up to the next slice with records, or up
    to the last window that still holds the previous one, so that the rows equal those of `groupBy(window(...))`.
    """

    column: str = "v"

    def __call__(self, frame: DataFrame, size: str, advance: str) -> DataFrame:
        """Return windows, with one sum over a range for each."""
        keys, step = keys_of(frame), microseconds(advance, "advance")
        before = microseconds(size, "size") - step
        slices = _slices(frame, advance, self.column).withColumn("at", F.unix_micros("window.start"))
        following = F.lead("at").over(Window.partitionBy(*keys).orderBy("at"))
        last = F.least(F.coalesce(following, F.col("at") + before + step) - step, F.col("at") + before)
        own = F.col("each") == F.col("at")
        each = F.explode(F.sequence("at", "last", F.lit(step)))
        filled = slices.withColumn("last", last).withColumn("each", each)
        filled = filled.select(*keys, "each", *[F.when(own, F.col(name)).alias(name) for name in ("n", "s")])
        over = Window.partitionBy(*keys).orderBy("each").rangeBetween(-before, 0)
        window = window_struct(F.col("each") - before, F.col("each") + step)
        return filled.select(
            *keys, window, F.sum("n").over(over).alias("records"), F.sum("s").over(over).alias("total")
        )


def _slices(frame: DataFrame, advance: str, column: str) -> DataFrame:
    grouped = frame.groupBy(*keys_of(frame), F.window("ts", advance))
    return grouped.agg(F.count("*").alias("n"), F.sum(column).alias("s"))
