"""The lines of Theodolite.

The reference has a record a second of each sensor. At that rate, the windows of use case 3 need millions of records a
sensor until the first one ends: so its sensors report once a minute, and a micro-batch has a day.
"""

from functools import partial

from benchmarks.public.line import BATCHES, HASHMAP, ROCKSDB, Line
from benchmarks.theodolite.uc2 import UC2
from benchmarks.theodolite.uc3 import UC3, UPDATED
from benchmarks.theodolite.workload import measurements

DAYS = measurements("days of sensors", 100, 60.0, 86_400.0, BATCHES)
SECONDS = measurements("seconds of sensors", 10_000, 1.0, 15.0, BATCHES)
"""144,000 records in a micro-batch, and 150,000."""

_line = partial(Line, "Theodolite")

_UC3 = _line("UC3, 30 days by 1 day", UC3, DAYS, "30 days", "1 day", goal=30.0)

LINES = (
    _UC3,
    _line("UC3 with updates, 30 days by 1 day", UPDATED, DAYS, "30 days", "1 day"),
    _line("UC2, 1 minute", UC2, SECONDS, "1 minute"),
    *_UC3.others({ROCKSDB: 3.0, HASHMAP: 3.0}),
)
"""The lines, the most important first."""
