"""The table of missed goals that says how far the same stages without any work are from them."""

from collections.abc import Iterable, Iterator, Mapping

from benchmarks.report.ratios import Goal, figures, shown_goal
from benchmarks.report.tables import markdown

SAYS = """\
A line has a floor if the stages of its query were measured without any work: Spark reads, shuffles, sends as many rows
to Python and back, and commits an empty state. "At the floor" is the ratio if all work of this framework took no time.
A goal that it does not reach is out of reach of anything that runs inside Spark's stages. "By hand" is the ratio with
code in numpy that was written for these windows alone: it knows the workload, takes no late records, and can do nothing
else. It is a second baseline and no bound: there may be faster code.

The floor of state read is in bytes. The partials of a micro-batch, in the same encoding, are read when their slices
enter, when they leave the window, and when they are removed, since Spark reads what it removes, to count its rows. With
windows shorter than a micro-batch most slices enter and leave at once, so that two reads are enough."""

HEAD = ("workload / baseline", "ratio", "goal", "ours / floor", "at the floor", "by hand")
FLOORS = {
    "DayLong": "DayFloor",
    "Dense": "DenseFloor",
    "ManyKeys": "KeysFloor",
    "FixedCost": "FixedFloor",
    "UpdateHour": "UpdateFloor",
    "SlidingBounded": "SlidingBoundedFloor",
    "SlidingPolars": "SlidingBoundedFloor",
    "SessionsBounded": "SessionsBoundedFloor",
    "FeaturesHour": "FeaturesFloor",
    "PolarsFive": "FiveFloor",
    "PolarsTop": "TopFloor",
    "ChangeSparse": "ChangeFloor",
    "WarmStartBoundedDay": "WarmStartDayFloor",
    "DayFloor": "DayFloor",
    "FixedFloor": "FixedFloor",
    **{name: f"{name}Floor" for name in ("ReadDayLong", "ReadDayDouble", "ReadWeekLong", "ReadWeekDouble")},
}
"""By name of a comparison with a goal, that of the comparison of the same workload with its floor."""
BY_HAND = {
    "DayLong": "DayByHand",
    "DayFloor": "DayByHand",
    "ManyKeys": "KeysByHand",
    "FixedCost": "FixedByHand",
    "FixedFloor": "FixedByHand",
}
"""The same, with the comparison with work by hand."""


def floors(goals: Iterable[Goal], section: str, titles: Mapping[str, str]) -> str:
    """Return the section, "" if no missed goal has a measured floor. `section` has the lines of the floors.

    `titles` has the titles of all comparisons by name.
    """
    known = figures(section)
    floor, by_hand = (
        {titles[name]: known.get(titles[other]) for name, other in others.items()} for others in (FLOORS, BY_HAND)
    )
    rows = list(_rows(goals, floor, by_hand))
    return f"{SAYS}\n\n{markdown(HEAD, rows)}" if rows else ""


def _rows(
    goals: Iterable[Goal], floors: Mapping[str, str | None], by_hand: Mapping[str, str | None]
) -> Iterator[tuple[str, ...]]:
    for each in goals:
        floor = floors.get(each.title)
        if floor is None or each.reached:
            continue
        goal = shown_goal(each.goal, each.more_is_better)
        reached = (_reached(each, known) for known in (floor, by_hand.get(each.title)))
        yield each.title, f"{each.ratio:.4g}", goal, floor, *reached


def _reached(goal: Goal, times: str | None) -> str:
    """The ratio if ours took its time divided by `times`, and whether that reaches the goal; "" if it is not known."""
    if times is None:
        return ""
    ratio = goal.ratio * float(times) if goal.more_is_better else goal.ratio / float(times)
    return f"{ratio:.3g} ({'in reach' if goal.reached_by(ratio) else 'out of reach'})"
