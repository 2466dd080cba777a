"""Comparisons with what users would take instead, and the goals set for them: `track_` benchmarks for asv.

Both sides run in one process, each after a run that warms it up unless a note says that it was cold. Where a few
percent matter, the micro-batches of both take turns, or those of ours with others of ours; elsewhere one side runs
after the other. A ratio is given only if the same queries, on the same workload or a cut of it, write equal rows into
Parquet.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from benchmarks import measure, polars_side, results
from benchmarks.floor import Floor
from benchmarks.measure import Run, Settings, bounded, faster, stream
from benchmarks.queries import ByHand, FourFunctions, Ours, Query, SparkExploded, SparkRange, SparkTwoStep, SparkWindow
from benchmarks.rows import difference
from benchmarks.turns import Side, turns
from benchmarks.workloads import DAY, DAYS, DENSE, DENSE_MILLION, KEYS, SMALL, SPARSE, TWO_WEEKS, Workload, many_keys
from slicing import on_change, on_update

SECOND, TEN_SECONDS, MINUTE, HOUR, TODAY, SEVEN_DAYS = (
    "1 second",
    "10 seconds",
    "1 minute",
    "1 hour",
    "24 hours",
    "7 days",
)
WARM = Settings(warm_up=1.0)
SLOW = replace(WARM, steady=2)
SLOWER = Settings(unsteady=1, steady=2)
"""For micro-batches of many seconds, the first of which warms up more than any run of ours."""
MORE = Settings(unsteady=1, steady=6)

STREAMS, BOUNDED, CLOSED = "streams", "bounded", "closed"


@dataclass(frozen=True)
class Check:
    """Two queries that must give equal rows on a workload; `theirs` is None for Polars, which is bounded.

    `how`: both are streams, both are bounded, or ours is a stream and theirs is bounded, where all windows that are
    closed at the end of the stream must be equal.
    """

    ours: Query
    theirs: Query | None
    workload: Workload
    size: str
    advance: str
    how: str = STREAMS
    mode: str = "append"

    def difference(self) -> str | None:
        """What differs, or None."""
        return _difference(self)


@cache
def _difference(check: Check) -> str | None:
    window = (check.workload, check.size, check.advance)
    if check.theirs is None:
        with measure.parquet_of_bounded(check.ours, *window) as ours, polars_side.parquet(*window) as theirs:
            return difference(ours, theirs)
    streams = partial(measure.parquet_of_stream, mode=check.mode)
    write_ours = measure.parquet_of_bounded if check.how == BOUNDED else streams
    write_theirs = streams if check.how == STREAMS else measure.parquet_of_bounded
    with write_ours(check.ours, *window) as ours, write_theirs(check.theirs, *window) as theirs:
        return difference(ours, measure.closed(theirs, check.workload) if check.how == CLOSED else theirs)


class _Comparison:
    """A baseline and ours, measured in the same process. The docstring is the title: workload / baseline."""

    timeout = 3600
    unit = "times faster"
    goal: float | None = None
    more_is_better = True

    def sides(self) -> tuple[Run, Run]:
        """The baseline, then ours."""
        raise NotImplementedError

    def checks(self) -> Sequence[Check]:
        """What must give equal rows for the ratio to mean something."""
        raise NotImplementedError

    def ratio(self, baseline: Run, ours: Run) -> float:
        """How many times faster per record."""
        return baseline.per_record / ours.per_record

    def measured(self) -> results.Ratio:
        """Both sides and their ratio, kept for the page."""
        differs = next(filter(None, (check.difference() for check in self.checks())), None)
        baseline, ours = self.sides()
        finished = not (baseline.stopped or ours.stopped)
        found = results.Ratio(
            type(self).__name__,
            (self.__doc__ or "").rstrip("."),
            self.unit,
            self.goal,
            self.more_is_better,
            self.ratio(baseline, ours) if finished and not differs else None,
            differs,
            baseline,
            ours,
            results.machine(measure.CORES),
        )
        results.keep(found)
        return found

    def track_ratio(self) -> float:
        """What asv records."""
        found = self.measured()
        return math.nan if found.ratio is None else found.ratio


class _Slower(_Comparison):
    """Comparisons whose goal is a bound on our time, as a multiple of the baseline's."""

    unit = "x its time"
    more_is_better = False

    def ratio(self, baseline: Run, ours: Run) -> float:
        """Our time as a multiple of the baseline's."""
        return ours.per_record / baseline.per_record


class _Read(_Comparison):
    """Comparisons of the bytes that the state store was read for in a micro-batch."""

    unit = "x its bytes"
    more_is_better = False

    def ratio(self, baseline: Run, ours: Run) -> float:
        """Our bytes as a multiple of the baseline's."""
        return ours.read_bytes / baseline.read_bytes


DAY_CUT = DAY.cut(0.002)
DAYS_CUT = DAYS.cut(0.0002)
TWO_WEEKS_CUT = TWO_WEEKS.cut(0.0001)
DENSE_CUT = DENSE.cut(0.005)


def _hourly(column: str) -> Check:
    return Check(Ours(column), SparkWindow(column), DAY_CUT, HOUR, MINUTE)


def _daily(column: str) -> Check:
    return Check(Ours(column), SparkExploded(column), DAYS_CUT, TODAY, MINUTE, CLOSED)


def _weekly(column: str) -> Check:
    return Check(Ours(column), SparkExploded(column), TWO_WEEKS_CUT, SEVEN_DAYS, MINUTE, CLOSED)


def _beside(size: str, settings: Settings, *ours: Side) -> tuple[Run, ...]:
    """Spark's `window()` of this size on its faster state store, and streams of ours, in turns.

    The store is chosen by runs of Spark alone, with these settings; they warm it up too.
    """
    window = ours[0].workload, size, ours[0].advance
    alone = faster(SparkWindow(), *window, settings)
    if alone.stopped:
        return alone, *turns(*ours)
    spark = Side(SparkWindow(), *window, replace(ours[0].settings, store=alone.store, warm_up=0.0))
    first, *others = turns(spark, *ours)
    return replace(first, note=f"before, alone: {alone.note}"), *others


def _tumbling() -> Run:
    return faster(SparkWindow(), DAY, MINUTE, MINUTE, SLOW)


def _day() -> tuple[Run, ...]:
    """Ours at R = 60: sum of a long, of a double, four functions row by row.

    Not in turns with Spark, which leaves garbage of a million rows of state to collect while it is our turn.
    """
    return turns(*(Side(query, DAY, HOUR, MINUTE, WARM) for query in (Ours("v"), Ours("d"), FourFunctions())))


def _wide(workload: Workload, size: str, settings: Settings) -> dict[str, tuple[Run, Run]]:
    """Ours at R = 60 and at a wide window, by the column that is summed."""
    sides = (Side(Ours(column), workload, each, MINUTE, settings) for column in "vd" for each in (HOUR, size))
    long, wide_long, double, wide_double = turns(*sides)
    return {"v": (long, wide_long), "d": (double, wide_double)}


class DayLong(_Comparison):
    """day, R = 60, long / Spark tumbling (R = 1)."""

    goal = 10.0

    def sides(self) -> tuple[Run, Run]:
        return _tumbling(), _day()[0]

    def checks(self) -> Sequence[Check]:
        return [_hourly("v"), Check(Ours("v"), SparkWindow("v"), DAY_CUT, MINUTE, MINUTE)]


class DayDouble(_Comparison):
    """day, R = 60, double / Spark tumbling (R = 1)."""

    def sides(self) -> tuple[Run, Run]:
        return faster(SparkWindow("d"), DAY, MINUTE, MINUTE, SLOW), _day()[1]

    def checks(self) -> Sequence[Check]:
        return [_hourly("d")]


class _Wide(_Slower):
    """Ours at a wide window and at R = 60, on the same workload, micro-batches and result rows."""

    goal = 1.15
    column = "v"
    arguments: tuple[Workload, str, Settings] = DAYS, TODAY, Settings()

    def sides(self) -> tuple[Run, Run]:
        return _wide(*self.arguments)[self.column]

    def checks(self) -> Sequence[Check]:
        return [_hourly(self.column), _daily(self.column)]


class _Wider(_Wide):
    """The same for a week."""

    arguments = TWO_WEEKS, SEVEN_DAYS, MORE

    def checks(self) -> Sequence[Check]:
        return [_hourly(self.column), _weekly(self.column)]


class WideDayLong(_Wide):
    """day, R = 1440, long / ours at R = 60."""


class WideDayDouble(_Wide):
    """day, R = 1440, double / ours at R = 60."""

    column = "d"


class WideWeekLong(_Wider):
    """two weeks, R = 10,080, long / ours at R = 60."""


class WideWeekDouble(_Wider):
    """two weeks, R = 10,080, double / ours at R = 60."""

    column = "d"


class ReadDayLong(_Read, WideDayLong):
    """state read: day, R = 1440, long / ours at R = 60."""

    goal = 1.3


class ReadDayDouble(_Read, WideDayDouble):
    """state read: day, R = 1440, double / ours at R = 60."""

    goal = 1.3


class ReadWeekLong(_Read, WideWeekLong):
    """state read: two weeks, R = 10,080, long / ours at R = 60."""

    goal = 1.3


class ReadWeekDouble(_Read, WideWeekDouble):
    """state read: two weeks, R = 10,080, double / ours at R = 60."""

    goal = 1.3


DENSE_HOUR, MILLION_HOUR = (DENSE, HOUR, TEN_SECONDS), (DENSE_MILLION, HOUR, TEN_SECONDS)


def _dense() -> Run:
    return stream(Ours(), *DENSE_HOUR, WARM)


def _dense_check(theirs: Query) -> list[Check]:
    return [Check(Ours(), theirs, DENSE_CUT, HOUR, TEN_SECONDS)]


class Dense(_Comparison):
    """dense, R = 360, 200,000 records / Spark `window()`."""

    goal = 33.0

    def sides(self) -> tuple[Run, Run]:
        return faster(SparkWindow(), *DENSE_HOUR, SLOWER), _dense()

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkWindow())


class DenseMillion(_Comparison):
    """dense, R = 360, 1,000,000 records / Spark `window()`."""

    goal = 60.0

    def sides(self) -> tuple[Run, Run]:
        # Minutes per micro-batch: one of them, and only on the store that was the faster one on fewer records.
        store = faster(SparkWindow(), *DENSE_HOUR, SLOWER).store
        slowest = Settings(store=store, unsteady=1, steady=1, warm_up=0, limit=300)
        baseline = stream(SparkWindow(), *MILLION_HOUR, slowest)
        note = f"{store} only, the faster at 200,000 records; cold, one micro-batch"
        return replace(baseline, note=note), stream(Ours(), *MILLION_HOUR, WARM)

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkWindow())


class DenseFine(_Comparison):
    """dense, R = 3600 / Spark `window()` on a 20th of records and keys, per record."""

    goal = 200.0

    def sides(self) -> tuple[Run, Run]:
        # Spark takes minutes for any micro-batch: 3,600 projections are more than its code generator can take.
        once = Settings(store="default store", unsteady=0, steady=1, warm_up=0, limit=400)
        baseline = stream(SparkWindow(), DENSE.cut(0.05), HOUR, SECOND, once)
        note = "default store only; the first micro-batch, cold, in which no window closes"
        return replace(baseline, note=note), stream(Ours(), DENSE, HOUR, SECOND, WARM)

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), SparkWindow(), DENSE.cut(0.001), HOUR, SECOND, CLOSED)]


class DenseTwoStep(_Comparison):
    """dense, R = 360, 200,000 records / Spark's own two steps."""

    def sides(self) -> tuple[Run, Run]:
        return faster(SparkTwoStep(), *DENSE_HOUR, SLOWER), _dense()

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkTwoStep())


class DenseEager(_Comparison):
    """dense, R = 360, 200,000 records / our eager strategy."""

    def sides(self) -> tuple[Run, Run]:
        return stream(Ours(tree="eager"), *DENSE_HOUR, replace(SLOWER, limit=120)), _dense()

    def checks(self) -> Sequence[Check]:
        return _dense_check(Ours(tree="eager"))


class DenseByHand(_Comparison):
    """dense, R = 360, 200,000 records / `transformWithStateInPandas` by hand, per key."""

    def sides(self) -> tuple[Run, Run]:
        return stream(ByHand(), *DENSE_HOUR, replace(SLOWER, steady=1, limit=120)), _dense()

    def checks(self) -> Sequence[Check]:
        return _dense_check(ByHand())


class ManyKeys(_Comparison):
    """keys, 100,000 keys, R = 60 / Spark `window()` on a tenth of records and keys, per record."""

    goal = 50.0

    def sides(self) -> tuple[Run, Run]:
        baseline = faster(SparkWindow(), KEYS.cut(0.1), HOUR, MINUTE, SLOW)
        return baseline, stream(Ours(), KEYS, HOUR, MINUTE, WARM)

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), SparkWindow(), KEYS.cut(0.01), HOUR, MINUTE)]


class FourFunctionsByRow(_Slower):
    """day, R = 60, four functions row by row / columnar sum."""

    goal = 3.0

    def sides(self) -> tuple[Run, Run]:
        ours, _, functions = _day()
        return ours, functions

    def checks(self) -> Sequence[Check]:
        return [_hourly("v"), Check(FourFunctions(), SparkWindow(), DAY_CUT, HOUR, MINUTE)]


class PolarsStream(_Slower):
    """day, R = 60, the fixed cost of a micro-batch taken off / Polars in process, per record."""

    goal = 4.0

    def sides(self) -> tuple[Run, Run]:
        fixed, ours = _small()[1], _day()[0]
        note = f"of {ours.seconds:.2f} s, {fixed.seconds:.2f} s fixed cost taken off"
        return polars_side.bounded(DAY, HOUR, MINUTE), replace(ours, seconds=ours.seconds - fixed.seconds, note=note)

    def checks(self) -> Sequence[Check]:
        return [_hourly("v"), Check(Ours(), None, DAY_CUT, HOUR, MINUTE, how=BOUNDED)]


class PolarsBoundedHour(_Slower):
    """day, bounded, R = 60 / Polars in process."""

    goal = 3.0
    size = HOUR

    def sides(self) -> tuple[Run, Run]:
        return polars_side.bounded(DAY, self.size, MINUTE), bounded(Ours(), DAY, self.size, MINUTE)

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), None, DAY_CUT, self.size, MINUTE, how=BOUNDED)]


class PolarsBoundedDay(PolarsBoundedHour):
    """day, bounded, R = 1440 / Polars in process."""

    size = TODAY


class _Bounded(_Comparison):
    """Bounded input against Spark's batch queries."""

    theirs: Query = SparkWindow()
    share = 0.1

    def sides(self) -> tuple[Run, Run]:
        return bounded(self.theirs, DAY.cut(self.share), HOUR, MINUTE), bounded(Ours(), DAY, HOUR, MINUTE)

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), self.theirs, DAY_CUT, HOUR, MINUTE, how=BOUNDED)]


class BoundedWindow(_Bounded):
    """day, bounded, R = 60 / Spark `window()` on a tenth of records and keys, per record."""


class BoundedTwoStep(_Bounded):
    """day, bounded, R = 60 / Spark's own two steps on a tenth of records and keys, per record."""

    theirs = SparkTwoStep()


class BoundedRange(_Bounded):
    """day, bounded, R = 60 / Spark `sum().over(rangeBetween)` over slices."""

    theirs = SparkRange()
    share = 1.0


class DoubleHour(_Slower):
    """sum of a double, n = 60 / sum of a long."""

    goal = 1.2

    def sides(self) -> tuple[Run, Run]:
        long, double, _ = _day()
        return long, double

    def checks(self) -> Sequence[Check]:
        return [_hourly("v"), _hourly("d")]


class DoubleDay(_Slower):
    """sum of a double, n = 1440 / sum of a long."""

    goal = 1.2

    def sides(self) -> tuple[Run, Run]:
        runs = _wide(*_Wide.arguments)
        return runs["v"][1], runs["d"][1]

    def checks(self) -> Sequence[Check]:
        return [_daily("v"), _daily("d")]


SMALLEST = SMALL, HOUR, TEN_SECONDS, Settings(steady=30)


def _small() -> tuple[Run, ...]:
    """Few records: Spark at R = 1, ours, and the stages of ours without any work."""
    return _beside(TEN_SECONDS, SMALLEST[-1], Side(Ours(), *SMALLEST), Side(Floor(0), *SMALLEST))


class FixedCost(_Slower):
    """fixed cost: 1,000 records per micro-batch, R = 360 / Spark tumbling."""

    goal = 1.3

    def sides(self) -> tuple[Run, Run]:
        spark, ours, _ = _small()
        return spark, ours

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkWindow())


UPDATES = replace(WARM, mode="update")
SLOW_UPDATES = replace(SLOWER, mode="update")


class UpdateFine(_Comparison):
    """on_update, dense, R = 360 / Spark's update mode."""

    goal = 12.0
    advance = TEN_SECONDS

    def sides(self) -> tuple[Run, Run]:
        window = DENSE, HOUR, self.advance
        return faster(SparkWindow(), *window, SLOW_UPDATES), stream(Ours(emission=on_update()), *window, UPDATES)

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(emission=on_update()), SparkWindow(), DENSE_CUT, HOUR, self.advance, mode="update")]


class UpdateHour(UpdateFine):
    """on_update, dense, R = 60 / Spark's update mode."""

    goal = 4.0
    advance = MINUTE

    def sides(self) -> tuple[Run, Run]:
        side = Side(Ours(emission=on_update()), DENSE, HOUR, self.advance, UPDATES)
        spark, ours = _beside(HOUR, SLOW_UPDATES, side)
        return spark, ours


class Suppressed(_Comparison):
    """on_close, dense, R = 360 / Spark's update mode, as it runs before a suppression of updates downstream."""

    def sides(self) -> tuple[Run, Run]:
        return faster(SparkWindow(), *DENSE_HOUR, SLOW_UPDATES), _dense()

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkWindow())


class SuppressedOurs(Suppressed):
    """on_close, dense, R = 360 / our on_update, as it runs before a suppression of updates downstream."""

    def sides(self) -> tuple[Run, Run]:
        return stream(Ours(emission=on_update()), *DENSE_HOUR, UPDATES), _dense()


class ChangeSparse(_Slower):
    """on_change, 1 M sparse keys, R = 60 / Spark tumbling (R = 1)."""

    goal = 2.0

    def sides(self) -> tuple[Run, Run]:
        return faster(SparkWindow(), SPARSE, MINUTE, MINUTE, SLOW), _sparse()[0]

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), SparkWindow(), SPARSE.cut(0.002), HOUR, MINUTE)]


class ChangeClose(ChangeSparse):
    """on_change, 1 M sparse keys, R = 60 / our on_close."""

    goal = None

    def sides(self) -> tuple[Run, Run]:
        changes, closes = _sparse()
        return closes, changes


def _sparse() -> tuple[Run, ...]:
    """Many keys with few records, R = 60, on_change and on_close; not with Spark, as in `_day`."""
    return turns(*(Side(query, SPARSE, HOUR, MINUTE, SLOW) for query in (Ours(emission=on_change()), Ours())))


class _Floor(_Slower):
    """Ours against the same stages without any work; rows cannot be equal and are not compared."""

    query: Query = Ours()
    arguments: tuple[Workload, str, str, Settings]

    def sides(self) -> tuple[Run, Run]:
        rows = stream(self.query, *self.arguments).rows  # which warms ours up too
        *window, settings = self.arguments
        floor, ours = turns(
            Side(Floor(rows), *self.arguments), Side(self.query, *window, replace(settings, warm_up=0.0))
        )
        return floor, ours

    def checks(self) -> Sequence[Check]:
        return ()


class DayFloor(_Floor):
    """day, R = 60, long / the same stages and as many rows without any work."""

    arguments = DAY, HOUR, MINUTE, WARM


class DenseFloor(_Floor):
    """dense, R = 360, 200,000 records / the same stages and as many rows without any work."""

    arguments = *DENSE_HOUR, WARM


class DenseMillionFloor(_Floor):
    """dense, R = 360, 1,000,000 records / the same stages and as many rows without any work."""

    arguments = *MILLION_HOUR, WARM


class KeysFloor(_Floor):
    """keys, 100,000 keys, R = 60 / the same stages and as many rows without any work."""

    arguments = KEYS, HOUR, MINUTE, WARM


class FixedFloor(_Floor):
    """fixed cost: 1,000 records per micro-batch / the same stages without any work."""

    def sides(self) -> tuple[Run, Run]:
        _, ours, floor = _small()
        return floor, ours


class UpdateFloor(_Floor):
    """on_update, dense, R = 60 / the same stages and as many rows without any work."""

    query = Ours(emission=on_update())
    arguments = DENSE, HOUR, MINUTE, UPDATES


class BatchBytes(_Slower):
    """dense, R = 360, 1,000,000 records, Arrow batches limited by records only / also by bytes, Spark's default."""

    def sides(self) -> tuple[Run, Run]:
        both = (replace(WARM, batch_bytes="64MB"), WARM)
        limited, ours = turns(*(Side(Ours(), *MILLION_HOUR, settings) for settings in both))
        return limited, ours

    def checks(self) -> Sequence[Check]:
        return _dense_check(SparkWindow())


class _Keys(_Slower):
    """A million keys against half of them: 10 shuffle partitions, 10,000 records per micro-batch."""

    goal = 1.1

    def sides(self) -> tuple[Run, Run]:
        settings = Settings(partitions=10, steady=12)
        few, many = turns(*(Side(Ours(), many_keys(keys), HOUR, MINUTE, settings) for keys in (500_000, 1_000_000)))
        return (few, many) if few.stopped or many.stopped else (self.part(few), self.part(many))

    def part(self, run: Run) -> Run:
        """The micro-batches that count."""
        raise NotImplementedError

    def checks(self) -> Sequence[Check]:
        return [Check(Ours(), SparkWindow(), many_keys(1_000_000).cut(0.002), HOUR, MINUTE)]


class KeysOpen(_Keys):
    """1 M keys, 10 shuffle partitions, micro-batches that close no window / the same with 500,000 keys."""

    def part(self, run: Run) -> Run:
        quiet = [seconds for seconds, rows in run.each if not rows]
        return replace(run, seconds=statistics.median(quiet), rows=0, batches=len(quiet))


class KeysClose(_Keys):
    """1 M keys, 10 shuffle partitions, micro-batches that close a window, per emitted row / with 500,000 keys."""

    def part(self, run: Run) -> Run:
        closing = [(seconds, rows) for seconds, rows in run.each if rows]
        seconds, rows = (statistics.median(column) for column in zip(*closing, strict=True))
        return replace(run, seconds=seconds, rows=round(rows), batches=len(closing))

    def ratio(self, baseline: Run, ours: Run) -> float:
        return (ours.seconds / ours.rows) / (baseline.seconds / baseline.rows)


class CheckpointBytes(_Comparison):
    """checkpoint bytes per record, day, R = 60 / Spark tumbling."""

    unit = "x its bytes"
    more_is_better = False
    goal = 1 / 3

    def sides(self) -> tuple[Run, Run]:
        runs = [stream(SparkWindow(), DAY, MINUTE, MINUTE, replace(SLOWER, store=store)) for store in measure.STORES]
        ours = _day()[0]
        note = "; ".join(f"on {run.store} {run.checkpoint_bytes:.1f} bytes" for run in runs)
        smaller = min(runs, key=lambda run: run.checkpoint_bytes or math.inf)
        return replace(smaller, note=note), replace(ours, note=f"{ours.checkpoint_bytes:.1f} bytes")

    def checks(self) -> Sequence[Check]:
        return [_hourly("v"), Check(Ours("v"), SparkWindow("v"), DAY_CUT, MINUTE, MINUTE)]

    def ratio(self, baseline: Run, ours: Run) -> float:
        return ours.checkpoint_bytes / baseline.checkpoint_bytes


GOALS: tuple[type[_Comparison], ...] = (
    DayLong,
    WideDayLong,
    WideDayDouble,
    WideWeekLong,
    WideWeekDouble,
    ReadDayLong,
    ReadDayDouble,
    ReadWeekLong,
    ReadWeekDouble,
    Dense,
    DenseMillion,
    DenseFine,
    ManyKeys,
    PolarsStream,
    PolarsBoundedHour,
    PolarsBoundedDay,
    DoubleHour,
    DoubleDay,
    FixedCost,
    KeysOpen,
    KeysClose,
    CheckpointBytes,
    UpdateHour,
    UpdateFine,
    ChangeSparse,
)
OTHERS: tuple[type[_Comparison], ...] = (
    DayDouble,
    DenseTwoStep,
    DenseEager,
    DenseByHand,
    BoundedWindow,
    BoundedTwoStep,
    BoundedRange,
    FourFunctionsByRow,
    Suppressed,
    SuppressedOurs,
    ChangeClose,
    DayFloor,
    DenseFloor,
    DenseMillionFloor,
    KeysFloor,
    FixedFloor,
    UpdateFloor,
    BatchBytes,
)
ALL = (*GOALS, *OTHERS)
QUICK: tuple[type[_Comparison], ...] = (ManyKeys, PolarsBoundedHour)
