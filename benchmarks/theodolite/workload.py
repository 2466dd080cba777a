"""Measurements of power meters as files in the order of arrival.

As by the load generator of Theodolite, each sensor reports once in a fixed time, here `period` seconds, and each has
its own moment in it. Values are random watts, seeded.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.public.steady import reports
from benchmarks.workloads.workload import Workload

SCHEMA = "identifier string, ts timestamp, valueInW double"
WATTS = 1_000.0


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


def measurements(name: str, sensors: int, period: float, seconds: float, batches: int) -> Measurements:
    """Return micro-batches of `seconds` of event time, in which each sensor reports every `period` seconds."""
    return Measurements(name, round(sensors * seconds / period), sensors, seconds, batches)
