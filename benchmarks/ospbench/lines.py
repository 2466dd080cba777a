"""The line of OSPBench, with the lengths and the delay of its settings: a point reports once a second."""

from benchmarks.ospbench.window_stage import WINDOW_STAGE
from benchmarks.ospbench.workload import lanes
from benchmarks.public.line import BATCHES, Line

ROADS = lanes("roads", 3_333, 1.0, 15.0, BATCHES)
"""149,985 records in a micro-batch."""

LINES = (
    Line(
        "OSPBench",
        "window stage, 5 minutes by 1 minute",
        WINDOW_STAGE,
        ROADS,
        "5 minutes",
        "1 minute",
        goal=3.0,
        delay="50 milliseconds",
    ),
)
