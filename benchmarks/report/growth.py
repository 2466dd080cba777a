"""The tables of the axes, with the exponents by which cost grows along them."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from benchmarks.report.results import Point
from benchmarks.report.tables import markdown
from benchmarks.running.run import Run, shown

COLUMNS = ("time, s", "records/s", "rows", "state, MB", "rows in state", "checkpoint, bytes/record", "worker, MiB")


def _values(run: Run) -> tuple[float, ...]:
    """The values of the columns."""
    return (
        run.seconds,
        run.records / run.seconds,
        run.rows,
        run.state_bytes / 1e6,
        run.state_rows,
        run.checkpoint_bytes,
        run.worker_mib,
    )


def grown(points: Sequence[Point]) -> str:
    """Return a table for each axis; a line after each series has the exponents of its columns."""
    return "\n\n".join(_axis(axis, list(own)) for axis, own in groupby(points, key=lambda point: point.axis))


def _axis(axis: str, points: Sequence[Point]) -> str:
    rows: list[Sequence[str]] = []
    for series, group in groupby(points, key=lambda point: point.series):
        own = list(group)
        rows += [_point(point) for point in own]
        if growth := _growth(own):
            rows.append((f"*grows with power{f', {series}' if series else ''}*", *growth))
    return markdown((axis, *COLUMNS), rows)


def _point(point: Point) -> Sequence[str]:
    label = f"{point.label}, {point.series}" if point.series else point.label
    if point.run.stopped:
        return (label, shown(point.run), *[""] * (len(COLUMNS) - 1))
    return (label, *(_number(value) for value in _values(point.run)))


def _growth(points: Sequence[Point]) -> Sequence[str]:
    finished = [point for point in points if point.x is not None and not point.run.stopped]
    xs = [point.x for point in finished if point.x is not None]
    columns = list(zip(*(_values(point.run) for point in finished), strict=True))
    fits = [exponent(xs, list(column)) for column in columns]
    return [] if all(fit is None for fit in fits) else ["" if fit is None else f"*{fit:.2f}*" for fit in fits]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def exponent(xs: list[float], ys: list[float]) -> float | None:
    """Return the least-squares slope through log x and log y: y grows as x to this power; None with fewer than 2 x."""
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if x > 0 and y > 0]
    if len({x for x, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs)).T
    x -= x.mean()
    return float(x @ y / (x @ x))
