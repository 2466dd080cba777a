"""The plots of the performance page, as small SVG files."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

from benchmarks.report.ratios import Goal
from benchmarks.report.results import Point

# Text stays text, and equal figures give an equal file.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "slicing", "font.size": 8, "axes.spines.top": False}
PLOTS = ("goals", "axes", "crosses")
OURS, GOAL = "#2b6cb0", "#c05621"


def draw(goals: Sequence[Goal], axes: Sequence[Sequence[Point]], folder: Path) -> list[str]:
    """Draw the plots that have results; return their names: the page is in the same folder."""
    drawn = []
    with mpl.rc_context(STYLE):
        for name, figure in zip(PLOTS, (_goals(goals), *map(_axes, axes)), strict=True):
            if figure is not None:
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
                plt.close(figure)
                drawn.append(f"{name}.svg")
    return drawn


def _goals(goals: Sequence[Goal]) -> Any:
    """The share of each goal that is reached: 1 is the goal, more is better."""
    reached = [(each.title, _reached(each)) for each in reversed(goals)]
    if not reached:
        return None
    figure, axis = plt.subplots(figsize=(7.5, 0.6 + 0.22 * len(reached)))
    titles, shares = zip(*reached, strict=True)
    axis.barh(titles, shares, color=[OURS if share >= 1 else GOAL for share in shares])
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("share of the goal that is reached (1 = the goal, to the right is better)")
    return figure


def _reached(each: Goal) -> float:
    return each.ratio / each.goal if each.more_is_better else each.goal / each.ratio


def _axes(points: Sequence[Point]) -> Any:
    """The seconds of a micro-batch along each axis, both on logarithmic scales; one line per series."""
    finished = [point for point in points if point.x is not None and not point.run.stopped]
    panels = [(axis, list(own)) for axis, own in groupby(finished, key=lambda point: point.axis)]
    if not panels:
        return None
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure, places = plt.subplots(rows, columns, figsize=(2.4 * columns, 2 * rows), squeeze=False, sharey=True)
    for place in places.flat[len(panels) :]:
        place.set_visible(False)
    for place, (axis, own) in zip(places.flat, panels, strict=False):
        for series, line in groupby(own, key=lambda point: point.series):
            xs, ys = zip(*((point.x, point.run.seconds) for point in line), strict=True)
            place.plot(xs, ys, marker="o", markersize=3, linewidth=1, label=series)
        place.set(xscale="log", yscale="log", xlabel=axis)
        if own[0].series:
            place.legend(fontsize=6)
    for row in places:
        row[0].set_ylabel("s per micro-batch")
    figure.tight_layout()
    return figure
