"""How cost grows: one axis at a time around one centre, and a few pairs of axes. Ours only, short runs.

The centre is the workload day at R = 60: 10,000 keys, 0.7 records per (slice, key), 200,000 records per micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import results
from benchmarks.measure import Run, Settings, stream
from benchmarks.queries import FourFunctions, Ours, Query
from benchmarks.workloads import Workload

MINUTE = "1 minute"
CENTRE = Workload("centre", 200_000, 10_000, 1_728, 5)
OURS = Ours()
SHORT = Settings(steady=3, warm_up=0)
WARM_UP = Settings(steady=2, warm_up=0)  # once per process, as runs of the same arguments are


@dataclass(frozen=True)
class Spec:
    """What to run for a point: `x` is None where an axis has names instead of numbers."""

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
        """A name that no other point has."""
        return "-".join(filter(None, [self.axis, self.series, self.label])).replace(" ", "_").replace(",", "")

    def measured(self) -> results.Point:
        """The point, kept for the page."""
        stream(OURS, CENTRE, "60 minutes", MINUTE, WARM_UP)
        run = stream(self.query, self.workload, f"{self.windows} minutes", MINUTE, self.settings)
        machine = results.machine(self.settings.cores)
        point = results.Point(self.name, self.axis, self.label, self.x, self.series, run, machine)
        results.keep(point)
        return point


def _with(**changes: object) -> Workload:
    # Of the centre's name, so that all points in it are one run.
    return replace(CENTRE, **changes)  # type: ignore[arg-type]


def _rate(records: int) -> Workload:
    """Micro-batches of so many records at the centre's rate."""
    return _with(records=records, seconds=CENTRE.seconds * records / CENTRE.records)


def _density(per_cell: float) -> Workload:
    """So many records per (slice, key) in micro-batches of 20 minutes."""
    records = min(200_000, round(2_000_000 * per_cell))
    return _with(records=records, seconds=1_200, keys=round(records / (20 * per_cell)))


def _numbers(axis: str, xs: list[float], **fields: object) -> Iterator[Spec]:
    for i, x in enumerate(xs):
        own = {name: values[i] for name, values in fields.items()}  # type: ignore[index]
        yield Spec(axis, f"{x:,g}" if x < 1 else f"{x:,.0f}", x, **own)


def _names(axis: str, labels: list[str], **fields: object) -> Iterator[Spec]:
    for i, label in enumerate(labels):
        yield Spec(axis, label, None, **{name: values[i] for name, values in fields.items()})  # type: ignore[index]


_RATIOS = [1, 10, 60, 360, 1440, 10_080]
_KEYS = [100, 1_000, 10_000, 100_000, 1_000_000]
_DENSITIES = [0.01, 0.1, 1, 10, 100, 1000]
_BATCHES = [1_000, 10_000, 100_000, 1_000_000]
_DISORDER = [2, 60, 1200]
_LATE = [0.001, 0.01, 0.1]
_AGGREGATES = [1, 3, 10]
_BYTES = [8, 32, 128, 1024]

AXES: tuple[Spec, ...] = (
    *_numbers("windows per record, R", _RATIOS, windows=_RATIOS),
    *_numbers("keys", _KEYS, workload=[_with(keys=keys) for keys in _KEYS]),
    *_numbers("records per slice and key", _DENSITIES, workload=[_density(x) for x in _DENSITIES]),
    *_numbers("records per micro-batch", _BATCHES, workload=[_rate(x) for x in _BATCHES]),
    *_numbers(
        "seconds of disorder",
        _DISORDER,
        workload=[_with(disorder=x) for x in _DISORDER],
        settings=[replace(SHORT, delay=f"{x + 3} seconds") for x in _DISORDER],
    ),
    *_numbers("share of late records", _LATE, workload=[_with(late=x) for x in _LATE]),
    *_numbers("aggregates", _AGGREGATES, query=[Ours(more=f"{x} aggregates") for x in _AGGREGATES]),
    *_numbers("bytes of a partial", _BYTES, query=[Ours(more=f"{x} bytes") for x in _BYTES]),
    *_names(
        "kind of key",
        ["long", "string", "composite"],
        workload=[_with(key=kind) for kind in ("long", "string", "composite")],
    ),
    *_names("functions", ["columns", "rows"], query=[Ours(), FourFunctions()]),
    *_names("cores", ["2", "1"], settings=[SHORT, replace(SHORT, cores=1)]),
)


_CROSS_KEYS = [1_000, 10_000, 100_000]
_TREES = ["two_layer", "three_layer", "recompute"]
CROSSES: tuple[Spec, ...] = (
    *(
        Spec("windows per record by keys", f"{r:,}", r, workload=_with(keys=keys), windows=r, series=f"{keys:,} keys")
        for keys in _CROSS_KEYS
        for r in (1, 60, 1440)
    ),
    *(
        Spec(
            "records per micro-batch by keys",
            f"{records:,}",
            records,
            workload=replace(_rate(records), keys=keys),
            series=f"{keys:,} keys",
        )
        for keys in _CROSS_KEYS
        for records in (10_000, 100_000, 1_000_000)
    ),
    *(
        Spec("aggregates by tree", f"{count}", count, query=Ours(tree=tree, more=f"{count} invertible"), series=tree)
        for tree in _TREES
        for count in _AGGREGATES
    ),
)
ALL = (*AXES, *CROSSES)
QUICK = tuple(spec for spec in AXES if spec.axis.endswith("R") and spec.x in (1, 60, 1440))


def exponent(xs: list[float], ys: list[float]) -> float | None:
    """The slope of the least-squares line through log x and log y: y grows as x to this power. None without a line."""
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if x > 0 and y > 0]
    if len({x for x, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs)).T
    x -= x.mean()
    return float(x @ y / (x @ x))


class Sweep:
    """Seconds of a steady micro-batch at a point of an axis; the page has the fitted exponents."""

    timeout = 600
    unit = "s"
    params = ([spec.name for spec in ALL],)
    param_names = ("point",)

    def track_seconds(self, name: str) -> float:
        """What asv records."""
        run: Run = next(spec for spec in ALL if spec.name == name).measured().run
        return run.seconds
