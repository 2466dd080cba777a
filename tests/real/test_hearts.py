"""A pulse that a sensor sampled at 100 Hz for eleven minutes, by a clock of 64 ticks a second, from HeartPy."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from asked import bounded, hops, judged, stored, streamed, table
from packages import HEARTPY
from streams import MINUTE, SECOND, micros

import combinators as C
from slicing import group_by, hopping, tumbling

pytestmark = pytest.mark.real
SAMPLES, FILES = 68_476, 5


@pytest.fixture(scope="module")
def pulse(tmp_path_factory):
    lines = HEARTPY.read("heartpy/data/data3.csv").decode().splitlines()[1:]
    times, values = zip(*(line.split(",") for line in lines), strict=True)
    made = table(
        {"hr": pa.int64()},
        ts=[micros(datetime.fromisoformat(each).replace(tzinfo=UTC)) for each in times],
        hr=list(map(int, values)),
    )
    return stored(tmp_path_factory, SAMPLES, FILES, made)


def by_breath(frame):
    """How far does the signal swing in ten seconds, looked at every second?"""
    windows = group_by(frame).window(hopping("10 seconds", advance="1 second"), time="ts")
    return windows.aggregate(samples=C.count(), lowest=C.min("hr"), highest=C.max("hr"), mean=C.mean("hr"))


BY_BREATH = hops(10 * SECOND, SECOND, "count(*), min(hr), max(hr), avg(hr)")


def by_minute(frame):
    """How many samples are there in each minute, and what is their median?"""
    windows = group_by(frame).window(tumbling("1 minute"), time="ts")
    return windows.aggregate(samples=C.count(), median=C.median("hr"))


BY_MINUTE = hops(MINUTE, MINUTE, "count(*), median(hr)")


@pytest.mark.parametrize(("ask", "sql"), [(by_breath, BY_BREATH), (by_minute, BY_MINUTE)])
def test_pulse(spark, pulse, tmp_path, ask, sql):
    expected = judged(pulse, sql)
    assert bounded(spark, pulse, ask) == expected
    rows, watermark = streamed(spark, pulse, ask, "1 second", tmp_path)
    assert rows == [row for row in expected if row[1] <= watermark]
    assert len(rows) > 10
