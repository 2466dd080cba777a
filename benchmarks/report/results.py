"""Results as they are kept: one file each, so that one benchmark can be measured again and the page written anew."""

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


@dataclass(frozen=True)
class Ratio:
    """A comparison; `ratio` is None where a side was stopped or `differs` says how rows differ."""

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
        return self.ratio >= self.goal if self.more_is_better else self.ratio <= self.goal


@dataclass(frozen=True)
class Point:
    """One point of an axis or of a cross: `x` (and `series`, for a cross), and what it took."""

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
    """Where the time of a micro-batch of ours goes, and of one with the same stages without any work."""

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
    """A single figure that is no ratio, such as a peak of memory."""

    name: str
    title: str
    value: float
    unit: str
    goal: float | None
    machine: str

    @property
    def figure(self) -> float:
        """The figure itself."""
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
    """Versions and cores, which belong to every result."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"{cores} cores of {os.cpu_count()}, Python {platform.python_version()}, {packages}"


def keep(result: Kept, folder: Path | None = None) -> None:
    """Write a result, in place of the one of the same name."""
    folder = folder or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    kind = type(result).__name__
    (folder / f"{kind}-{result.name}.json").write_text(json.dumps({"kind": kind, **asdict(result)}, indent=1))


def kept(folder: Path | None = None) -> Iterator[Kept]:
    """All results there are."""
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
