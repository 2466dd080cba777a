"""A seeded feed like that of a payment provider: users, quiet hours, disorder, late records, and big spenders.

Equal seeds give equal records. They are stored in order of arrival, file after file. Their event times are earlier than
their arrival: by seconds for most records, by minutes for some, by hours for the very late ones.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MIDNIGHT = 1_748_736_000  # 2025-06-01T00:00:00Z

HOURLY = np.array(
    [5, 3, 2, 1, 1, 2, 6, 14, 25, 30, 32, 38, 48, 42, 34, 32, 34, 42, 52, 55, 46, 34, 20, 10], dtype=float
)
"""Relative numbers of payments by hour of the day; hardly any between two and five at night."""

OUTAGE = (14.0, 14.35)
"""The hours of an outage: its payments arrive in a burst afterwards."""


@dataclass(frozen=True)
class Feed:
    """The sizes and shares of a feed: `late` and `very_late` are shares of all records, `first` of the first files.

    The first files are small, so that even a slow reader finishes some of them in acceptable time.
    """

    records: int = 2_000_000
    users: int = 5_000
    files: int = 24
    seed: int = 1
    jitter_seconds: float = 8.0
    late: float = 0.02
    very_late: float = 0.001
    first: tuple[float, ...] = (0.0025, 0.0025, 0.005, 0.01, 0.02)


def payments(feed: Feed) -> pa.Table:
    """Return the records in order of arrival, with columns user, ts, amount (cents), latency (ms)."""
    random = np.random.default_rng(feed.seed)
    arrival = _arrivals(random, feed)
    event = arrival - _lag(random, feed)
    held = (arrival > 3600 * OUTAGE[0]) & (arrival < 3600 * OUTAGE[1])
    # Payments of the outage arrive within a minute after it, in random order.
    arrival[held] = 3600 * OUTAGE[1] + random.uniform(0, 60, int(held.sum()))
    order = np.argsort(arrival, kind="stable")
    micros = ((MIDNIGHT + event) * 1e6).astype(np.int64)[order]
    users = _users(random, feed)
    return pa.table(
        {
            "user": pa.array(users),
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "amount": pa.array(_amounts(random, users)),
            "latency": pa.array(random.gamma(2.0, 30.0, feed.records).round(1)),
        }
    )


def _arrivals(random: np.random.Generator, feed: Feed) -> np.ndarray:
    """Arrival times in seconds of the day, distributed like HOURLY, linear within an hour."""
    hours = np.arange(25)
    cumulated = np.concatenate([[0.0], np.cumsum(HOURLY) / HOURLY.sum()])
    return np.interp(random.random(feed.records), cumulated, hours) * 3600.0


def _lag(random: np.random.Generator, feed: Feed) -> np.ndarray:
    lag = random.exponential(feed.jitter_seconds, feed.records)
    for share, longest in ((feed.late, 20 * 60.0), (feed.very_late, 6 * 3600.0)):
        chosen = random.random(feed.records) < share
        lag[chosen] += random.uniform(0, longest, int(chosen.sum()))
    return lag


def _users(random: np.random.Generator, feed: Feed) -> np.ndarray:
    """The users: few pay often, many seldom, by a flattened Zipf's law over ranks."""
    weights = 1.0 / np.arange(10, feed.users + 10) ** 0.7
    ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(feed.records))
    return random.permutation(feed.users)[np.minimum(ranks, feed.users - 1)].astype(np.int64) + 10_000


def _amounts(random: np.random.Generator, users: np.ndarray) -> np.ndarray:
    """Amounts in cents: log-normal around 18.00, scaled by user; one payment in 50,000 is 400 times as large."""
    level = 1.0 + (users % 7) / 10
    cents = np.exp(random.normal(7.5, 0.9, len(users))) * level
    cents[random.random(len(users)) < 1 / 50_000] *= 400
    return np.maximum(cents, 50).astype(np.int64)


def write(feed: Feed, directory: Path) -> list[Path]:
    """Write the feed as Parquet files, named in order of arrival; all but the first files have equal length."""
    table = payments(feed)
    directory.mkdir(parents=True, exist_ok=True)
    shares = np.cumsum((0.0, *feed.first))
    rest = np.linspace(shares[-1], 1.0, feed.files - len(feed.first) + 1)
    edges = np.rint(np.concatenate([shares, rest[1:]]) * table.num_rows).astype(int)
    paths = []
    for i, (start, end) in enumerate(pairwise(edges)):
        paths.append(directory / f"payments-{i:04d}.parquet")
        pq.write_table(table.slice(start, end - start), paths[-1])
    return paths
