"""Long windows with a tail, without Spark: the state of one bucket, and micro-batches on day 2 and on day 90.

`python -m benchmarks.long_windows [--days 90] [--keys 200] [--sparse 2000] [--minutes 300]` prints a table. A history
of so many days is loaded as a warm start loads it; then each micro-batch brings the records of a minute, and one window
of each length closes. Dense keys have a record in each minute, sparse ones a record an hour. Bytes are those of the
texts of pages and header. Seconds are those of the processor; the longest micro-batch is the worst minute of an hour,
each by its median over the hours.
"""

import argparse
from collections.abc import Iterator
from time import process_time

import numpy as np
import pyarrow as pa

import combinators as C
from benchmarks.report.tables import markdown
from slicing import hopping
from slicing.aggregates.fields import Field
from slicing.aggregates.kernels import kernel
from slicing.assembly.choice import choose
from slicing.content.block import Block, Shape
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.state.format.fingerprint import Fingerprint
from slicing.state.store import MemoryStore
from slicing.triggers.trigger import MicroBatchTime
from slicing.windows.sets import windows_of_call
from slicing.windows.window import Window

MINUTE = 60 * 10**6
DAY = 1440
BEGIN = 20_000 * DAY

QUARTER = hopping("90 days", advance="1 minute", tail="1 hour")
ALONE, TOGETHER = "90 days, tail 1 hour", "five lengths"
WINDOWS: dict[str, tuple[Window, ...]] = {
    ALONE: (QUARTER,),
    TOGETHER: (
        hopping("5 minutes", advance="1 minute"),
        hopping("1 hour", advance="1 minute"),
        hopping("1 day", advance="1 minute", tail="5 minutes"),
        hopping("7 days", advance="1 minute", tail="1 hour"),
        QUARTER,
    ),
    "90 days": (hopping("90 days", advance="1 minute"),),
}


class Line:
    """One bucket of a query with three results: two sums, one of them of floats, and a maximum."""

    def __init__(self, windows: tuple[Window, ...], keys: int, each: int):
        self.keys, self.each, self.store = keys, each, MemoryStore()
        bounds = {"spent": C.sum("n"), "weight": C.sum("x"), "most": C.max("n")}
        kinds = {"n": "bigint", "x": "double"}
        kernels = tuple(
            kernel(name, bound.resolve(tuple(kinds[column] for column in bound.columns)))
            for name, bound in bounds.items()
        )
        family = windows_of_call(windows, {}, long=False).family
        self.shape = Shape(family, (Field("key", "bigint"),), kernels)
        self.trees = [choose(each, own) for own in family.families for each in kernels]
        self.names = pa.table({"k0": pa.array(range(keys), pa.int64())})

    def bucket(self) -> SlicedBucket:
        """Open the bucket, as a micro-batch does."""
        return SlicedBucket(self.shape, self.trees, 0, Fingerprint(), self.store)

    def rows(self, first: int, end: int) -> Block:
        """Return the partials of a range of minutes; each key has a record every `each` minutes."""
        index, keys = np.meshgrid(np.arange(first, end), np.arange(self.keys), indexing="ij")
        there = (index + keys) % self.each == 0
        index, keys = index[there], keys[there]
        values = pa.array((index * 7 + keys) % 1000)
        return from_records(self.shape, index, keys, self.names, [[values], [values.cast(pa.float64())], [values]])

    def load(self, days: int) -> int:
        """Load a history of `days` days; return the minute in which the stream continues."""
        for day in range(days):
            end = BEGIN + (day + 1) * DAY
            self.bucket().load([self.rows(end - DAY, end)], MicroBatchTime(end * MINUTE))
        return BEGIN + days * DAY

    def micro_batches(self, first: int, count: int) -> Iterator[float]:
        """Yield the processor seconds of one-minute micro-batches."""
        for minute in range(first, first + count):
            block = self.rows(minute, minute + 1)
            begin = process_time()
            bucket = self.bucket()
            bucket.accept([block])
            for _ in bucket.close(MicroBatchTime((minute + 1) * MINUTE)):
                pass
            yield process_time() - begin

    def partials(self) -> int:
        """Return the maximum number of partials of a key in slices."""
        blocks = self.bucket().slices.stored(-(1 << 62), 1 << 62)
        return int(
            sum(np.bincount(block.names["k0"].to_numpy()[block.keys], minlength=self.keys) for block in blocks).max()
        )

    @property
    def bytes(self) -> int:
        """The bytes of all pages and the header, per key."""
        return (sum(map(len, self.store.pages.values())) + len(self.store.text or "")) // self.keys


def measured(name: str, days: int, keys: int, each: int, minutes: int) -> tuple[int, int, float, float]:
    """Return partials and bytes per key, and the processor seconds of the median and of the longest micro-batch."""
    line = Line(WINDOWS[name], keys, each)
    times = np.array(list(line.micro_batches(line.load(days), minutes)))[60:]
    hours = np.median(times[: len(times) // 60 * 60].reshape(-1, 60), axis=0)
    return line.partials(), line.bytes, float(np.median(times)), float(hours.max())


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for option, default in {"--days": 90, "--keys": 200, "--sparse": 2000, "--minutes": 300}.items():
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--only", choices=WINDOWS, action="append")
    asked = parser.parse_args()
    rows = []
    for name in asked.only or WINDOWS:
        for kind, keys, each in (("dense", asked.keys, 1), ("sparse", asked.sparse, 60)):
            _, _, early, _ = measured(name, 2, keys, each, asked.minutes)
            partials, size, median, longest = measured(name, asked.days, keys, each, asked.minutes)
            figures = f"{partials:,}", f"{size / 1024:.1f} KiB", *(f"{1e3 * each:.1f} ms" for each in (early, median))
            rows.append([f"{name}, {kind}", *figures, f"{median / early:.2f}", f"{longest / median:.2f}"])
            print(*rows[-1], sep=" | ", flush=True)
    day = f"day {asked.days}"
    print(
        markdown(["windows", "partials a key", "state a key", "day 2", day, f"{day} / day 2", "longest / median"], rows)
    )


if __name__ == "__main__":
    main()
