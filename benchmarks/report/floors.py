"""The table of missed goals that says how far the same stages without any work are from them."""

from collections.abc import Iterable, Iterator, Mapping

from benchmarks.report.ratios import Goal, figures, shown_goal
from benchmarks.report.tables import markdown

SAYS = """\
A line has a floor if the stages of its query were measured without any work: Spark reads, shuffles, sends as many rows
to Python and back, and commits an empty state. The last column is the ratio if all work of this framework took no time.
A goal that even this does not reach is out of reach of anything that runs inside Spark's stages."""

HEAD = ("workload / baseline", "ratio", "goal", "time / floor", "ratio at the floor")
FLOORS = {
    "DayLong": "DayFloor",
    "Dense": "DenseFloor",
    "ManyKeys": "KeysFloor",
    "FixedCost": "FixedFloor",
    "UpdateHour": "UpdateFloor",
    "SlidingBounded": "SlidingBoundedFloor",
    "SlidingPolars": "SlidingBoundedFloor",
}
"""By name of a comparison with a goal, that of the comparison of the same workload with its floor."""


def floors(goals: Iterable[Goal], section: str, titles: Mapping[str, str]) -> str:
    """Return the section, "" if no missed goal has a measured floor. `section` has the lines of the floors.

    `titles` has the titles of all comparisons by name.
    """
    rows = list(_rows(goals, figures(section), {titles[name]: titles[floor] for name, floor in FLOORS.items()}))
    return f"{SAYS}\n\n{markdown(HEAD, rows)}" if rows else ""


def _rows(goals: Iterable[Goal], known: Mapping[str, str], floor_of: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    for each in goals:
        floor = known.get(floor_of.get(each.title, ""))
        if floor is None or each.reached_by(each.ratio):
            continue
        above = float(floor)
        best = each.ratio * above if each.more_is_better else each.ratio / above
        verdict = "in reach" if each.reached_by(best) else "out of reach"
        goal = shown_goal(each.goal, each.more_is_better)
        yield each.title, f"{each.ratio:.3g}", goal, floor, f"{best:.3g} ({verdict})"
