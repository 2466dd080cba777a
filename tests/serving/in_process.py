"""A writer of served slices without Spark: its micro-batches are tables, and a query is its id and its watermark.

Run as a program it writes micro-batches to a store: `in_process.py URL FIRST END [publishes before it is killed]`.
"""

import json
import os
import signal
import sys
from types import SimpleNamespace

import pyarrow as pa
from serving.stored import manifest

import combinators as C
from slicing import group_by, hopping, serve_to
from slicing.serving import store_of
from slicing.serving.manifest import instant_of
from slicing.spark import serving
from slicing.windows.as_of import held_now

MINUTE = 60_000_000
START = 1_700_006_400_000_000
KEYS = ["ada", "bob", "é"]
CARD = (
    group_by("user")
    .window(m10=hopping("10 minutes", "1 minute"), d=hopping("1 day", "1 minute"), time="ts", long=True)
    .define(n=C.count())
)
_QUERY = "query"


def rows(number):
    """The rows of a micro-batch: the slice of its minute with one record, that of the minute before with two."""
    times = pa.timestamp("us", "UTC")
    slices = [(minute, 2 if minute < number else 1) for minute in (number - 1, number) if minute >= 0]
    cells = [(key, START + minute * MINUTE, count) for key in KEYS for minute, count in slices]
    keys, starts, counts = zip(*cells, strict=True)
    edges = [pa.array([start + more for start in starts], times) for more in (0, MINUTE)]
    return pa.table(
        {
            "user": list(keys),
            "slice": pa.StructArray.from_arrays(edges, ["start", "end"]),
            "level": pa.array([0] * len(cells), pa.int32()),
            "records": pa.array(counts, pa.int64()),
            "n": pa.array(counts, pa.int64()),
        }
    )


def watermark(number):
    """The watermark that is known in a micro-batch: slices before it have two records, and are written."""
    return START + max(0, number - 1) * MINUTE


def write(to, number, query=_QUERY):
    """Let a function of `serve_to` write a micro-batch."""
    told = {
        "feature_set": "user",
        "manifest": manifest(CARD).text(),
        "families": [family.spec() for family in held_now(CARD.windowed.windows)],
    }
    context = SimpleNamespace(getLocalProperty=lambda name: query)
    known = SimpleNamespace(lastProgress={"eventTime": {"watermark": instant_of(watermark(number)).isoformat()}})
    serving._SESSIONS.clear()
    serving._SESSIONS.add(_Session(known))
    table = rows(number)
    batch = SimpleNamespace(
        columns=table.column_names,
        schema={"slice": SimpleNamespace(metadata={serving.MANIFEST: json.dumps(told)})},
        toArrow=lambda: table,
        sparkSession=SimpleNamespace(sparkContext=context),
    )
    to(batch, number)


class _Session:
    def __init__(self, query):
        self.streams = SimpleNamespace(get=lambda name: query)


class Killed:
    """A store whose process is killed when it would publish progress for the nth time."""

    def __init__(self, of, left):
        self.of, self.left = of, left

    def __getattr__(self, name):
        return getattr(self.of, name)

    def publish(self, *given):
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1
        self.of.publish(*given)


def main(url, first, end, left=None):
    """Write micro-batches."""
    store = store_of(url)
    to = serve_to(store if left is None else Killed(store, int(left)))
    for number in range(int(first), int(end)):
        write(to, number)


if __name__ == "__main__":
    main(*sys.argv[1:])
