"""The tables of comparisons, those not measured yet included."""

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.report.results import Ratio
from benchmarks.report.tables import markdown
from benchmarks.running.run import shown

COLUMNS = ("workload / baseline", "goal", "ratio", "", "baseline", "ours", "records", "rows")


def compared(ratios: Mapping[str, Ratio], titles: Mapping[str, str]) -> str:
    """The comparisons of these names and titles in this order, and their notes; nothing if none is measured."""
    chosen = [(title, ratios.get(name)) for name, title in titles.items()]
    if not any(each for _, each in chosen):
        return ""
    notes = [f"- {each.title}: {note}" for _, each in chosen if each and (note := _note(each))]
    return "\n".join([markdown(COLUMNS, (_row(*each) for each in chosen)), *([""] if notes else []), *notes])


def short(each: Ratio) -> str:
    """The ratio, or why there is none."""
    if each.differs:
        return f"rows differ: {each.differs}"
    return "no ratio" if each.ratio is None else f"{each.ratio:.3g}"


def _row(title: str, each: Ratio | None) -> Sequence[str]:
    if each is None:
        return (title, "", "not measured", *[""] * (len(COLUMNS) - 3))
    sides = (each.baseline, each.ours)
    goal = "" if each.goal is None else f"{'>=' if each.more_is_better else '<='} {each.goal:.3g}"
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
