"""State of several windows and of windows that never close, as it was first written, continues with the same rows.

What has to go out is known from a bucket that has had all micro-batches, which other tests hold against the records.
"""

import pytest
from golden.kinds import SEVERAL, UNBOUNDED, world
from golden.make import load
from test_golden import content

STORED = load("kinds")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [*SEVERAL, *UNBOUNDED])
def test_state_goes_on_with_the_rows_of_a_bucket_that_had_all(name):
    stored = STORED[name]
    both_go_on(stored, world(name), world(name, stored["header"], stored["pages"]))


def both_go_on(stored, whole, line):
    """A bucket that has all micro-batches, and one with the stored state that has the rest of them."""
    count = 0
    for batch in stored["batches"][: stored["seen"]]:
        whole.emit(*batch)
    line.watermark = whole.watermark
    line.bucket().check()
    for batch in stored["batches"][stored["seen"] :]:
        wanted = whole.emit(*batch)
        assert line.emit(*batch) == wanted
        count += len(wanted)
    assert count >= 10


@pytest.mark.parametrize("name", [*SEVERAL, *UNBOUNDED])
def test_the_state_has_something_in_it(name):
    stored = STORED[name]
    head = content(stored["header"])
    assert head["format"] == 7
    assert stored["pages"]
    assert name in UNBOUNDED or len(head["families"]) > 1
