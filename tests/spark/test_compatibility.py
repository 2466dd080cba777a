"""What goes with what: queries on DataFrames of Spark have the outcome that docs/windows.md states.

The table is generated from declared schemas (docs/compatibility.py). Here every kind has further calls, which have to
have the outcome of its first one. Nothing is run: what does not go is refused when the query is built.
"""

import re
from pathlib import Path

import pytest

import combinators as C
from docs.compatibility import (
    BY_CLOCK,
    COLUMNS,
    KINDS,
    OPTIONS,
    SAME,
    TRIGGERS,
    YES,
    Windows,
    built,
    outcome,
    triggers_of,
)
from slicing import (
    InvalidValue,
    by_edges,
    counting,
    cumulating,
    early,
    group_by,
    hopping,
    late_partials,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
    unbounded,
)

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "windows.md").read_text(encoding="utf-8")
HOUR, DAY = hopping("1 hour", "1 minute"), hopping("1 day", "1 minute")
MONTH = cumulating("1 month", step="1 day", zone="Europe/Berlin")
MORE = {
    "tumbling, hopping": Windows((tumbling("1 hour"),)),
    "long, with a tail": Windows((hopping("1 day", "1 minute", tail="1 hour"),)),
    "cumulating": Windows((MONTH,)),
    "in a zone": Windows((MONTH,)),
    "by edges": Windows((by_edges([0, 5 * 10**6], [10**7, 2 * 10**7]),)),
    "several that end together": Windows(named={"hour": HOUR, "day": DAY, "long": True}),
    "several that do not": Windows((MONTH, HOUR)),
    "wide rows": Windows(named={"day": DAY, "ten": hopping("10 minutes", "1 minute")}),
    "sessions": Windows((session(gap_column="value"),)),
    "sliding": Windows((sliding("1 hour", right=False),)),
    "sliding, several lengths": Windows((sliding(day="1 day", week="7 days", right=False, closed="left"),)),
    "counting": Windows((counting(100, 10, ttl="1 day"),)),
    "unbounded": Windows((unbounded(ttl="1 day"),)),
}
CALLS = [(kind, of) for calls in (KINDS, MORE) for kind, of in calls.items()]


def cells():
    """The table: (row, column) -> cell."""
    text = re.search(r"<!-- table what goes with what -->\n((?:\|.*\n)+)", PAGE)[1]
    head, _, *lines = text.splitlines()
    columns = [name.strip() for name in head.split("|")[2:-1]]
    rows = {
        kind: [cell.strip() for cell in line.split("|")[2:-1]]
        for line in lines
        for kind in line.split("|")[1].strip().split("; ")
    }
    return {(row, name): cell for row, found in rows.items() for name, cell in zip(columns, found, strict=True)}


@pytest.fixture(scope="module")
def sources(spark):
    """A stream that is never started, and a bounded DataFrame."""
    stream = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts").withWatermark("ts", "1 second")
    return stream, spark.range(3).selectExpr("id value", "timestamp_seconds(id) ts")


def on_frames(sources, of, column, time):
    """The outcome of building the queries of a cell on a DataFrame."""
    source = sources[1 if column == "bounded" else 0]
    try:
        for trigger in triggers_of(column, of):
            last = built(group_by(source), of, column, trigger, time).dataframe()
    except InvalidValue as error:
        return str(error)
    if column == "late output" and "late" not in last.columns:
        with pytest.raises(InvalidValue, match="late rows are tagged"):
            late_partials(last)
        return "nothing is late"
    return YES


def says(cell, found):
    """Whether a cell of the table says what came."""
    return cell == found or (cell.startswith("no (") and found not in (YES, "nothing is late"))


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("kind", "of"), CALLS)
def test_queries_on_frames_come_to_what_the_table_says(sources, kind, of, column):
    for time in ("ts", None) if kind in ("unbounded", "counting") else ("ts",):
        found = on_frames(sources, of, column, time)
        assert says(cells()[kind, column], found), (time, found)
        assert found == outcome(of, column), "the table is generated from declared schemas"


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("kind", "of"), [(kind, of) for kind, of in CALLS if kind != "counting"])
def test_the_table_says_what_goes_by_the_clock(sources, kind, of, column):
    """A cell "same" is that of the kind."""
    cell = cells()[BY_CLOCK, column]
    if cell == SAME or (kind == "unbounded" and column != "bounded"):
        cell = cells()[kind, column]
    found = on_frames(sources, of, column, processing_time())
    assert says(cell, found), found


def test_what_is_counted_goes_by_no_clock(sources):
    assert "`counting(...)` does not depend on time" in PAGE
    with pytest.raises(InvalidValue, match="whatever the clock"):
        group_by(sources[0], "value").window(counting(5), time=processing_time()).aggregate(n=C.count())


def test_the_plan_says_what_waits_for_the_clock(sources):
    """Such a query does not end with the trigger `availableNow`, and `explain` says so."""
    given = group_by(sources[0], "value")
    clocked = [
        given.window(HOUR, time=processing_time()),
        given.window(HOUR, DAY, time=processing_time()).emit(on_update()),
        given.window(unbounded(ttl="1 day")).emit(on_update()),
        given.window(HOUR, time="ts").emit(early(every="10 seconds")),
    ]
    others = [given.window(HOUR, time="ts"), given.window(unbounded()).emit(early(records=3))]
    for windowed in (*clocked, *others):
        plan = windowed.plan(n=C.count())
        assert plan.by_clock == (windowed in clocked)
        assert ("availableNow ends only without" in str(plan)) == plan.by_clock


def test_the_table_is_whole():
    found = cells()
    assert {row for row, _ in found} == {*KINDS, BY_CLOCK} == {*MORE, BY_CLOCK}
    assert {column for _, column in found} == {*TRIGGERS, *OPTIONS}
    below = dict(re.findall(r"^(\d+)\. (.*)$", PAGE[PAGE.index("## What goes with what") :], re.MULTILINE))
    given = {number for cell in found.values() for number in re.findall(r"\((\d+)\)", cell)}
    assert below.keys() == given


@pytest.mark.parametrize("column", TRIGGERS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_trigger_that_goes_does_not_hide_another_that_does_not(sources, kind, column):
    """All triggers of a column go, or none does."""
    for trigger in TRIGGERS[column]:
        try:
            built(group_by(sources[0]), KINDS[kind], column, trigger, "ts").plan()
        except InvalidValue:
            assert cells()[kind, column].startswith("no"), trigger
        else:
            assert cells()[kind, column] == YES, trigger
