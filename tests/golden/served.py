"""Served windows: a history that is not emitted yet, and the store of a query to which a window was added.

The commit that brought it wrote `served.json.xz`, by this file as it was then: for each scenario the micro-batches, the
header and pages after `seen` of them, and the store that was written by then. It is not written again::

    PYTHONPATH=.:tests python -m golden.served
"""

import random
import sqlite3
import tempfile
from base64 import b64encode
from contextlib import closing
from pathlib import Path

from golden.make import save
from serving.in_buckets import Served, Stream
from serving.test_buckets import feed
from streams import HOUR, MINUTE, record

import combinators as C
from slicing import group_by, hopping, serve_to

NAME = "served"
RESULTS = {"n": C.count(), "total": C.sum("n"), "low": C.min("s"), "x": C.sum("x")}
WINDOWS = {"m10": hopping("10 minutes", "5 minutes"), "h4": hopping("4 hours", "5 minutes")}


def definition(*names):
    """Some of the windows."""
    named = {name: WINDOWS[name] for name in names}
    return group_by("user").window(**named, time="ts", long=True).adapt("allow").define(**RESULTS)


def stream():
    """A query without any micro-batch."""
    return Stream(10 * MINUTE)


def records(batch):
    """Records from what the file has of them."""
    return [record(None, time, n, x, s) | {"key": key} for time, key, n, x, s in batch]


def batches():
    """Micro-batches as the file has them."""
    return [
        [[each[name] for name in ("ts", "key", "n", "x", "s")] for each in some]
        for some in feed(random.Random(NAME), 36, 2 * HOUR)
    ]


def _told(told, seen, query, database=""):
    state = {"header": query.state.text, "pages": query.state.pages, "store": database}
    return {"batches": told, "seen": seen, "watermark": query._watermark, "past": query._past, **state}


def history():
    """A warm start whose history is still to be emitted."""
    told, query = batches(), stream()
    read = [each for some in told[:18] for each in records(some)]
    query.warm(Served(definition(*WINDOWS)), read, max(each["ts"] for each in read) + 1)
    return _told(told, 18, query)


def added():
    """A window was added in the last micro-batch but one."""
    told, query = batches(), stream()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "features.db"
        for number, some in enumerate(told[:18]):
            served = Served(definition("m10", *(["h4"] if number >= 16 else [])))
            query.step(served, serve_to(f"sqlite:///{file}"), records(some))
        with closing(sqlite3.connect(file)) as database:
            database.execute(f"VACUUM INTO '{file}.copy'")
        return _told(told, 18, query, b64encode(Path(f"{file}.copy").read_bytes()).decode())


if __name__ == "__main__":
    save(NAME, {"history": history(), "added": added()})
