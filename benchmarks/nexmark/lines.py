"""The lines of Nexmark."""

from functools import partial

from benchmarks.nexmark.queries.q5 import Q5
from benchmarks.nexmark.queries.q7 import Q7
from benchmarks.nexmark.queries.q8 import Q8
from benchmarks.nexmark.queries.q11 import Q11
from benchmarks.nexmark.queries.q12 import Q12
from benchmarks.nexmark.queries.q15 import Q15
from benchmarks.nexmark.queries.q16 import Q16
from benchmarks.nexmark.queries.q17 import Q17
from benchmarks.nexmark.workload import events
from benchmarks.public.line import BATCHES, HASHMAP, ROCKSDB, Line

MILLIONS = events("nexmark", 150_000, BATCHES)
HALF = events("half of nexmark", 75_000, BATCHES, rate=5_000)
"""15 seconds of event time in a micro-batch, with 138,000 bids and with 69,000."""

_line = partial(Line, "Nexmark", delay="4 seconds")
_Q5 = _line("q5, 60 minutes by 1 minute", Q5, MILLIONS, "60 minutes", "1 minute", goal=30.0, batches=BATCHES // 2)
_Q5_OFTEN = _line("q5, 10 seconds by 2 seconds", Q5, MILLIONS, "10 seconds", "2 seconds", goal=3.0)
_Q7 = _line("q7", Q7, MILLIONS, "10 seconds", goal=1.5)
_Q11 = _line("q11", Q11, MILLIONS, "10 seconds", goal=1.5)

LINES = (
    _Q5,
    _Q5_OFTEN,
    _Q7,
    _line("q8", Q8, MILLIONS, "10 seconds"),
    _Q11,
    _line("q12", Q12, MILLIONS, "10 seconds", goal=1.5),
    _line("q15", Q15, MILLIONS, "1 day", goal=1.5),
    _line("q16", Q16, MILLIONS, "1 day"),
    _line("q17", Q17, MILLIONS, "1 day", goal=1.5),
    _line("q5 at half the rate, 10 seconds by 2 seconds", Q5, HALF, "10 seconds", "2 seconds"),
    _line("q7 at half the rate", Q7, HALF, "10 seconds"),
    _line("q11 at half the rate", Q11, HALF, "10 seconds"),
    *_Q5.others({ROCKSDB: 4.0, HASHMAP: 1.5}),
    *_Q5_OFTEN.others({ROCKSDB: None, HASHMAP: 1.0}),
    *_Q7.others({ROCKSDB: None, HASHMAP: 0.7}),
    *_Q11.others({ROCKSDB: None, HASHMAP: 0.7}),
)
"""The lines, the most important first."""
