"""Sessions of a greatest length whose start moves lose records to others: a new record fires them all the same."""

import numpy as np
import pytest
from scenarios.kinds.sessions import Longest
from scenarios.scenario import Scenario

from slicing.triggers.emission import early
from slicing.triggers.own import own
from slicing.triggers.user_trigger import Trigger
from slicing.windows.session import session

FIVE = "5 milliseconds"


class AtEnd(Trigger):
    """Fire windows all of whose records are new, and others when the watermark has passed the end."""

    final = False

    def on_records(self, windows, at):
        return np.where(windows.records == windows.came, self.FIRE, self.CONTINUE)

    def on_time(self, windows, at):
        return np.where(windows.end <= at.watermark, self.FIRE, self.CONTINUE)


def fired(trigger, *batches, grace=0):
    """The kind, the start and the number of records of each row of a stream, by micro-batch."""
    one = Scenario(Longest(session(FIVE, longest=FIVE)), trigger, grace, results=("sum",), judged=False)
    return [
        [(kind, start, row and row[1]) for (kind, _, _, start, _), (row, _) in one.emit(*batch).items()]
        for batch in batches
    ]


BEFORE = ([(5000, 1, 1), (8000, 1, 1), (10_000, 1, 1)], 0)
"""One session of three records, which has fired. A record before them makes another one of three."""


@pytest.mark.parametrize("more", [{}, {"on_time": True}, {"after": "1 hour"}], ids=str)
def test_a_new_record_counts_where_others_have_left_the_session(more):
    found = fired(early(records=1, per="window", **more), BEFORE, ([(4000, 1, 1)], 0))
    assert found == [[("early", 5000, 3)], [("merged", 5000, None), ("early", 4000, 3), ("early", 10_000, 1)]]


def test_what_a_late_record_leaves_of_a_session_that_has_ended_is_late_too():
    """It is another session, without a new record; what has fired for its records is taken back."""
    of, records = early(on_time=True, late=True), BEFORE[0]
    found = fired(of, (records, 16), ([], 17), ([(4000, 1, 1)], 17), ([], 18), grace=20_000)
    late = [("merged", 5000, None), ("late", 4000, 3), ("late", 10_000, 1)]
    assert found == [[("on_time", 5000, 3)], [], late, []]


def test_a_trigger_of_ones_own_is_heard_when_such_a_session_closes():
    found = fired(own(AtEnd()), BEFORE, ([(4000, 1, 1)], 0), ([], 100))
    assert ("early", 4000, 3) in found[2]
