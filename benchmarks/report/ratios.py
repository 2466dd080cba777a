"""The tables of comparisons, including those that are not measured yet."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report.results import Ratio, reaches
from benchmarks.report.tables import line as markdown_line
from benchmarks.report.tables import markdown
from benchmarks.running.run import shown

COLUMNS = ("workload / baseline", "goal", "ratio", "", "baseline", "ours", "records", "rows")


@dataclass(frozen=True)
class Goal:
    """A goal and the measured ratio, read from a line of the page."""

    title: str
    goal: float
    ratio: float
    more_is_better: bool
    reached: bool
    """What the line says: its ratio is rounded."""

    def reached_by(self, ratio: float) -> bool:
        """Return whether a ratio reaches the goal."""
        return reaches(ratio, self.goal, self.more_is_better)


_FIGURE = re.compile(r"^\| (?P<title>[^|]+) \| [^|]* \| (?P<ratio>\d[\d.e+]*)(?: \(\w+\))? \|", re.MULTILINE)
_GOAL = re.compile(
    r"^\| (?P<title>[^|]+) \| (?P<sign>[<>])= (?P<goal>\S+) \| (?P<ratio>[\d.e+]+) \((?P<verdict>\w+)\)", re.MULTILINE
)


def goals(section: str) -> list[Goal]:
    """Return the lines with a goal and a ratio, in their order."""
    return [
        Goal(
            each["title"], float(each["goal"]), float(each["ratio"]), each["sign"] == ">", each["verdict"] == "reached"
        )
        for each in _GOAL.finditer(section)
    ]


def figures(section: str) -> dict[str, str]:
    """Return the ratios of all measured lines, as they are written, by title."""
    return {each["title"]: each["ratio"] for each in _FIGURE.finditer(section)}


def compared(ratios: Mapping[str, Ratio], titles: Mapping[str, str], before: str = "") -> str:
    """Return a table of the comparisons by name and title, in this order, with their notes; "" if none is measured.

    A comparison without a result keeps its line and its note in `before`, the previous section.
    """
    lines = {_title(line): line for line in before.splitlines() if line.startswith("| ")}
    noted = [line for line in before.splitlines() if line.startswith("- ")]
    rows, notes = [], []
    for name, title in titles.items():
        each = ratios.get(name)
        if each is None and title in lines:
            rows.append(lines[title])
            notes += [line for line in noted if line.startswith(f"- {title}: ")]
            continue
        rows.append(markdown_line(_row(title, each)))
        if each is not None and (note := _note(each)):
            notes.append(f"- {each.title}: {note}")
    if not any(name in ratios for name in titles) and not any(title in lines for title in titles.values()):
        return ""
    return "\n".join([markdown(COLUMNS), *rows, *([""] if notes else []), *notes])


def _title(line: str) -> str:
    return line.split(" | ", 1)[0].removeprefix("| ")


def short(each: Ratio) -> str:
    """Return the ratio as text, or the reason why there is none."""
    if each.differs:
        return f"rows differ: {each.differs}"
    if each.ratio is None:
        return "no ratio"
    text = f"{each.ratio:.3g}"
    # A goal that is missed by a hair does not read as if it were met.
    return f"{each.ratio:.4g}" if each.reached is False and text == f"{each.goal:.3g}" else text


def shown_goal(goal: float, more_is_better: bool) -> str:
    """Return a goal as it is written in tables."""
    return f"{'>=' if more_is_better else '<='} {goal:.3g}"


def _row(title: str, each: Ratio | None) -> Sequence[str]:
    if each is None:
        return (title, "", "not measured", *[""] * (len(COLUMNS) - 3))
    sides = (each.baseline, each.ours)
    goal = "" if each.goal is None else shown_goal(each.goal, each.more_is_better)
    verdict = {None: "", True: " (reached)", False: " (missed)"}[each.reached]
    return (
        each.title,
        goal,
        short(each) + verdict,
        each.unit if each.ratio is not None else "",
        *map(shown, sides),
        _pair(run.records for run in sides),
        _pair(run.rows for run in sides),
    )


def _note(each: Ratio) -> str:
    sides = {"baseline": each.baseline, "ours": each.ours}
    return "; ".join(f"{side}: {run.note}" for side, run in sides.items() if run.note)


def _pair(counts: Iterable[int]) -> str:
    baseline, ours = counts
    return f"{ours:,}" if baseline == ours else f"{baseline:,} / {ours:,}"
