"""State of windows with chosen ends, of cut sessions and of frames, as first written, continues with right rows."""

import json

import pytest
from golden.ends_and_frames import NAME, SCENARIOS, world
from golden.make import load
from test_golden import content

from slicing.windows.specs import from_spec, windows_text

STORED = load(NAME)
TEXTS = {
    "closed on the right": "hopping('10 milliseconds', advance='3 milliseconds', closed='right')",
    "closed on the right, days": "tumbling('1 day', zone='Europe/Berlin', closed='right')",
    "closed on the right, cumulating": "cumulating('12 milliseconds', step='3 milliseconds', closed='right')",
    "closed on the right, a tail": (
        "hopping('12 milliseconds', advance='1 millisecond', tail='4 milliseconds', closed='right')"
    ),
    "cut": "session('10 milliseconds', longest='14 milliseconds')",
    "cut, later ends": "session('7 milliseconds', unit='1 millisecond', longest='14 milliseconds')",
    "cut, gaps of records": "session(gap_column='gap', longest='14 milliseconds')",
    "before": "sliding('10 milliseconds', right=False, closed='left')",
    "months": "sliding('1 month', right=False, zone='Europe/Berlin')",
    "days, before": "sliding('1 day', right=False, closed='left', zone='Europe/Berlin')",
    "lengths, before": "sliding('9 milliseconds', unit='1 millisecond', right=False, closed='left')",
}
"""The call that makes the first windows of a scenario."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SCENARIOS)
def test_state_goes_on_with_the_rows_of_the_records(name):
    stored, found, rows = STORED[name], world(name), 0
    for batch in stored["batches"][: stored["seen"]]:
        found.known(*batch)
    found.store.text, found.store.pages = stored["header"], dict(stored["pages"])
    found.check()
    for batch in stored["batches"][stored["seen"] :]:
        rows += len(found.step(*batch))
    found.drain()
    assert rows > 5


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_header_names_lists_and_windows(name):
    head, window = content(STORED[name]["header"]), world(name).kind.window
    assert head["format"] == 8
    assert head["lists"].keys() >= {*SCENARIOS[name].lists}
    specs = [each["spec"] for each in head["families"]]
    families = getattr(window.family, "members", window.family.families)
    assert specs == json.loads(json.dumps([each.spec() for each in families]))
    assert name not in TEXTS or windows_text(specs[0]) == TEXTS[name]
    assert [from_spec(spec).spec() for spec in specs] == [each.spec() for each in families]
