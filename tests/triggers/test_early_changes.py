"""Another early trigger on a live checkpoint: what is stored is used for what it means, or begins anew."""

import pytest

from slicing.stages.local_runner import _Run
from slicing.triggers.emission import early
from slicing.windows.window import tumbling

MINUTE = 60_000_000
START = 1_700_006_400_000_000
"""A whole hour. It is a time of records and of clocks."""


class Changing:
    """The only window of two hours, micro-batch by micro-batch: times are minutes after its start."""

    def __init__(self, trigger, by_clock=False):
        self.run, self.number, self.by_clock = _Run(tumbling("2 hours"), trigger, 0), 0, by_clock

    def change(self, trigger):
        store, self.run = self.run.store, _Run(tumbling("2 hours"), trigger, 0)
        self.run.store = store

    def step(self, now, *records):
        """Return how many records each emitted row has; `now` is the watermark and the clock, or the clock alone."""
        rows, self.number, now = [], self.number + 1, START + now * MINUTE
        self.run.step([START + each * MINUTE for each in records], 0 if self.by_clock else now, now, self.number, rows)
        return [row.records for row in rows]


@pytest.mark.parametrize("after", ["10 seconds", "1 hour"])
def test_a_multiple_of_another_interval_by_event_time_fires(after):
    often, then = (early(every=each, by="event", final=False) for each in ("10 seconds", after))
    one = Changing(often)
    assert one.step(0) == []
    assert one.step(40, 10, 30) == [2]
    one.change(then)
    assert one.step(61, 50) == [3]
    assert one.step(125) == []


@pytest.mark.parametrize("final", [False, True], ids=["not final", "final"])
@pytest.mark.parametrize(
    ("before", "after", "nows"), [("10 seconds", "1 hour", (59, 61)), ("1 hour", "10 seconds", (1.1, 1.2))]
)
def test_a_multiple_of_another_interval_by_the_clock_fires(before, after, nows, final):
    for first, rows in ((nows[0], [[], [2]]), (nows[1], [[2], []])):
        one = Changing(early(every=before, final=final), by_clock=True)
        assert one.step(1, 10) == []
        one.change(early(every=after, final=final))
        assert [one.step(first, 20), one.step(nows[1])] == rows


@pytest.mark.parametrize(
    "before", [early(records=9, after="5 hours", by="event"), early(records=9, per="window")], ids=str
)
def test_another_trigger_fires_at_the_next_multiple(before):
    one = Changing(before)
    assert one.step(10, 10) == []
    one.change(early(every="1 hour", by="event"))
    assert one.step(50) == []
    assert one.step(61) == [1]
