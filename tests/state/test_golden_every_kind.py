"""State of every kind of windows under every emission continues with the rows that the code which wrote it gave."""

from itertools import product

import pytest
from golden.every_kind import BRIEF, IN_TURNS, SCENARIOS, SEEN, Line
from golden.make import load
from oracle import few

FORMATS = (7, 8)
STORED = {version: load(f"every{version}") for version in FORMATS}


def test_all_scenarios_are_there():
    assert [*STORED[7]["scenarios"]] == [*SCENARIOS]
    assert [*STORED[8]["scenarios"]] == BRIEF


ALL = [(version, name) for version in FORMATS for name in STORED[version]["scenarios"]]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("version", "name"), few([*product([7], IN_TURNS), *product([8], BRIEF)], ALL))
def test_state_goes_on_with_the_rows_that_its_writer_gave(version, name):
    stored, batches = STORED[version]["scenarios"][name], STORED[version]["streams"][SCENARIOS[name][0]]
    line = Line(name, stored["header"], stored["pages"])
    assert stored["pages"]
    line.bucket().check()
    assert [line.step(*batch) for batch in batches[SEEN:]] == stored["rest"]
    assert sum(len(rows) for rows, *_ in stored["rest"]) >= 4
