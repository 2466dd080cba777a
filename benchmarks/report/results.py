"""Results in one file each, so that single benchmarks can be measured again before the page is rewritten."""

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from benchmarks import ROOT
from benchmarks.running.run import Run

FOLDER = ROOT / ".asv" / "measured"
BY_HAND = ROOT / "docs" / "performance"  # results in the tree: `make bench` does not measure them
PACKAGES = ("pyspark", "numpy", "pyarrow", "pandas", "polars")


def reaches(ratio: float, goal: float, more_is_better: bool) -> bool:
    """Return whether a ratio reaches a goal."""
    return ratio >= goal if more_is_better else ratio <= goal


@dataclass(frozen=True)
class Ratio:
    """The result of a comparison; `ratio` is None if a side was stopped, or if rows differ, as `differs` says."""

    name: str
    title: str
    unit: str
    goal: float | None
    more_is_better: bool
    ratio: float | None
    differs: str | None
    baseline: Run
    ours: Run
    machine: str

    @property
    def figure(self) -> float | None:
        """The ratio."""
        return self.ratio

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal or a ratio."""
        if self.goal is None or self.ratio is None:
            return None
        return reaches(self.ratio, self.goal, self.more_is_better)


@dataclass(frozen=True)
class Point:
    """A point on an axis: `x`, for two axes also `series`, and its run."""

    name: str
    axis: str
    label: str
    x: float | None
    series: str
    run: Run
    machine: str

    @property
    def figure(self) -> float:
        """Seconds of a micro-batch."""
        return self.run.seconds


@dataclass(frozen=True)
class Stages:
    """The times of the stages of our micro-batch, and of the same stages without any work."""

    name: str
    title: str
    baseline: Run
    ours: Run
    machine: str

    @property
    def figure(self) -> float:
        """Seconds of a micro-batch of ours."""
        return self.ours.seconds


@dataclass(frozen=True)
class Figure:
    """A single figure other than a ratio, such as a memory peak."""

    name: str
    title: str
    value: float
    unit: str
    goal: float | None
    machine: str
    more_is_better: bool = False

    @property
    def figure(self) -> float:
        """The value."""
        return self.value


@dataclass(frozen=True)
class Table:
    """A table in Markdown, such as the accounting."""

    name: str
    text: str
    machine: str
    figure: ClassVar[None] = None


Kept = Ratio | Point | Stages | Figure | Table


def machine(cores: int) -> str:
    """Return the versions and cores, which are stored with each result."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"{cores} cores of {os.cpu_count()}, Python {platform.python_version()}, {packages}"


def keep(result: Kept, folder: Path | None = None) -> None:
    """Write a result; it replaces the result with the same name."""
    folder = folder or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    kind = type(result).__name__
    (folder / f"{kind}-{result.name}.json").write_text(json.dumps({"kind": kind, **asdict(result)}, indent=1))


def kept(folder: Path | None = None) -> Iterator[Kept]:
    """Yield all stored results."""
    for path in sorted((folder or FOLDER).glob("*.json")):
        yield _read(json.loads(path.read_text()))


def _read(fields: dict[str, Any]) -> Kept:
    kind = {each.__name__: each for each in (Ratio, Point, Stages, Figure, Table)}[fields.pop("kind")]
    for name in ("baseline", "ours", "run"):
        if name in fields:
            run = fields[name]
            lists = {each: tuple(map(tuple, run.get(each, ()))) for each in ("each", "stages")}
            fields[name] = Run(**run | lists)
    return kind(**fields)
