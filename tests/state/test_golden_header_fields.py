"""State with the header fields that are optional, as it was first written, continues with the same rows."""

import pytest
from golden.header_fields import NAME, SCENARIOS, world
from golden.make import load
from test_golden import content
from test_golden_kinds import both_go_on

STORED = load(NAME)


@pytest.mark.parametrize("name", SCENARIOS)
def test_state_goes_on_with_the_rows_of_a_bucket_that_had_all(name):
    stored = STORED[name]
    both_go_on(stored, world(name), world(name, stored["header"], stored["pages"]))


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_header_has_the_field(name):
    head, field = content(STORED[name]["header"]), SCENARIOS[name][-1]
    assert head["format"] == 8
    assert all("filtered" in result for result in head["results"])
    assert head.get(field) or any(field in family for family in head["families"])
