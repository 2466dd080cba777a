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


def computed(table):
    """The rows of a micro-batch; tests replace this by what fails."""
    return table


def write(to, number, query=_QUERY):
    """Let a function of `serve_to` write a micro-batch."""
    hand(to, number, rows(number), CARD, watermark(number), query)


def hand(to, number, table, card, watermark, query=_QUERY, past=None):
    """Let a function of `serve_to` write the rows of a micro-batch of a definition."""
    told = {
        "feature_set": "user",
        "manifest": manifest(card).text(),
        "families": [family.spec() for family in held_now(card.windowed.windows)],
    } | (past or {"until": None, "first": None})
    batch = SimpleNamespace(
        columns=table.column_names,
        schema={"slice": SimpleNamespace(metadata={serving.MANIFEST: json.dumps(told)})},
        toArrow=lambda: computed(table),
        sparkSession=_session(watermark, query),
    )
    to(batch, number)


def _session(watermark, query):
    """The session of a micro-batch of a query with a watermark, as Spark's classes have it."""
    metadata = SimpleNamespace(batchWatermarkMs=lambda: (watermark or 0) // 1000)
    execution = SimpleNamespace(offsetSeqMetadata=lambda: metadata)
    queries = {query: SimpleNamespace(lastExecution=lambda: execution)}
    state = SimpleNamespace(activeStreamingQueries=lambda: queries)
    ids = SimpleNamespace(fromString=str)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(getLocalProperty=lambda name: query),
        _jsparkSession=SimpleNamespace(sharedState=lambda: state),
        _jvm=SimpleNamespace(java=SimpleNamespace(util=SimpleNamespace(UUID=ids))),
    )


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
        return self.of.publish(*given)


def main(url, first, end, left=None):
    """Write micro-batches."""
    store = store_of(url)
    to = serve_to(store if left is None else Killed(store, int(left)))
    for number in range(int(first), int(end)):
        write(to, number)


if __name__ == "__main__":
    main(*sys.argv[1:])
