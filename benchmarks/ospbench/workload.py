"""Flow of traffic by lane as files in the order of arrival; made up in the shape of the data of the benchmark.

Each measuring point reports once in a fixed time, all its lanes at once, and is published within a second. Its
place, its number of lanes, the period and the accuracy of its figures do not change. Flows are random, seeded.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.public.steady import reports
from benchmarks.workloads.workload import Workload

SCHEMA = (
    "measurementId string, internalId string, ts timestamp, latitude double, longitude double, period int, "
    "flowAccuracy int, numLanes int, laneCount int, publishTimestamp timestamp, accumulatedFlow int"
)
LANES = 3
PERIOD, ACCURACY = 60, 95
FLOW = 3_000
PUBLISHED_WITHIN_MS = 1_000


@dataclass(frozen=True)
class Lanes(Workload):
    """A workload of the flow on the lanes of `keys` measuring points."""

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        return SCHEMA

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        numbers, times = (np.repeat(each, LANES) for each in reports(self.records // LANES, self.seconds, low, high))
        count, lanes = len(numbers), np.arange(len(numbers)) % LANES
        points = numbers % self.keys
        published = times + random.integers(0, PUBLISHED_WITHIN_MS, count) * 1000
        names = pa.array([f"point-{number}" for number in range(self.keys)])
        return pa.table(
            {
                "measurementId": names.take(pa.array(points)),
                "internalId": pa.array([f"lane{number + 1}" for number in range(LANES)]).take(pa.array(lanes)),
                "ts": _timestamps(times),
                "latitude": pa.array(50.0 + points / self.keys),
                "longitude": pa.array(4.0 + points / self.keys),
                "period": _constant(PERIOD, count),
                "flowAccuracy": _constant(ACCURACY, count),
                "numLanes": _constant(LANES, count),
                "laneCount": _constant(1, count),
                "publishTimestamp": _timestamps(published),
                "accumulatedFlow": pa.array(random.integers(0, FLOW, count), pa.int32()),
            }
        )


def lanes(name: str, points: int, period: float, seconds: float, batches: int) -> Lanes:
    """Return micro-batches of `seconds` of event time, in which each measuring point reports every `period` seconds."""
    return Lanes(name, round(points * LANES * seconds / period), points, seconds, batches)


def _timestamps(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds, pa.timestamp("us", "UTC"))


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value), pa.int32())
