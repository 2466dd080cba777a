"""docs/performance.md with its tables and plots, from results that are kept; nothing on it is written by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product
from pathlib import Path
from typing import Any

from benchmarks import axes, goals, plots, results
from benchmarks.axes import exponent
from benchmarks.measure import Run, shown
from benchmarks.results import Figure, Kept, Point, Ratio, Table

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
KERNELS = ROOT / ".asv" / "results"
BY_HAND = PAGE.with_suffix("")  # results in the tree: `make bench` does not measure them

INTRODUCTION = """\
# Performance

Written by `make bench` from what it measured; no figure is typed in. `make bench-quick` measures a few.

Both sides of a line run in one process, each after a run on a tenth or all of the records that warms it up, or after
the micro-batches of a history; what ran cold says so. Where a few percent matter, the sides take turns, micro-batch by
micro-batch, so that a machine that changes its speed does so for both, unless one leaves much garbage for the other to
collect; elsewhere one runs after the other. Where a micro-batch takes Spark many seconds, the one that is not counted
warms it up more than the tenth does. Seconds are medians of steady micro-batches, or of the bounded query; records and
result rows are those of a micro-batch, or of the query. Streams go into a noop sink. Spark runs on RocksDB with
changelog checkpoints and on its default state store, and the faster one counts. Arrow batches have no limit of bytes
([deploy](deploy.md#arrow-batches-without-a-limit-of-bytes)); what Spark's own limit costs is a line below. A ratio is
printed only if the same two queries, on the workload or on a cut of it, wrote equal rows into Parquet: as many, with
the same sum of hashes over keys, windows and exact columns, and float sums within 1e-12 of the sum of absolute values;
where ours is compared with ours, each wrote the rows that Spark has for it. Goals are what the project has set itself,
also where it does not reach them."""

FLINK = """\
Measured by hand with `python -m benchmarks.flink`, which says how; `make bench` does not. It is the strongest baseline:
windows of Flink SQL share slices too, inside its runtime, in Java and without micro-batches. Seconds, records and rows
are those of a whole run, in which a side reads all records from CSV and closes all windows; processor time is that of
all its processes meanwhile."""

COMPARED = ("workload / baseline", "goal", "ratio", "", "baseline", "ours", "records", "rows")


def write(page: Path = PAGE) -> None:
    """Write the page and its plots."""
    found = [*results.kept(), *results.kept(BY_HAND)]
    folder = page.parent / page.stem
    folder.mkdir(exist_ok=True)
    drawn = plots.draw(found, folder)
    page.write_text(text(found, _kernels(KERNELS), drawn))


def text(found: Sequence[Kept], kernels: Sequence[tuple[str, str, float]] = (), drawn: Iterable[str] = ()) -> str:
    """The page; `kernels` are benchmark, parameters and seconds, `drawn` the plots there are, by their paths."""
    ratios = {each.name: each for each in found if isinstance(each, Ratio)}
    points = [each for each in found if isinstance(each, Point)]
    drawn = set(drawn)
    sections = [
        INTRODUCTION,
        *_section("Goals", _compared(ratios, [each.__name__ for each in goals.GOALS]), "goals", drawn),
        *_section("Other baselines", _compared(ratios, [each.__name__ for each in goals.OTHERS]), "", drawn),
        *_section("Flink SQL", _flink(ratios), "", drawn),
        *_section("Memory", _figures(each for each in found if isinstance(each, Figure)), "", drawn),
        *_section("Reads and writes of the state", _accounting(found), "", drawn),
        *_section("How it grows", _axes(points, axes.AXES), "axes", drawn),
        *_section("Two axes together", _axes(points, axes.CROSSES), "crosses", drawn),
        *_section("Kernels", _kernel_table(kernels), "", drawn),
        _measured_on(found),
    ]
    return "\n\n".join(sections) + "\n"


def in_short(result: Kept) -> str:
    """A result in a line."""
    if isinstance(result, Ratio):
        return f"{_ratio(result)} {result.unit}; baseline {shown(result.baseline)}, ours {shown(result.ours)}"
    if isinstance(result, Figure):
        return f"{result.value:,.0f} {result.unit}"
    if isinstance(result, Table):
        return f"{len(result.text.splitlines()) - 2} lines"
    return shown(result.run)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def _section(title: str, body: str, plot: str, drawn: set[str]) -> Iterator[str]:
    if not body:
        return
    yield f"## {title}"
    yield from (f"![{title}]({path})" for path in sorted(drawn) if plot and Path(path).stem == plot)
    yield body


def _compared(ratios: dict[str, Ratio], names: Sequence[str]) -> str:
    """The comparisons in this order; those not measured yet say so."""
    chosen = [ratios.get(name) for name in names]
    if not any(chosen):
        return ""
    rows = [_row(each, name) for each, name in zip(chosen, names, strict=True)]
    notes = [f"- {each.title}: {note}" for each in chosen if each and (note := _note(each))]
    return "\n".join([table(COMPARED, rows), *([""] if notes else []), *notes])


def _flink(ratios: dict[str, Ratio]) -> str:
    names = [name for name in ratios if name.startswith("Flink")]
    return f"{FLINK}\n\n{_compared(ratios, names)}" if names else ""


def _row(each: Ratio | None, name: str) -> Sequence[str]:
    if each is None:
        title = " ".join((getattr(goals, name).__doc__ or "").split()).rstrip(".")
        return (title, "", "not measured", *[""] * (len(COMPARED) - 3))
    sides = (each.baseline, each.ours)
    goal = "" if each.goal is None else f"{'>=' if each.more_is_better else '<='} {each.goal:.3g}"
    verdict = {None: "", True: " (reached)", False: " (missed)"}[each.reached]
    return (
        each.title,
        goal,
        _ratio(each) + verdict,
        each.unit if each.ratio is not None else "",
        *map(shown, sides),
        _pair(run.records for run in sides),
        _pair(run.rows for run in sides),
    )


def _ratio(each: Ratio) -> str:
    if each.differs:
        return f"rows differ: {each.differs}"
    if each.ratio is None:
        return "no ratio"
    return f"{each.ratio:.3g}"


def _note(each: Ratio) -> str:
    return "; ".join(
        f"{side}: {run.note}" for side, run in (("baseline", each.baseline), ("ours", each.ours)) if run.note
    )


def _pair(counts: Iterable[int]) -> str:
    baseline, ours = counts
    return f"{ours:,}" if baseline == ours else f"{baseline:,} / {ours:,}"


def _figures(figures: Iterable[Figure]) -> str:
    rows = [
        (each.title, "" if each.goal is None else f"<= {each.goal:,.0f}", f"{each.value:,.0f} {each.unit}")
        for each in figures
    ]
    return table(("", "goal", "measured"), rows) if rows else ""


ACCOUNTING = {
    "Accounting": """\
Partials of a key that are read / written: of a record, of the close of a window, and of all of it by the rows that go
out. The engine counts them; beside them are what `explain` predicts and the formula of the proposal, at R windows per
record. A row "latest slices held" is with buffering of the latest slices in the process, the one before it without.
[How it works](how-it-works.md#what-it-costs) says why they differ.""",
    "Physical": """\
The same on Spark, at R = 12 and with 800 keys: partials of a key in a micro-batch with a record of each key in which
one window closes, then calls and bytes of the state store for all keys.""",
}


def _accounting(found: Sequence[Kept]) -> str:
    tables = {each.name: each.text for each in found if isinstance(each, Table)}
    return "\n\n".join(f"{says}\n\n{tables[name]}" for name, says in ACCOUNTING.items() if name in tables)


AXIS = ("time, s", "records/s", "rows", "state, MB", "rows in state", "checkpoint, bytes/record", "worker, MiB")


def _values(run: Run) -> tuple[float, ...]:
    """The columns of AXIS."""
    return (
        run.seconds,
        run.records / run.seconds,
        run.rows,
        run.state_bytes / 1e6,
        run.state_rows,
        run.checkpoint_bytes,
        run.worker_mib,
    )


def _axes(points: Sequence[Point], specs: Sequence[axes.Spec]) -> str:
    """A table for each axis, and below it by which power of it each column grows."""
    known = {point.name: point for point in points}
    ordered = [known[spec.name] for spec in specs if spec.name in known]
    return "\n\n".join(_axis(axis, list(own)) for axis, own in groupby(ordered, key=lambda point: point.axis))


def _axis(axis: str, points: Sequence[Point]) -> str:
    rows: list[Sequence[str]] = []
    for series, group in groupby(points, key=lambda point: point.series):
        own = list(group)
        rows += [_point(point) for point in own]
        if growth := _growth(own):
            rows.append((f"*grows with power{f', {series}' if series else ''}*", *growth))
    return table((axis, *AXIS), rows)


def _point(point: Point) -> Sequence[str]:
    label = f"{point.label}, {point.series}" if point.series else point.label
    if point.run.stopped:
        return (label, shown(point.run), *[""] * (len(AXIS) - 1))
    return (label, *(_number(value) for value in _values(point.run)))


def _growth(points: Sequence[Point]) -> Sequence[str]:
    finished = [point for point in points if point.x is not None and not point.run.stopped]
    xs = [point.x for point in finished if point.x is not None]
    columns = list(zip(*(_values(point.run) for point in finished), strict=True))
    fits = [exponent(xs, list(column)) for column in columns]
    return [] if all(fit is None for fit in fits) else ["" if fit is None else f"*{fit:.2f}*" for fit in fits]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _kernels(folder: Path) -> list[tuple[str, str, float]]:
    """The times of the kernels that asv has kept last: benchmark, parameters, seconds."""
    files = [path for path in folder.glob("*/*.json") if path.name != "machine.json"]
    if not files:
        return []
    kept = json.loads(max(files, key=lambda path: path.stat().st_mtime).read_text())
    found = []
    for name, values in kept["results"].items():
        fields = dict(zip(kept["result_columns"], values, strict=False))
        if name.startswith("kernels."):
            found += _combinations(name.removeprefix("kernels."), fields)
    return sorted(found)


def _combinations(name: str, fields: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    for parameters, seconds in zip(product(*fields["params"]), fields["result"] or [], strict=False):
        if isinstance(seconds, float) and seconds == seconds:
            yield name.replace(".time_", ": "), ", ".join(p.strip("'") for p in parameters), seconds


def _kernel_table(kernels: Sequence[tuple[str, str, float]]) -> str:
    rows = [(name, parameters, f"{1000 * seconds:,.2f}") for name, parameters, seconds in kernels]
    return table(("kernel", "of", "ms"), rows) if rows else ""


def _measured_on(found: Sequence[Kept]) -> str:
    machines = sorted({each.machine for each in found})
    return "Measured on " + "; ".join(machines) + "." if machines else "Nothing is measured yet."
