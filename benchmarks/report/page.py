"""docs/performance.md with its tables and plots, from results that are kept; nothing on it is written by hand."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.comparisons import growth, registry
from benchmarks.report import asv, plots, ratios, results
from benchmarks.report.growth import grown
from benchmarks.report.results import Figure, Kept, Point, Ratio, Table
from benchmarks.report.tables import markdown
from benchmarks.running.run import shown

PAGE = ROOT / "docs" / "performance.md"
MEASURED_ON = "Measured on "

INTRODUCTION = """\
# Performance

Written by `make bench` from what it measured; no figure is typed in. `make bench-quick` measures a few.

Both sides of a line run in one process, each after a run on a tenth or all of the records that warms it up, or after
the micro-batches of a history; what ran cold says so. Where a few percent matter, the sides take turns, micro-batch by
micro-batch, so that a machine that changes its speed does so for both, unless one leaves much garbage for the other to
collect; elsewhere one runs after the other. Where a micro-batch takes Spark many seconds, the one that is not counted
warms it up more than the tenth does. Seconds are medians of steady micro-batches, or of the bounded query; records and
result rows are those of a micro-batch, or of the query. Streams go into a noop sink. Spark runs on RocksDB with
changelog checkpoints and on its default state store, and the faster one counts. The session of both is set as
[`configure(builder, local=True)`](deploy.md#settings-of-the-session) has it; what Spark's own limit of Arrow batches
costs is a line below. A ratio is printed only if the same two queries, on the workload or on a cut of it, wrote equal
rows into Parquet: as many, with the same sum of hashes over keys, windows and exact columns, and float sums within
1e-12 of the sum of absolute values; where ours is compared with ours, each wrote the rows that Spark has for it. Where
that is ours of an older commit, each has a process of its own; they take turns, a whole run at a time, and the best one
of each counts. Goals are what the project has set itself, also where it does not reach them. Lines and sections that
were not measured again stay as they were; some of them are from before the session's checkpoint files and sockets were
set so, which made a small micro-batch of ours faster by a tenth and by a twentieth of a second; Spark's windows have no
sockets to Python."""

FLINK = """\
Measured by hand with `python -m benchmarks.comparisons.flink`, which says how; `make bench` does not. It is the
strongest baseline: windows of Flink SQL share slices too, inside its runtime, in Java and without micro-batches.
Seconds, records and rows are those of a whole run, in which a side reads all records from CSV and closes all windows;
processor time is that of all its processes meanwhile."""

KAFKA_STREAMS = """\
Measured by hand with `python -m benchmarks.kafka_streams`, which says how; `make bench` does not. Both sides read the
same topic of a broker on the same machine to its end, and close all windows or put out all updates; rows of both are
equal. Kafka Streams keeps a partial for each window of a record, in RocksDB and in a changelog topic. A ratio is of
processor seconds per record, of the JVM of Kafka Streams and of all processes of ours; those of the broker, which has
the changelogs too, are in neither. Where Kafka Streams reads a part, records and keys are cut alike, so a key is as
dense; ours per record on the same part is in the notes, where a micro-batch of few records has its price."""


def write(page: Path = PAGE) -> None:
    """Write the page and its plots."""
    found = [*results.kept(), *results.kept(results.BY_HAND)]
    folder = page.parent / page.stem
    folder.mkdir(exist_ok=True)
    before = page.read_text() if page.exists() else ""
    goals = ratios.goals(_comparisons(found, _before(before)[0])["Goals"])
    drawn = plots.draw(goals, [_on(found, axes) for axes in (growth.AXES, growth.CROSSES)], folder)
    page.write_text(text(found, asv.kernels(), drawn, before))


def text(
    found: Sequence[Kept],
    kernels: Sequence[tuple[str, str, float]] = (),
    drawn: Iterable[str] = (),
    before: str = "",
) -> str:
    """The page; `kernels` are benchmark, parameters and seconds, `drawn` the plots there are, by their paths.

    `before` is the page as it was, whose lines of comparisons, and other sections, stay where there is nothing new.
    """
    known, machines = _before(before)
    sections = {
        **_comparisons(found, known),
        "Flink SQL": _by_hand(found, "Flink", FLINK),
        "Kafka Streams": _by_hand(found, "KafkaStreams", KAFKA_STREAMS),
        "Memory": _figures(each for each in found if isinstance(each, Figure)),
        "Reads and writes of the state": _accounting(found),
        "How it grows": grown(_on(found, growth.AXES)),
        "Two axes together": grown(_on(found, growth.CROSSES)),
        "Kernels": asv.kernel_table(kernels),
    }
    plotted = {Path(path).stem: path for path in drawn}
    plots_of = {"Goals": "goals", "How it grows": "axes", "Two axes together": "crosses"}
    shown_in = {title: plotted[name] for title, name in plots_of.items() if name in plotted}
    known |= {title: _pictured(title, body, shown_in.get(title)) for title, body in sections.items() if body}
    titled = [f"## {title}\n\n{known[title]}" for title in sections if title in known]
    return "\n\n".join([INTRODUCTION, *titled, _measured_on(found, machines)]) + "\n"


def _comparisons(found: Sequence[Kept], before: Mapping[str, str]) -> dict[str, str]:
    """The sections of comparisons: those with a goal, and others."""
    measured, every = _ratios(found), registry.compared()
    titles = {
        "Goals": {each.name: each.title for each in every if each.goal},
        "Other baselines": {each.name: each.title for each in every if not each.goal},
    }
    return {title: ratios.compared(measured, of, before.get(title, "")) for title, of in titles.items()}


def in_short(result: Kept) -> str:
    """A result in a line."""
    if isinstance(result, Ratio):
        return f"{ratios.short(result)} {result.unit}; baseline {shown(result.baseline)}, ours {shown(result.ours)}"
    if isinstance(result, Figure):
        return f"{result.value:,.0f} {result.unit}"
    if isinstance(result, Table):
        return f"{len(result.text.splitlines()) - 2} lines"
    return shown(result.run)


def _ratios(found: Sequence[Kept]) -> dict[str, Ratio]:
    return {each.name: each for each in found if isinstance(each, Ratio)}


def _on(found: Sequence[Kept], axes: Sequence[growth.AxisPoint]) -> list[Point]:
    """The points on these axes, in their order."""
    known = {each.name: each for each in found if isinstance(each, Point)}
    return [known[each.name] for each in axes if each.name in known]


def _pictured(title: str, body: str, plot: str | None) -> str:
    return f"![{title}]({plot})\n\n{body}" if plot else body


def _before(page: str) -> tuple[dict[str, str], set[str]]:
    """The sections of a page by their titles, and the machines that it says they were measured on."""
    body, _, last = page.partition(f"\n\n{MEASURED_ON}")
    sections = dict(each.split("\n\n", 1) for each in body.split("\n\n## ")[1:])
    return sections, set(filter(None, last.strip().removesuffix(".").split("; ")))


def _by_hand(found: Sequence[Kept], peer: str, says: str) -> str:
    measured = _ratios(found)
    titles = {name: each.title for name, each in measured.items() if name.startswith(peer)}
    return f"{says}\n\n{ratios.compared(measured, titles)}" if titles else ""


def _figures(figures: Iterable[Figure]) -> str:
    rows = [
        (each.title, "" if each.goal is None else f"<= {each.goal:,.0f}", f"{each.value:,.0f} {each.unit}")
        for each in figures
    ]
    return markdown(("", "goal", "measured"), rows) if rows else ""


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


def _measured_on(found: Sequence[Kept], before: set[str]) -> str:
    machines = sorted({each.machine for each in found} | before)
    return MEASURED_ON + "; ".join(machines) + "." if machines else "Nothing is measured yet."
