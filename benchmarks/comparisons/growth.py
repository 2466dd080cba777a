"""The growth of cost: one axis at a time around one centre, and a few pairs of axes. Ours only, short runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.baselines.functions import FourFunctions, Untraceable
from benchmarks.baselines.ours import Ours
from benchmarks.baselines.query import Query
from benchmarks.report import results
from benchmarks.running import streams
from benchmarks.running.side import Settings, Side
from benchmarks.workloads.axes import CENTRE, altered, of_density, of_rate
from benchmarks.workloads.inputs import MINUTE
from benchmarks.workloads.workload import Workload

OURS = Ours()
SHORT = Settings(steady=3, warm_up=0)
WARM_UP = Settings(steady=2, warm_up=0)  # runs once per process, because runs of equal arguments are cached


@dataclass(frozen=True)
class AxisPoint:
    """The query and workload of a point on an axis; `x` is None if the axis has names instead of numbers."""

    axis: str
    label: str
    x: float | None
    query: Query = OURS
    workload: Workload = CENTRE
    windows: int = 60
    settings: Settings = SHORT
    series: str = ""

    @property
    def name(self) -> str:
        """A unique name."""
        return "-".join(filter(None, [self.axis, self.series, self.label])).replace(" ", "_").replace(",", "")

    @property
    def side(self) -> Side:
        """The stream that is run."""
        return Side(self.query, self.workload, f"{self.windows} minutes", MINUTE, self.settings)

    def measured(self) -> results.Point:
        """Run the stream after a warm-up and return the point."""
        streams.run(Side(OURS, CENTRE, "60 minutes", MINUTE, WARM_UP))
        machine = results.machine(self.settings.cores)
        return results.Point(self.name, self.axis, self.label, self.x, self.series, streams.run(self.side), machine)


def _along(axis: str, xs: Sequence[float | str], **fields: Sequence[Any]) -> Iterator[AxisPoint]:
    """The points of an axis of numbers or names; the i-th point has the i-th value of each field."""
    for i, x in enumerate(xs):
        own = {name: values[i] for name, values in fields.items()}
        if isinstance(x, str):
            yield AxisPoint(axis, x, None, **own)
        else:
            yield AxisPoint(axis, f"{x:,g}" if x < 1 else f"{x:,.0f}", x, **own)


_RATIOS = [1, 10, 60, 360, 1440, 10_080]
_KEYS = [100, 1_000, 10_000, 100_000, 1_000_000]
_DENSITIES = [0.01, 0.1, 1, 10, 100, 1000]
_BATCHES = [1_000, 10_000, 100_000, 1_000_000]
_DISORDER = [2, 60, 1200]
_LATE = [0.001, 0.01, 0.1]
_AGGREGATES = [1, 3, 10]
_BYTES = [8, 32, 128, 1024]

AXES: tuple[AxisPoint, ...] = (
    *_along("windows per record, R", _RATIOS, windows=_RATIOS),
    *_along("keys", _KEYS, workload=[altered(keys=keys) for keys in _KEYS]),
    *_along("records per slice and key", _DENSITIES, workload=[of_density(x) for x in _DENSITIES]),
    *_along("records per micro-batch", _BATCHES, workload=[of_rate(x) for x in _BATCHES]),
    *_along(
        "seconds of disorder",
        _DISORDER,
        workload=[altered(disorder=x) for x in _DISORDER],
        settings=[replace(SHORT, delay=f"{x + 3} seconds") for x in _DISORDER],
    ),
    *_along("share of late records", _LATE, workload=[altered(late=x) for x in _LATE]),
    *_along("aggregates", _AGGREGATES, query=[Ours(more=f"{x} aggregates") for x in _AGGREGATES]),
    *_along("bytes of a partial", _BYTES, query=[Ours(more=f"{x} bytes") for x in _BYTES]),
    *_along(
        "kind of key",
        ["long", "string", "composite"],
        workload=[altered(key=kind) for kind in ("long", "string", "composite")],
    ),
    *_along("functions", ["columns", "traced", "rows"], query=[Ours(), FourFunctions(), Untraceable()]),
    *_along("cores", ["2", "1"], settings=[SHORT, replace(SHORT, cores=1)]),
)


_CROSS_KEYS = [1_000, 10_000, 100_000]
_TREES = ["two_layer", "three_layer", "recompute"]
CROSSES: tuple[AxisPoint, ...] = (
    *(
        AxisPoint(
            "windows per record by keys", f"{r:,}", r, workload=altered(keys=keys), windows=r, series=f"{keys:,} keys"
        )
        for keys in _CROSS_KEYS
        for r in (1, 60, 1440)
    ),
    *(
        AxisPoint(
            "records per micro-batch by keys",
            f"{records:,}",
            records,
            workload=of_rate(records, keys),
            series=f"{keys:,} keys",
        )
        for keys in _CROSS_KEYS
        for records in (10_000, 100_000, 1_000_000)
    ),
    *(
        AxisPoint(
            "aggregates by tree", f"{count}", count, query=Ours(tree=tree, more=f"{count} invertible"), series=tree
        )
        for tree in _TREES
        for count in _AGGREGATES
    ),
)
BENCHMARKS = (*AXES, *CROSSES)
