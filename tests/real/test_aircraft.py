"""ADS-B reports of aircraft, one a second each, as receivers of the OpenSky network heard them."""

import gzip
import json

import pyarrow as pa
import pytest
from asked import bounded, hops, judged, sessions, stored, streamed, table
from packages import TRAFFIC
from streams import MINUTE

import combinators as C
from slicing import group_by, hopping, session

pytestmark = pytest.mark.real
REPORTS, FILES = 284_505, 4


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    found = json.loads(gzip.decompress(TRAFFIC.read("traffic/data/samples/collections/quickstart.json.gz")))
    found.sort(key=lambda report: report["timestamp"])
    made = table(
        {"icao24": pa.string(), "altitude": pa.float64()},
        ts=[report["timestamp"] * 1000 for report in found],
        icao24=[report["icao24"] for report in found],
        altitude=[report["altitude"] for report in found],
    )
    return stored(tmp_path_factory, REPORTS, FILES, made)


def by_climb(frame):
    """Between which altitudes is each aircraft in ten minutes, looked at every minute?"""
    windows = group_by(frame, "icao24").window(hopping("10 minutes", advance="1 minute"), time="ts")
    return windows.aggregate(reports=C.count(), lowest=C.min("altitude"), highest=C.max("altitude"))


BY_CLIMB = hops(10 * MINUTE, MINUTE, "count(*), min(altitude), max(altitude)", "icao24")


def by_flight(frame):
    """When is each aircraft heard without a pause of ten minutes, and how high is it then?"""
    flights = group_by(frame, "icao24").window(session("10 minutes"), time="ts")
    return flights.aggregate(reports=C.count(), highest=C.max("altitude"))


BY_FLIGHT = sessions(10 * MINUTE, "count(*), max(altitude)", "icao24")


@pytest.mark.parametrize(("ask", "sql"), [(by_climb, BY_CLIMB), (by_flight, BY_FLIGHT)])
def test_aircraft(spark, reports, tmp_path, ask, sql):
    expected = judged(reports, sql)
    assert bounded(spark, reports, ask) == expected
    rows, watermark = streamed(spark, reports, ask, "1 minute", tmp_path)
    assert rows == [row for row in expected if row[2] <= watermark]
    assert len(rows) > 100
