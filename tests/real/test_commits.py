"""Commits to Bokeh of 2012 to 2017, whose authors wrote them by eleven UTC offsets, over nine changes of the clock."""

import gzip
from email.utils import parsedate_to_datetime

import pyarrow as pa
import pytest
from asked import bounded, judged, sessions, stored, streamed, table
from packages import BOKEH
from streams import HOUR, micros

import combinators as C
from slicing import group_by, session, tumbling

pytestmark = pytest.mark.real
COMMITS, FILES = 4916, 6
DELAY = "5 days"
"""In the order of the log some commits are four days older than one before them."""


@pytest.fixture(scope="module")
def commits(tmp_path_factory):
    lines = gzip.decompress(BOKEH.read("bokeh_sampledata/_data/commits.txt.gz")).decode().splitlines()
    lines.reverse()
    times, offsets = [micros(parsedate_to_datetime(line)) for line in lines], [line[-5:] for line in lines]
    made = table({"utc_offset": pa.string()}, ts=times, utc_offset=offsets)
    return stored(tmp_path_factory, COMMITS, FILES, made)


def by_day(frame):
    """How many commits are there on each day in Chicago, and from how far west?"""
    days = group_by(frame).window(tumbling("1 day", zone="America/Chicago"), time="ts")
    return days.aggregate(commits=C.count(), first=C.min("utc_offset"))


BY_DAY = """
    with days as (select *, date_trunc('day', timezone('America/Chicago', ts)) as day from records)
    select epoch_us(timezone('America/Chicago', day)), epoch_us(timezone('America/Chicago', day + interval 1 day)),
        count(*), min(utc_offset)
    from days group by day
"""


def by_session(frame):
    """How long do people of one UTC offset commit without a pause of two hours?"""
    return group_by(frame, "utc_offset").window(session("2 hours"), time="ts").aggregate(commits=C.count())


BY_SESSION = sessions(2 * HOUR, "count(*)", "utc_offset")


@pytest.mark.parametrize(("ask", "sql", "end"), [(by_day, BY_DAY, 1), (by_session, BY_SESSION, 2)])
def test_commits(spark, commits, tmp_path, ask, sql, end):
    expected = judged(commits, sql)
    assert bounded(spark, commits, ask) == expected
    rows, watermark = streamed(spark, commits, ask, DELAY, tmp_path)
    assert rows == [row for row in expected if row[end] <= watermark]
    assert len(rows) > 100


def test_days_with_a_change_of_the_clock_are_asked(commits):
    lengths = {(end - start) // HOUR for start, end, *_ in judged(commits, BY_DAY)}
    assert lengths == {23, 24, 25}
