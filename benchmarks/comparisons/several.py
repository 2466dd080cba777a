"""Several windows in one query, against one alone, a query per window, and Spark; also cumulating and zones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.baselines.ours import OurCumulating, OurDays, Ours, OurSizes
from benchmarks.baselines.spark import SparkCumulating, SparkDays, SparkExploded, SparkSizes, SparkWindow
from benchmarks.comparisons.comparison import CLOSED, FASTER, TIME, Check, Comparison, Measure
from benchmarks.running import streams, turns
from benchmarks.running.run import Run
from benchmarks.running.side import SLOWER, Side
from benchmarks.workloads.inputs import DAY, DAYS, HOUR, MINUTE, ONE_DAY

FIVE_MINUTES = "5 minutes"
SIZES = FIVE_MINUTES, HOUR, ONE_DAY
ZONE = "Europe/Berlin"
TENTH, HUNDREDTH = DAY.cut(0.1), DAY.cut(0.01)
"""Shares of the records and keys: Spark copies each record 1,505 times and takes minutes for a hundredth."""

STATE = Measure("x its state", False, lambda baseline, ours: ours.state_bytes / baseline.state_bytes)
"""Bytes in the state store at the end of the stream."""
PER_ROW = Measure("x its time a row", False, lambda alone, ours: _per_row(ours) / _per_row(alone))


def _per_row(run: Run) -> float:
    return run.seconds / run.rows


def _together(column: str) -> dict[str, Run]:
    """The runs of all sizes in one query, and of each size alone, in turns."""
    queries = [(OurSizes(SIZES, column), ONE_DAY), *((Ours(column), size) for size in SIZES)]
    runs = turns.run(*(Side(query, DAYS, size, MINUTE) for query, size in queries))
    return dict(zip(("all", *SIZES), runs, strict=True))


def one_after_the_other(runs: Sequence[Run], sizes: Sequence[str] = SIZES) -> Run:
    """Return several runs as one: seconds, rows and state are added up."""
    note = "; ".join(f"{size} {run.seconds:.2f} s" for size, run in zip(sizes, runs, strict=True))
    totals = {name: sum(getattr(run, name) for run in runs) for name in ("seconds", "rows", "state_bytes")}
    return replace(runs[-1], **totals, stopped=any(run.stopped for run in runs), note=note)


def _alone(column: str) -> tuple[Run, Run]:
    runs = _together(column)
    return runs[ONE_DAY], runs["all"]


def _each(column: str) -> tuple[Run, Run]:
    runs = _together(column)
    return one_after_the_other([runs[size] for size in SIZES]), runs["all"]


def _beside_spark() -> tuple[Run, Run]:
    sides = [Side(SparkWindow(), HUNDREDTH, size, MINUTE, replace(SLOWER, warm_up=0.0)) for size in SIZES]
    theirs = one_after_the_other([streams.run(side) for side in sides])
    return theirs, streams.run(Side(OurSizes(SIZES), TENTH, ONE_DAY, MINUTE))


def _by_minute() -> tuple[Run, Run]:
    queries = (Ours(), MINUTE), (OurCumulating(), ONE_DAY)
    tumbling, cumulating = turns.run(*(Side(query, DAYS, size, MINUTE) for query, size in queries))
    return tumbling, cumulating


def _days() -> tuple[Run, Run]:
    fixed, local = turns.run(*(Side(query, DAYS, ONE_DAY, ONE_DAY) for query in (Ours(), OurDays(ZONE))))
    return fixed, local


def _check(ours: object, theirs: object, advance: str = MINUTE) -> Check:
    return Check(ours, theirs, DAYS.cut(0.0002), ONE_DAY, advance, CLOSED)  # type: ignore[arg-type]  # queries


def _of_kind(column: str, kind: str) -> Iterator[Comparison]:
    check = _check(OurSizes(SIZES, column), SparkSizes(SIZES, column))
    for name, title, sides, goal, measure in (
        ("Several", "5 min, 1 h, 24 h in one query, {} / 24 h alone", _alone, 1.8, TIME),
        ("SeveralEach", "5 min, 1 h, 24 h in one query, {} / a query each", _each, 2.2, FASTER),
        ("SeveralState", "state of 5 min, 1 h, 24 h, {} / 24 h alone", _alone, 1.1, STATE),
    ):
        yield Comparison(
            name + kind.title(),
            title.format(kind),
            sides=lambda sides=sides: sides(column),
            checks=(check,),
            goal=goal,
            measure=measure,
        )


BENCHMARKS = (
    *_of_kind("v", "long"),
    *_of_kind("d", "double"),
    Comparison(
        "CumulatingDay",
        "cumulating day by minute / tumbling minute",
        sides=_by_minute,
        checks=(_check(OurCumulating(), SparkCumulating()),),
        goal=1.5,
        measure=PER_ROW,
    ),
    Comparison(
        "ZoneDay",
        "tumbling day in a zone / tumbling 24 h",
        sides=_days,
        checks=(_check(OurDays(ZONE), SparkDays(ZONE), ONE_DAY), _check(Ours(), SparkExploded(), ONE_DAY)),
        goal=1.1,
        measure=TIME,
    ),
    Comparison(
        "SeveralSpark",
        "5 min, 1 h, 24 h in one query, a tenth / three queries of Spark, cold, on a hundredth, per record",
        sides=_beside_spark,
        checks=(_check(OurSizes(SIZES), SparkSizes(SIZES)),),
        goal=50.0,
    ),
)
