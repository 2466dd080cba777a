"""What cannot be looked up is refused with the reason, before a checkpoint is read."""

from datetime import UTC, datetime

import pandas as pd
import pytest

import combinators as C
from slicing import (
    Aggregate,
    InvalidType,
    InvalidValue,
    by_edges,
    counting,
    cumulating,
    group_by,
    hopping,
    keep_last,
    on_update,
    session,
    sliding,
    tumbling,
    unbounded,
)

pytestmark = pytest.mark.usefixtures("spark")

JOINED = Aggregate(lambda: "", lambda acc, s: f"{acc}{s}", partial="string")
TIMES = (datetime(2024, 5, 1, tzinfo=UTC), None)
WINDOW = hopping("10 minutes", "1 minute")


def definition(window, tree="auto", **results):
    windowed = group_by("user").window(window, time="ts").assemble(tree)
    windowed = windowed.emit(on_update()) if window == unbounded() else windowed
    made = windowed.define(**(results or {"count": C.count()}))
    watermark = "1 minute" if window.by_time and window.closes else None
    return made.declare("user string, ts timestamp, s string", streaming=True, watermark=watermark)


@pytest.mark.parametrize(
    ("window", "asked", "words"),
    [
        (session("1 minute"), {"windows": tumbling("1 minute")}, "sessions that have been merged"),
        (sliding("1 minute"), {"windows": tumbling("1 minute")}, "only as long as its own windows"),
        (counting(10), {"windows": tumbling("1 minute")}, "counted by records of a key"),
        (counting(10), {"starts": TIMES}, "counted by records of a key"),
        (unbounded(), {"starts": TIMES}, "one total for each key"),
        (unbounded(), {"windows": tumbling("1 minute")}, "one total for each key"),
        (hopping("1 minute", "2 minutes", gaps=True), {"windows": tumbling("2 minutes")}, "leaves out the records"),
        (WINDOW, {"windows": session("1 minute")}, "is not made of slices"),
        (WINDOW, {"windows": [tumbling("1 minute"), unbounded()]}, "shares no slices"),
        (WINDOW, {"windows": tumbling("30 seconds")}, "every 1 minute, and .* an edge at every 30 seconds"),
        (WINDOW, {"windows": tumbling("1 minute", offset="1 second")}, "an edge at every 1 minute from 1 second on"),
        (WINDOW, {"windows": tumbling("1 day", zone="Asia/Kathmandu")}, "an edge at every 1 day in Asia/Kathmandu"),
        (WINDOW, {"windows": tumbling("1 hour", zone="Asia/Kathmandu")}, "an edge at every 1 hour in Asia/Kathmandu"),
        (WINDOW, {"windows": by_edges([1], [60_000_001])}, "an edge at"),
        (WINDOW, {"windows": tumbling("1 minute", closed="right")}, "Give them the same `closed`"),
        (WINDOW, {"latest": True, "starts": TIMES}, "Leave one out"),
    ],
    ids=str,
)
def test_what_the_state_does_not_tell_is_refused_with_the_reason(window, asked, words):
    with pytest.raises(InvalidValue, match=words):
        definition(window).lookup("nowhere", **asked)


def test_results_that_do_not_combine_are_of_whole_windows():
    alone = definition(tumbling("1 minute"), joined=JOINED.on("s"))
    with pytest.raises(InvalidValue, match="no slices"):
        alone.lookup("nowhere", windows=tumbling("1 minute"))
    with pytest.raises(InvalidValue, match="newest record of a key is not known"):
        alone.lookup("nowhere", latest=True)


@pytest.mark.parametrize("name", ["as_of", "closed"])
def test_columns_of_lookups_are_not_those_of_results(name):
    with pytest.raises(InvalidValue, match=f"have a column `{name}`"):
        definition(WINDOW, **{name: C.count()}).lookup("nowhere")


def test_only_lookups_that_name_windows_have_known_from(spark):
    made = definition(WINDOW, known_from=C.count())
    with pytest.raises(InvalidValue, match="have a column `known_from`"):
        made.lookup("nowhere", latest=True)
    for ask in (lambda: made.lookup("nowhere"), lambda: made.why("nowhere", "a", 0)):
        with pytest.raises(InvalidValue, match="is no checkpoint"):
            ask()


@pytest.mark.parametrize("name", ["as_of", "closed"])
def test_columns_of_lookups_are_not_those_of_functions(name):
    windowed = group_by("user").window(WINDOW, time="ts")
    processed = windowed.define_process(lambda *_: [(True,)], returns=f"{name} boolean", columns=["s"])
    evicted = windowed.evict(keep_last(3)).define(**{name: C.count("s")})
    for made in (processed, evicted):
        with pytest.raises(InvalidValue, match=f"have a column `{name}`"):
            made.declare("user string, ts timestamp, s string", streaming=True, watermark="1 minute").lookup("nowhere")


def test_columns_of_lookups_are_not_those_of_wide_rows():
    made, windows = definition(WINDOW, **{"as": C.count()}), {"of": WINDOW, "to": hopping("2 minutes", "1 minute")}
    with pytest.raises(InvalidValue, match="have a column `as_of`"):
        made.lookup("nowhere", windows=windows)
    with pytest.raises(InvalidValue, match="is no checkpoint"):
        made.lookup("nowhere")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"latest": "yes"}, "True or False"),
        ({"windows": "1 minute"}, "must be made with"),
        ({"windows": cumulating}, "must be made with"),
        ({"keys": pd.DataFrame({"user": ["ada"]})}, "a list of values of user, or a DataFrame"),
    ],
)
def test_arguments_of_other_types_are_refused(asked, words):
    with pytest.raises(InvalidType, match=words):
        definition(WINDOW).lookup("nowhere", **asked)


@pytest.mark.parametrize(
    ("window", "asked", "words"),
    [
        (session("1 minute"), {}, "shares none, as records decide where it ends"),
        (sliding("1 minute"), {}, "shares none"),
        (counting(10), {}, "shares none"),
        (unbounded(), {}, "shares none"),
        (hopping("1 minute", "2 minutes", gaps=True), {}, "keeps no records of its gaps. Use `lookup`"),
        (WINDOW, {"joined": JOINED.on("s")}, "`joined` is eager. Give it a `combine`"),
        (WINDOW, {"tree": "eager"}, "keeps whole windows instead"),
        (WINDOW, {"as_of": C.count()}, "have a column `as_of`"),
        (WINDOW, {"records": C.count()}, "has a column `records` of its own"),
    ],
    ids=str,
)
def test_a_state_without_slices_has_no_partials(window, asked, words):
    with pytest.raises(InvalidValue, match=words):
        definition(window, **asked).lookup_partials("nowhere")


def test_keys_are_no_stream(spark):
    keys = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS user")
    with pytest.raises(InvalidType, match="`keys` is a bounded DataFrame; got a stream"):
        definition(WINDOW).lookup("nowhere", keys=keys)


def test_a_bounded_definition_has_no_state():
    made = group_by("user").window(WINDOW, time="ts").define(count=C.count()).declare("user string, ts timestamp")
    with pytest.raises(InvalidValue, match="reads the state of a stream"):
        made.lookup("nowhere")
    with pytest.raises(InvalidValue, match=r"`lookup_partials` reads the state of a stream.*lookup_partials\("):
        made.lookup_partials("nowhere")
