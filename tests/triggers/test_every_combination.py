"""Every kind of windows x every trigger x {aggregate, process}: it works, or it is refused when the query is built.

The walk is generated from what kinds declare. "Works" is judged by raw records: a row has as many records as have come
so far between its bounds. Records come out of order and none is late, as grace is longer than their disorder.
"""

import random
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from processing import MINUTE, Play

from docs.tables import EARLY, KINDS
from slicing import Trigger, counting, early, on_change, on_close, on_update, session
from slicing.errors import InvalidValue
from slicing.stages.local_runner import stream
from slicing.stages.support_of import support_of
from slicing.triggers.accumulation import DISCARDING
from slicing.triggers.own import own
from slicing.windows.window import by_edges

START, GRACE, END = 20_000 * 24 * 60 * MINUTE, 300 * MINUTE, 4_102_444_800_000_000


@dataclass(frozen=True)
class ByThree(Trigger):
    """Windows that got their third, sixth, ... record, and sessions add up."""

    state = "seen bigint"

    def on_records(self, windows, at):
        seen = windows["seen"] + windows.came
        windows["seen"] = seen % 3
        return np.where(seen >= 3, self.FIRE, self.CONTINUE)

    def on_merge(self, parts, starts):
        return {"seen": np.add.reduceat(parts["seen"], starts)}


class ApartOnly(ByThree):
    """It keeps state, and does not say what sessions make of it."""

    on_merge = Trigger.on_merge


@dataclass(frozen=True)
class ByTime(Trigger):
    """All open windows when the watermark moves."""

    final = False

    def on_time(self, windows, at):
        return np.full(len(windows), self.FIRE)


@dataclass(frozen=True)
class ByClock(Trigger):
    """All open windows in every micro-batch."""

    def on_clock(self, windows, at):
        return np.full(len(windows), self.FIRE)


TRIGGERS = {
    # Signals and numbers are heard in test_early.
    **{name: each for name, each in EARLY.items() if not each.signals},
    **{
        repr(each): each
        for each in (
            on_close(),
            on_close(corrections=True),
            on_close(corrections=True, old=True),
            on_close(corrections=True, discarding=True),
            on_update(),
            on_update(latest_only=True),
            on_change(),
            on_change(drained=True),
            early(records=3),
            early(every="10 seconds", repeat=True),
        )
    },
    **{type(each).__name__: own(each) for each in (ByThree(), ApartOnly(), ByTime(), ByClock())},
}
WINDOWS = KINDS | {
    "by edges": by_edges([START, START + 30 * MINUTE], [START + 40 * MINUTE, START + 90 * MINUTE]),
    "sessions": session("3 minutes"),
    "sessions, judged whole": session("3 minutes", late_by="session"),
    "counting": counting(5, advance=2),
}
CELLS = [(kind, trigger) for kind in WINDOWS for trigger in TRIGGERS]


def batches():
    """Times of micro-batches, their watermarks and their clocks; the last one closes all windows that can close."""
    rng, now, greatest = random.Random("cells"), START, 0
    for number in range(8):
        times = [now - rng.randrange(40) * MINUTE // 2 for _ in range(rng.choice([1, 4, 9]))]
        yield times, greatest, START + number * 6_000_000
        greatest, now = max([greatest, *times]), now + rng.choice([1, 7, 200]) * MINUTE
    yield [], END, START + 60_000_000


def refusal(check):
    try:
        check()
    except InvalidValue as error:
        return str(error)
    return ""


def by_aggregate(window, trigger):
    times, marks, clocks = zip(*batches(), strict=True)
    found = stream(window, times, marks, trigger, GRACE, clocks)
    return [(row.batch, row.start, row.end, row.records, row.emission) for row in found.rows]


def by_process(window, trigger):
    play = Play(window, lambda key, window, records, context: [(len(records),)], "n long", trigger=trigger, grace=GRACE)
    for number, (times, mark, clock) in enumerate(batches()):
        for _, start, stop, n, *_, kind in play.step([(time, "a", 1) for time in times], mark, clock):
            yield number, start, stop, n, kind


def judge_purged(window, rows):
    """The rows of a window have each of its records once, and no row has none; sessions add up to all records."""
    assert all(n for _, _, _, n, _ in rows)
    known = [time for times, _, _ in batches() for time in times]
    if window == WINDOWS["unbounded"]:
        assert sum(row[3] for row in rows) <= len(known)
        return
    found = Counter()
    for _, start, end, n, _ in rows:
        found[start, end] += n
    if support_of(window).from_slices:
        assert found == {span: sum(span[0] <= time < span[1] for time in known) for span in found}
    assert sum(found.values()) >= sum(any(a <= time < b for a, b in found) for time in known)


def judge(window, trigger, rows):
    """Each row has the records that have come between its bounds.

    A discarding late firing has the new records only, except a new sliding window or one of several kinds: it has all.
    """
    rows = list(rows)
    if trigger.purges:
        return judge_purged(window, rows)
    known = [times for times, _, _ in batches()]
    for number, start, end, n, kind in rows:
        if kind in ("merged", "drained"):
            assert n in (0, None)
        elif window.counts:
            assert n == 5 or number < 1 or n < 5  # the first windows are shorter
        else:
            came = [time for times in known[: number + 1] for time in times]
            whole, alone = (
                sum(not window.closes or start <= time < end for time in some) for some in (came, known[number])
            )
            assert n == whole or (n == alone and trigger.accumulation is DISCARDING)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("kind", "trigger"), CELLS)
def test_it_works_or_is_refused_when_it_is_built(kind, trigger):
    window, trigger = WINDOWS[kind], TRIGGERS[trigger]
    support = support_of(window)
    declared = [*support.cannot.values(), *support.cannot_process.values(), *support.cannot_purge("auto").values()]
    if refused := refusal(lambda: support.check("auto", False, trigger, True)):
        assert any(f"{trigger} {reason}" == refused for reason in declared)
        return
    rows = by_aggregate(window, trigger)
    judge(window, trigger, rows)
    assert rows
    if refused := refusal(lambda: support.check_process("auto", trigger, True)):
        assert window.wide or trigger.purges or trigger.accumulation.retracts or any(why in refused for why in declared)
        return
    processed = list(by_process(window, trigger))
    judge(window, trigger, processed)
    assert _told(processed) == _told(rows)


def _told(rows):
    return Counter((number, n, kind) for number, _, _, n, kind in rows if kind != "merged")


def test_the_walk_has_cells_of_every_answer():
    """Or it would prove nothing."""
    answers = Counter()
    for kind, trigger in CELLS:
        support, trigger = support_of(WINDOWS[kind]), TRIGGERS[trigger]
        if refusal(lambda: support.check("auto", False, trigger, True)):  # noqa: B023
            answers["refused"] += 1
        elif refusal(lambda: support.check_process("auto", trigger, True)):  # noqa: B023
            answers["aggregate only"] += 1
        else:
            answers["both"] += 1
    assert answers["both"] > 120
    assert answers["refused"] > 20
    assert answers["aggregate only"] > 20
