"""Calls that other libraries have: the message writes the call here, and names what is unknown."""

import datetime
import pickle
import re
from datetime import timedelta

import pytest

import combinators as C
import slicing
from slicing import (
    InvalidType,
    InvalidValue,
    SlicingError,
    cumulating,
    early,
    group_by,
    hopping,
    session,
    sliding,
    tumbling,
)
from slicing.errors import hinted
from slicing.hints import no_column
from slicing.hints.names import closest
from slicing.windows.lookback import lookbacks

HOUR, MINUTE = "1 hour", "1 minute"
GROUPED = group_by("user")
MEANT = {
    "hopping without an advance": (lambda: hopping(HOUR), "Write `tumbling('1 hour')`; or `hopping('1 hour', advance="),
    "by keyword": (lambda: hopping(size=HOUR), "Write `tumbling('1 hour')`; or `hopping('1 hour', advance="),
    "slide=": (lambda: hopping(HOUR, slide=MINUTE), "Write `hopping('1 hour', advance='1 minute')`."),
    "slideDuration=": (
        lambda: hopping(windowDuration=HOUR, slideDuration=MINUTE),
        "Write `hopping(size='1 hour', advance='1 minute')`.",
    ),
    "every= and period=": (lambda: hopping(HOUR, every=MINUTE), "Write `hopping('1 hour', advance='1 minute')`."),
    "a third": (lambda: hopping(HOUR, MINUTE, "5 s"), "Write `hopping('1 hour', '1 minute', offset='5 s')`."),
    "a third of cumulating": (
        lambda: cumulating(HOUR, MINUTE, "5 s"),
        "Write `cumulating('1 hour', '1 minute', offset='5 s')`.",
    ),
    "a second of tumbling": (
        lambda: tumbling(HOUR, MINUTE),
        "Write `hopping('1 hour', advance='1 minute')`; or `tumbling('1 hour', offset='1 minute')`, if",
    ),
    "a timedelta": (lambda: tumbling(HOUR, timedelta(0, 60)), "advance=datetime.timedelta(seconds=60))"),
    "advance of tumbling": (lambda: tumbling(HOUR, advance=MINUTE), "Write `hopping('1 hour', advance='1 minute')`."),
    "slide of tumbling": (lambda: tumbling(HOUR, slide=MINUTE), "Write `hopping('1 hour', advance='1 minute')`."),
    "a second of sliding": (lambda: sliding(HOUR, MINUTE), "Write `hopping('1 hour', advance='1 minute')`; or"),
    "slide of sliding": (lambda: sliding(HOUR, slide=MINUTE), "Write `hopping('1 hour', advance='1 minute')`; or"),
    "a second of session": (lambda: session(HOUR, MINUTE), "Write `session('1 hour')`: a session ends"),
    "keys=": (lambda: group_by("df", keys=["user"]), "Write `group_by('df', ['user'])`."),
    "a typing error in window": (lambda: GROUPED.window(tumbling(HOUR), tme="ts"), "Did you mean `time`?"),
    "every of cumulating": (lambda: cumulating("1 day", every=HOUR), "Write `cumulating('1 day', step='1 hour')`."),
    "size of a window": (
        lambda: GROUPED.window(size=HOUR, slide=MINUTE, time="ts"),
        "got size='1 hour'. Windows are values",
    ),
    "a watermark": (lambda: GROUPED.window(tumbling(HOUR), time="ts", watermark=MINUTE), "The watermark comes first"),
    "label": (lambda: tumbling(HOUR, label="right"), "`window.start` or `window.end`"),
    "tz": (lambda: tumbling("1 day", tz="UTC"), "Write `tumbling('1 day', zone='UTC')`."),
    "timeout": (lambda: session(timeout="5 minutes"), "Write `session(gap='5 minutes')`."),
    "a typing error": (lambda: early(record=5), "Write `early(records=5)`."),
    "an unknown keyword": (lambda: tumbling(HOUR, colour="red"), "unexpected keyword argument 'colour'"),
    "quantile": (lambda: C.quantile("x", 0.5), '`C.percentile("x", 0.5)`'),
    "nunique": (lambda: C.nunique("x"), '`C.count_distinct("x")`'),
    "countDistinct": (lambda: C.countDistinct("x"), "Did you mean `count_distinct`?"),
    "try_sum": (lambda: C.try_sum("x"), '`C.sum("x", overflow="null")`'),
    "several columns": (
        lambda: C.count_distinct("a", "b"),
        "Write `C.count_distinct(F.struct('a', 'b'), where=F.isnotnull('a') & F.isnotnull('b'))`.",
    ),
    "rows without nulls": (lambda: C.count("a", "b"), "Write `C.count(where=F.isnotnull('a') & F.isnotnull('b'))`."),
    "ignorenulls": (lambda: C.first("x", ignorenulls=True), "Write `C.first('x', ignore_nulls=True)`."),
    "by position": (lambda: C.last("x", True), "Write `C.last('x', ignore_nulls=True)`."),
    "q": (lambda: C.percentile("x", q=0.5), "Write `C.percentile('x', percentage=0.5)`."),
    "an unknown keyword of sum": (lambda: C.sum("x", distinct=True), "unexpected keyword argument 'distinct'"),
    "slicing.groupBy": (lambda: slicing.groupBy, "Did you mean `group_by`?"),
    "records in place of durations": (lambda: hopping(5, 1), "Write `counting(5, advance=1)` for windows of records."),
    "a number in place of a duration": (lambda: tumbling(5), "Write `counting(5)` for windows of records."),
    "a number without an advance": (lambda: hopping(5), "Write `counting(5)` for windows of records."),
    "an advance without a size": (lambda: hopping(advance=1), "Write `hopping(..., advance=1)`."),
    "rows with an advance": (
        lambda: hopping("5 rows", "1 row"),
        "Write `counting(5, advance=1)` for windows of records.",
    ),
    "events": (lambda: tumbling("100 Events"), "Write `counting(100)` for windows of records."),
    "rowsBetween": (lambda: GROUPED.rowsBetween, '`.window(counting(5, advance=1), time="ts")`'),
    "rangeBetween": (lambda: GROUPED.rangeBetween, '`.window(sliding("1 hour", right=False), time="ts")`'),
    "orderBy after windows": (
        lambda: GROUPED.window(tumbling(HOUR), time="ts").orderBy,
        '`counting(5, order_by="seq")`',
    ),
    ".groupBy": (lambda: GROUPED.groupBy, "`group_by(df, *keys)`"),
    ".groupBy after windows": (lambda: GROUPED.window(tumbling(HOUR), time="ts").groupBy, "Grouping comes first"),
    "Spark's window": (
        lambda: GROUPED.window("ts", HOUR, MINUTE),
        "Write `.window(hopping('1 hour', advance='1 minute'), time='ts')`.",
    ),
    "without a slide": (lambda: GROUPED.window("ts", HOUR), "Write `.window(tumbling('1 hour'), time='ts')`."),
    "with a start": (
        lambda: GROUPED.window("ts", HOUR, MINUTE, "5 seconds"),
        "Write `.window(hopping('1 hour', advance='1 minute', offset='5 seconds'), time='ts')`.",
    ),
    "a lookup without a definition": (
        lambda: GROUPED.window(tumbling(HOUR), time="ts").lookup,
        "Definitions have it: write `.define(...)` in place of `.aggregate(...)`.",
    ),
    "on": (lambda: GROUPED.window(tumbling(HOUR), on="ts"), "got on='ts'. Did you mean `time`?"),
    "a typing error in features": (lambda: lookbacks(None, {"a": HOUR, "inclsive": True}, False), "mean `inclusive`?"),
    "an unknown keyword of features": (lambda: lookbacks(HOUR, {"limit": 5}, False), "got '1 hour', limit=5"),
}


@pytest.mark.parametrize("guess", MEANT)
def test_the_message_writes_the_call_that_was_meant(guess):
    call, meant = MEANT[guess]
    with pytest.raises(SlicingError) as raised:
        call()
    message = str(raised.value)
    assert meant in message
    assert "\n" not in message
    assert str(pickle.loads(pickle.dumps(raised.value))) == message


ASKED = {
    "hopping('1 hour', slide='1 minute')": [hopping(HOUR, MINUTE)],
    "hopping('1 hour', '1 minute', '5 seconds')": [hopping(HOUR, MINUTE, offset="5 seconds")],
    "hopping(period='7 days', every='1 day', tz='UTC')": [hopping("7 days", "1 day", zone="UTC")],
    "hopping('7 days', '1 day', 'UTC')": [hopping("7 days", "1 day", zone="UTC")],
    "hopping('1 hour', offset='5 s')": [tumbling(HOUR, offset="5 s"), hopping(HOUR, MINUTE, offset="5 s")],
    "hopping('1 hour', tail='1 minute')": [hopping(HOUR, MINUTE, tail=MINUTE)],
    "hopping(slide='1 minute')": [hopping(HOUR, MINUTE)],
    "hopping('1 hour', '1 minute', slide='2 minutes')": [hopping(HOUR, MINUTE)],
    "tumbling('1 hour', '1 minute')": [hopping(HOUR, MINUTE), tumbling(HOUR, offset=MINUTE)],
    "tumbling('1 hour', slide='1 minute', offset='5 s')": [hopping(HOUR, MINUTE, offset="5 s")],
    "tumbling('1 day', 'UTC')": [tumbling("1 day", zone="UTC")],
    "hopping('1 hour', closed='right')": [tumbling(HOUR, closed="right"), hopping(HOUR, MINUTE, closed="right")],
    "hopping('1 hour', '1 minute', label='right')": [hopping(HOUR, MINUTE)],
    "cumulating('1 hour', '1 minute', '5 seconds')": [cumulating(HOUR, MINUTE, offset="5 seconds")],
    "cumulating('1 day', '1 hour', 'UTC')": [cumulating("1 day", HOUR, zone="UTC")],
    "cumulating('1 day')": [cumulating("1 day", MINUTE)],
    "sliding('1 hour', '1 minute')": [hopping(HOUR, MINUTE), sliding(HOUR)],
    "sliding('1 hour', slide='1 minute', right=False)": [hopping(HOUR, MINUTE), sliding(HOUR, right=False)],
    "session(timeout='5 minutes')": [session("5 minutes")],
    "session('5 minutes', max='1 hour')": [session("5 minutes", longest="1 hour")],
    "group_by('user').window('1 hour', time='ts')": [tumbling("1 hour")],
    "session('5 minutes', timeout='1 minute')": [session("5 minutes")],
    "session('5 minutes', '1 minute')": [session("5 minutes")],
    "group_by(keys='user')": [GROUPED],
    "group_by(key=['user'])": [GROUPED],
    "group_by('city', by='user')": [group_by("city", "user")],
    "group_by('user').window('1 hour', 'ts')": [GROUPED.window(tumbling(HOUR), time="ts")],
    "group_by('user').window('1 hour', '1 minute', 'ts')": [GROUPED.window(hopping(HOUR, MINUTE), time="ts")],
    "C.last('x', ignorenulls=False)": [C.last("x", ignore_nulls=False)],
    "C.last('x', False)": [C.last("x", ignore_nulls=False)],
    "C.first('x', False, where='ok')": [C.first("x", where="ok", ignore_nulls=False)],
    "C.last('x', 'y')": [C.last("x", by="y")],
    "C.last('x', 5)": [C.last_n("x", 5)],
    "C.first('x', 5, where='ok')": [C.first_n("x", 5, where="ok")],
    "C.count_distinct('x', 10)": [C.count_distinct("x", limit=10)],
}
"""Calls as they are guessed, each with what is meant: where a size or an advance is missing, an hour, or a minute."""


@pytest.mark.parametrize("call", ASKED)
def test_the_call_in_the_message_means_what_was_asked(call):
    names = {name: getattr(slicing, name) for name in slicing.__all__} | {"C": C, "timedelta": timedelta}
    with pytest.raises(SlicingError) as raised:
        eval(call, names)
    made = re.findall(r"(?:Write|; or) `(.*?)`", str(raised.value))
    for text, wanted in zip(made, ASKED[call], strict=True):
        full = text.replace("size=...", "'1 hour'").replace("(...", "('1 hour'").replace("=...", "='1 minute'")
        found = eval(f"group_by('user'){full}" if full[0] == "." else full, names | {"datetime": datetime})
        assert repr(found) == repr(wanted)


@pytest.mark.parametrize("call", ["C.min('x', 'y')", "C.sum('x', 'y')", "sliding('1 s', '1 s', '1 s')"])
def test_nothing_is_proposed_that_is_refused_or_means_something_else(call):
    with pytest.raises(InvalidType, match=r"Its documentation is `help\(") as raised:
        eval(call, vars(slicing) | {"C": C, "sliding": sliding})
    assert "Write" not in str(raised.value)


@pytest.mark.parametrize("name", ["hopping", "group_by", "early", "results"])
def test_public_functions_are_pickled_by_name(name):
    assert pickle.loads(pickle.dumps(getattr(slicing, name))) is getattr(slicing, name)


def test_errors_of_the_functions_themselves_are_not_reworded():
    def broken():
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        hinted(broken)()
    with pytest.raises(InvalidType, match="needs a unit"):
        tumbling(5)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("1h30m", 90),
        ("1H30M", 90),
        ("1 hour 5 m", 65),
        ("5m30s", 5.5),
        ("2 hours 1m 30 seconds", 121.5),
        ("1d2h3m", 1563),
    ],
)
def test_m_is_minutes_next_to_hours_or_seconds(text, minutes):
    assert tumbling(text) == tumbling(timedelta(minutes=minutes))


@pytest.mark.parametrize("text", ["30m", "1d5m", "1w 3m", "1y6m"])
def test_m_may_be_months_otherwise(text):
    with pytest.raises(InvalidValue, match=r"may be minutes or months|no fixed length|unknown unit"):
        tumbling(text)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("amuont", ["user", "amount"], "amount"),
        ("userId", ["user_id", "item_id"], "user_id"),
        ("usr", ["user", "ts"], "user"),
        ("price", ["user", "amount"], None),
        ("x", [], None),
    ],
)
def test_columns_that_are_close(name, known, meant):
    assert closest(name, known) == meant
    question = f" Did you mean `{meant}`?" if meant else ""
    assert str(no_column("column", name, known)) == (
        f"column `{name}` does not exist; the columns are {', '.join(known)}.{question}"
    )
