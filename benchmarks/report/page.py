"""Writes docs/performance/measurements.md, with tables and plots from stored results, and parts of docs/performance.md.

No figure is typed by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks import ROOT
from benchmarks.comparisons import growth, registry
from benchmarks.report import asv, guide, plots, ratios, results
from benchmarks.report.floors import floors
from benchmarks.report.growth import grown
from benchmarks.report.results import Figure, Kept, Point, Ratio, Stages, Table
from benchmarks.report.stages import stages
from benchmarks.report.tables import markdown
from benchmarks.running.run import shown

GUIDE = ROOT / "docs" / "performance.md"
PAGE = ROOT / "docs" / "performance" / "measurements.md"
MEASURED_ON = "Measured on "

TITLE = """\
# Measurements

All of them. [Performance](../performance.md) has the ten that matter most."""
MISSED = "Missed goals and their floors"

METHOD = """\
## How it was measured

`make bench` writes this page from its measurements; no figure is typed by hand. `make bench-quick` measures a few
lines. Titles name a [workload](../performance.md#workloads). R is the number of windows per record.

**Sides.** Each line compares a workload on this framework with a baseline. Both sides run in one process on the same
machine. Each side first runs on a tenth or all of the records, or on the micro-batches of a history, to warm up; cold
runs are marked. If a few percent matter, the sides alternate micro-batch by micro-batch, so that a change of the
machine's speed affects both. They run one after the other if one side leaves much garbage for the other to collect,
and in all remaining cases. If a micro-batch takes Spark many seconds, the first micro-batch, which is not counted,
warms it up instead of the tenth.

**Figures.** Seconds are medians of steady micro-batches, or the duration of the bounded query. Records and result rows
are those of one micro-batch, or of the query. Streams write to a noop sink. Spark runs on RocksDB with changelog
checkpoints and on its default state store, and the faster one counts. Both sides use the session settings of
[`configure(builder, local=True)`](../deploy.md#settings-of-the-session). A line of its own shows the cost of Spark's
default limit of Arrow batches.

**Equality.** A ratio is printed only if both queries, on the workload or on a cut of it, wrote equal rows to Parquet:
the same number of rows, the same sum of hashes over keys, windows and exact columns, and float sums within 1e-12 of
the sum of absolute values. When two queries of this framework are compared, each is checked against Spark's rows.

**Older commits.** A comparison with an older commit runs each side in a process of its own. The sides alternate run by
run, and the best run of each counts.

**Serving.** A reader answers requests one after another, on the machine of the store; PostgreSQL runs without `fsync`,
and Redis writes no files. 200 of the million keys have a record a minute for a week, the others three records. Every
other request is of one of the 200. Answers are checked against SQL over the records. Reads in Python are those of a
store that has its answers in memory.

**Goals.** The goals are the project's own. Missed goals are shown too.

**Age.** A line that is not measured again keeps its figure, so lines may be of different commits."""

FLINK = """\
`python -m benchmarks.comparisons.flink` measures this section and documents how; `make bench` does not run it. Flink
SQL is the strongest baseline: its windows share slices too, inside the runtime, in Java and without micro-batches.
Seconds, records and rows are those of a whole run, in which each side reads all records from CSV and closes all
windows. Processor time is the sum over all processes of a side."""

KAFKA_STREAMS = """\
`python -m benchmarks.kafka_streams` measures this section and documents how; `make bench` does not run it. Both sides
read the same topic of a broker on the same machine to its end, and close all windows or emit all updates. The last row
of each window is equal on both sides. Kafka Streams keeps a partial for each window of a record, in RocksDB and in a
changelog topic. A ratio compares processor seconds per record: of the JVM of Kafka Streams, and of all processes of
this framework. The processor time of the broker, which also stores the changelogs, is not included. If Kafka Streams
reads a part of the workload, records and keys are cut in the same proportion, so the number of records per key is the
same. The notes show the processor time of this framework on the same part, which includes the cost of small
micro-batches."""


def write(page: Path = PAGE, short: Path = GUIDE) -> None:
    """Write the page and its plots, and the figures in `short`, the page for readers."""
    found = [*results.kept(), *results.kept(results.BY_HAND)]
    page.parent.mkdir(exist_ok=True)
    before = page.read_text() if page.exists() else ""
    goals = ratios.goals(_comparisons(found, _before(before)[0])["Goals"])
    drawn = plots.draw(goals, [_on(found, axes) for axes in (growth.AXES, growth.CROSSES)], page.parent)
    page.write_text(text(found, asv.kernels(), drawn, before))
    short.write_text(guide.written(short.read_text(), page.read_text()))


def text(
    found: Sequence[Kept],
    kernels: Sequence[tuple[str, str, float]] = (),
    drawn: Iterable[str] = (),
    before: str = "",
) -> str:
    """Return the page; `kernels` has benchmark, parameters and seconds, `drawn` the paths of the plots.

    `before` is the previous page; its lines and sections are kept where there are no new results.
    """
    known, machines = _before(before)
    known.pop(MISSED, None)  # made anew from all lines, those that are kept too
    compared = _comparisons(found, known)
    missed = floors(ratios.goals(compared["Goals"]), "\n".join(compared.values()), _titles())
    sections = {
        "Goals": compared["Goals"],
        MISSED: missed,
        "Other baselines": compared["Other baselines"],
        "Where the time goes": stages(_timed(found)),
        "Flink SQL": _by_hand(found, "Flink", FLINK),
        "Kafka Streams": _by_hand(found, "KafkaStreams", KAFKA_STREAMS),
        "Memory": _figures(_figures_of(found, serving=False), known.get("Memory", "")),
        "Serving": _figures(_figures_of(found, serving=True), known.get("Serving", "")),
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
    return "\n\n".join([TITLE, *titled, METHOD, _measured_on(found, machines)]) + "\n"


def _comparisons(found: Sequence[Kept], before: Mapping[str, str]) -> dict[str, str]:
    """The sections of comparisons, with and without a goal."""
    measured, goals = _ratios(found), [each.name for each in registry.compared() if each.goal]
    titles = {
        "Goals": {name: title for name, title in _titles().items() if name in goals},
        "Other baselines": {name: title for name, title in _titles().items() if name not in goals},
    }
    return {title: ratios.compared(measured, of, before.get(title, "")) for title, of in titles.items()}


def _titles() -> dict[str, str]:
    return {each.name: each.title for each in registry.compared()}


def in_short(result: Kept) -> str:
    """Return a result in one line."""
    if isinstance(result, Ratio):
        return f"{ratios.short(result)} {result.unit}; baseline {shown(result.baseline)}, ours {shown(result.ours)}"
    if isinstance(result, Figure):
        return f"{_number(result.value)} {result.unit}"
    if isinstance(result, Table):
        return f"{len(result.text.splitlines()) - 2} lines"
    if isinstance(result, Stages):
        return f"without any work {shown(result.baseline)}, ours {shown(result.ours)}"
    return shown(result.run)


def _ratios(found: Sequence[Kept]) -> dict[str, Ratio]:
    return {each.name: each for each in found if isinstance(each, Ratio)}


def _timed(found: Sequence[Kept]) -> list[Stages]:
    """The timed stages, in the order of the comparisons."""
    known = {each.name: each for each in found if isinstance(each, Stages)}
    return [known[each.name] for each in registry.benchmarks() if each.name in known]


def _on(found: Sequence[Kept], axes: Sequence[growth.AxisPoint]) -> list[Point]:
    """The points on these axes, in the order of the axes."""
    known = {each.name: each for each in found if isinstance(each, Point)}
    return [known[each.name] for each in axes if each.name in known]


def _pictured(title: str, body: str, plot: str | None) -> str:
    return f"![{title}]({plot})\n\n{body}" if plot else body


def _before(page: str) -> tuple[dict[str, str], set[str]]:
    """The sections of a page by their titles, and the machines that it names."""
    body, _, last = page.partition(f"\n\n{MEASURED_ON}")
    sections = dict(each.split("\n\n", 1) for each in body.split("\n\n## ")[1:])
    return sections, set(filter(None, last.strip().removesuffix(".").split("; ")))


def _by_hand(found: Sequence[Kept], peer: str, says: str) -> str:
    measured = _ratios(found)
    titles = {name: each.title for name, each in measured.items() if name.startswith(peer)}
    return f"{says}\n\n{ratios.compared(measured, titles)}" if titles else ""


def _figures_of(found: Sequence[Kept], serving: bool) -> list[Figure]:
    """The figures of serving, or the others."""
    return [each for each in found if isinstance(each, Figure) and each.name.startswith("Serving-") == serving]


def _figures(figures: Sequence[Figure], before: str) -> str:
    """The table of figures; those that were not measured again keep their lines in `before`, the previous section."""
    if not figures:
        return ""
    rows = [
        (
            each.title,
            "" if each.goal is None else f"{_SIDE[each.more_is_better]} {_number(each.goal)}",
            f"{_number(each.value)} {each.unit}",
        )
        for each in figures
    ]
    head, measured = ("", "goal", "measured"), {each.title for each in figures}
    lines = [line for line in before.splitlines()[2:] if line.removeprefix("| ").partition(" | ")[0] not in measured]
    return "\n".join([markdown(head, rows), *lines])


_SIDE = {False: "<=", True: ">="}


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


ACCOUNTING = {
    "Accounting": """\
Each cell shows the partials of a key that are read / written: per record, per closing window, and in total per result
row. The engine counts them. The columns "predicted" are the predictions of `explain`, and the column "proposal" is the
formula of the original proposal, at R windows per record. "Latest slices held" means that the process caches the
latest slices; the row before it is without the cache. [How it works](../how-it-works.md#what-it-costs) explains the
differences.""",
    "Physical": """\
The same on Spark, at R = 12 and with 800 keys: partials of a key in a micro-batch with one record of each key in which
one window closes, then calls and bytes of the state store for all keys.""",
}


def _accounting(found: Sequence[Kept]) -> str:
    tables = {each.name: each.text for each in found if isinstance(each, Table)}
    return "\n\n".join(f"{says}\n\n{tables[name]}" for name, says in ACCOUNTING.items() if name in tables)


def _measured_on(found: Sequence[Kept], before: set[str]) -> str:
    machines = sorted({each.machine for each in found} | before)
    return MEASURED_ON + "; ".join(machines) + "." if machines else "Nothing is measured yet."
