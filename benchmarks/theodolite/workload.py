"""Measurements of power meters as files in the order of arrival.

As by the load generator of Theodolite, each sensor reports once in a fixed time, here `period` seconds, and each has
its own moment in it. Values are random watts, seeded.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.public.steady import reports
from benchmarks.workloads.workload import Workload

SCHEMA = "identifier string, ts timestamp, valueInW double"
WATTS = 1_000.0
ZONE = "Europe/Paris"


@dataclass(frozen=True)
class Measurements(Workload):
    """A workload of measurements of `keys` sensors, in the order of time."""

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        return SCHEMA

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        numbers, times = reports(self.records, self.seconds, low, high)
        order = np.random.default_rng(self.keys).permutation(self.keys)
        names = pa.array([f"sensor_{number}" for number in range(self.keys)])
        return pa.table(
            {
                "identifier": names.take(pa.array(order[numbers % self.keys])),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "valueInW": pa.array(random.uniform(0.0, WATTS, len(numbers))),
            }
        )


@dataclass(frozen=True)
class ByHour(Measurements):
    """Whole watts by sensor and hour of day, which are one number, as `key`, `ts`, `v`."""

    @property
    def schema(self) -> str:
        """The schema as DDL for Spark."""
        return "key bigint, ts timestamp, v bigint"

    def _table(self, random: np.random.Generator, low: int, high: int) -> pa.Table:
        found = super()._table(random, low, high)
        sensors = pc.utf8_slice_codeunits(found["identifier"], len("sensor_")).cast(pa.int64())
        hours = pc.hour(found["ts"].cast(pa.timestamp("us", ZONE)))
        watts = pc.floor(found["valueInW"]).cast(pa.int64())
        return pa.table({"key": pc.add(pc.multiply(sensors, 24), hours), "ts": found["ts"], "v": watts})


def measurements(name: str, sensors: int, period: float, seconds: float, batches: int) -> Measurements:
    """Return micro-batches of `seconds` of event time, in which each sensor reports every `period` seconds."""
    return Measurements(name, round(sensors * seconds / period), sensors, seconds, batches)


def by_hour(of: Measurements) -> ByHour:
    """Return the measurements of a workload by sensor and hour of day."""
    return ByHour(f"{of.name} by hour", of.records, of.keys, of.seconds, of.batches)
