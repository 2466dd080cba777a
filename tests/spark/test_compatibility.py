"""What goes with what: every kind of windows with every emission and option, as docs/windows.md says and the code does.

Nothing is run: what does not go is refused when the query is built. A cell of the table begins with "yes", or it is
"no (3)", and line 3 below the table has the reason, which the message of the refusal has to have words of.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import combinators as C
from slicing import (
    InvalidType,
    InvalidValue,
    by_edges,
    counting,
    cumulating,
    early,
    group_by,
    hopping,
    late_partials,
    on_change,
    on_close,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
    unbounded,
)
from slicing.windows.counting import Counting

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "windows.md").read_text(encoding="utf-8")
HOUR, DAY, SHIFTS = hopping("1 hour", "1 minute"), hopping("1 day", "1 minute"), ([0, 10**10], [10**9, 2 * 10**10])
MONTH = cumulating("1 month", step="1 day", zone="Europe/Berlin")

KINDS = {
    "tumbling, hopping": [((HOUR,), {}), ((tumbling("1 hour"),), {})],
    "cumulating": [((cumulating("1 day", step="1 hour"),), {})],
    "in a zone": [((tumbling("1 day", zone="Europe/Berlin"),), {}), ((MONTH,), {})],
    "by edges": [((by_edges(*SHIFTS),), {})],
    "several that end together": [((HOUR, DAY), {}), ((), {"hour": HOUR, "day": DAY, "long": True})],
    "several that do not": [((HOUR, tumbling("7 minutes")), {}), ((MONTH, HOUR), {})],
    "side by side": [((), {"hour": HOUR, "day": DAY})],
    "sessions": [((session("30 minutes"),), {}), ((session(gap_column="value"),), {})],
    "sliding": [((sliding("10 minutes"),), {}), ((sliding("1 hour", right=False),), {})],
    "counting": [((counting(100),), {}), ((counting(100, 10, ttl="1 day"),), {})],
    "unbounded": [((unbounded(),), {}), ((unbounded(ttl="1 day"),), {})],
}
BY_CLOCK = "any other by the clock"

EMISSIONS = {
    "on close": [on_close()],
    "corrections": [on_close(corrections=True, **more) for more in ({}, {"old": True}, {"discarding": True})],
    "on update, `latest_only`": [on_update(), on_update(latest_only=True)],
    "on change": [on_change(), on_change(drained=True)],
    "early": [early(every="10 seconds"), early(records=5), early(records=5, per="window", after="10 seconds")],
}
OPTIONS = ("grace", "late output", "eager", "bounded")

REASONS = {
    "1": "must end together",
    "2": "waits for windows to close",
    "3": "compares a window with the one before",
    "4": "late records",
    "5": "keeps totals",
    "6": "read at once",
    "7": "do not follow each other",
    "8": "sessions are merged",
    "9": "from the times that are there",
    "10": "fires once",
}


def cells():
    """The table: (row, column) -> cell."""
    head, _, *lines = re.search(r"^## What goes with what\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[1].splitlines()
    columns = [name.strip() for name in head.split("|")[2:-1]]
    rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]] for line in lines}
    return {(row, name): cell for row, found in rows.items() for name, cell in zip(columns, found, strict=True)}


@pytest.fixture(scope="module")
def sources(spark):
    """A stream that is never started, and a bounded DataFrame."""
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    return stream, spark.range(3).selectExpr("id value", "timestamp_seconds(id) timestamp")


def emissions_of(column, window):
    """Those of a column that a cell is about."""
    return EMISSIONS.get(column, [on_close() if isinstance(window, Counting) else on_update()])


def build(sources, column, call, time):
    """Build queries of a kind that differ in what the column is about; what is refused raises."""
    windows, named = call
    stream, bounded = sources
    source = bounded if column == "bounded" else stream
    if column == "bounded":
        windows = [replace(each, order_by="value") if isinstance(each, Counting) else each for each in windows]
    for emission in emissions_of(column, (*windows, *named.values())[0]):
        windowed = group_by(source, "value").window(*windows, **named, time=time).emit(emission)
        if column in ("grace", "corrections") and not (time != "timestamp" and column == "corrections"):
            windowed = windowed.grace("1 minute")
        if column == "late output":
            windowed = windowed.late("partials")
        frame = windowed.assemble("eager" if column == "eager" else "auto").aggregate(n=C.count())
        yield frame


def outcome(sources, column, call, time):
    """What the column's queries come to: "yes", "nothing is late", or why all of them are refused."""
    try:
        (*_, last) = build(sources, column, call, time)
    except (InvalidValue, InvalidType) as error:
        return str(error)
    if column == "late output" and "late" not in last.columns:
        with pytest.raises(InvalidValue, match="late rows are tagged"):
            late_partials(last)
        return "nothing is late"
    return "yes"


def agrees(cell, found):
    """Whether a cell of the table says what came."""
    if (number := re.fullmatch(r"no \((\d+)\)", cell)) is not None:
        return REASONS[number[1]] in found
    return found == "yes" if cell.startswith("yes") else found == cell


@pytest.mark.parametrize("column", [*EMISSIONS, *OPTIONS])
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_says_what_is_built_and_what_is_refused(sources, kind, column):
    for call in KINDS[kind]:
        for time in ("timestamp", None) if kind in ("unbounded", "counting") else ("timestamp",):
            found = outcome(sources, column, call, time)
            assert agrees(cells()[kind, column], found), (call, time, found)


@pytest.mark.parametrize("column", [*EMISSIONS, *OPTIONS])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "counting"])
def test_the_table_says_what_goes_by_the_clock(sources, kind, column):
    """A cell "as by event time" is that of the kind."""
    cell = cells()[BY_CLOCK, column]
    if kind == "unbounded" or (cell.startswith("yes") and column == "on change") or cell == "as by event time":
        cell = cells()[kind, column]
    for call in KINDS[kind]:
        found = outcome(sources, column, call, processing_time())
        assert agrees("no (6)" if column == "bounded" else cell, found), (call, found)


def test_what_is_counted_goes_by_no_clock(sources):
    assert "`counting(...)` goes by no clock" in PAGE
    with pytest.raises(InvalidValue, match="whatever the clock"):
        group_by(sources[0], "value").window(counting(5), time=processing_time()).aggregate(n=C.count())


def test_the_plan_says_what_waits_for_the_clock(sources):
    """Such a query does not end with the trigger `availableNow`, and `explain` says so."""
    given = group_by(sources[0], "value")
    clocked = [
        given.window(HOUR, time=processing_time()),
        given.window(HOUR, DAY, time=processing_time()).emit(on_update()),
        given.window(unbounded(ttl="1 day")).emit(on_update()),
        given.window(HOUR, time="timestamp").emit(early(every="10 seconds")),
    ]
    others = [given.window(HOUR, time="timestamp"), given.window(unbounded()).emit(early(records=3))]
    for windowed in (*clocked, *others):
        plan = windowed.plan(n=C.count())
        assert plan.by_clock == (windowed in clocked)
        assert ("availableNow ends only without" in str(plan)) == plan.by_clock


def test_the_table_is_whole():
    found = cells()
    assert {row for row, _ in found} == {*KINDS, BY_CLOCK}
    assert {column for _, column in found} == {*EMISSIONS, *OPTIONS, "command line"}
    below = dict(re.findall(r"^(\d+)\. (.*)$", PAGE[PAGE.index("## What goes with what") :], re.MULTILINE))
    given = {number for cell in found.values() for number in re.findall(r"\((\d+)\)", cell)}
    assert below.keys() == REASONS.keys() == given


def test_one_emission_that_goes_does_not_hide_another_that_does_not(sources):
    """All emissions of a column go, or none does."""
    for (kind, calls), column in ((k, e) for k in KINDS.items() for e in EMISSIONS):
        cell = cells()[kind, column]
        for emission in emissions_of(column, (*calls[0][0], *calls[0][1].values())[0]):
            windowed = group_by(sources[0], "value").window(*calls[0][0], **calls[0][1], time="timestamp")
            windowed = windowed.emit(emission).grace("1 minute" if emission.fires_late else "0 minutes")
            try:
                windowed.plan(n=C.count())
            except InvalidValue:
                assert cell.startswith("no"), (kind, emission)
            else:
                assert cell.startswith("yes"), (kind, emission)
