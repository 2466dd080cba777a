"""Instants: one rule for every call that takes one; times without a zone are refused."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from slicing.errors import FunctionFailed, InvalidType, InvalidValue
from slicing.spark import lookup, warm
from slicing.windows.assigned import assigned_by
from slicing.windows.window import by_edges, tumbling
from tests.streams import micros

NOON = datetime(2024, 5, 1, 12)
TAKE_INSTANTS = {
    "windows_of": tumbling("1 hour").windows_of,
    "slice_of": tumbling("1 hour").slice_of,
    "windows of a function": lambda given: assigned_by(lambda time: [(given, given)]).of(0),
    "starts": lambda given: by_edges([datetime(2024, 5, 1, tzinfo=UTC), given], [1 << 60, 1 << 61]),
    "ends": lambda given: by_edges((0, 1), iter([given, given])),
    "starts of a lookup": lambda given: lookup._starts((None, given)),
    "until": warm._microseconds,
}


@pytest.mark.parametrize("call", TAKE_INSTANTS.values(), ids=TAKE_INSTANTS)
@pytest.mark.parametrize(
    ("given", "found"),
    [
        (NOON, r"which has no zone. Say its zone: `.replace\(tzinfo=UTC\)`"),
        ("2024-05-01T12:00:00", 'which has no zone. Say its zone: "2024-05-01T12:00:00Z"'),
        ("2024-05-01", "which has no zone"),
        ("noon", 'Write for example "2024-05-01T12:00:00Z"'),
        (date(2024, 5, 1), r"in each zone. Write `datetime\(2024, 5, 1, tzinfo=UTC\)`"),
        (None, "Write for example `datetime"),
        (1.5, "Write for example `datetime"),
        (True, "Write for example `datetime"),
        (timedelta(1), "Write for example `datetime"),
        (np.datetime64("2024-05-01T12"), "Write for example `datetime"),
    ],
    ids=repr,
)
def test_what_is_no_instant_is_refused_everywhere(call, given, found):
    if given is None and call is TAKE_INSTANTS["starts of a lookup"]:
        return  # an open end
    rule = "is a datetime with a zone, ISO text with one, or microseconds since 1970; got "
    with pytest.raises((InvalidType, InvalidValue, FunctionFailed), match=f"{rule}.*{found}"):
        call(given)


@pytest.mark.parametrize("call", TAKE_INSTANTS.values(), ids=TAKE_INSTANTS)
def test_instants_are_taken_everywhere_in_each_form(call):
    zone = ZoneInfo("America/New_York")
    wanted = call(micros(NOON.replace(tzinfo=UTC)))
    for given in (NOON.replace(tzinfo=UTC), NOON.replace(hour=8, tzinfo=zone), "2024-05-01T08:00:00-04:00"):
        assert call(given) == wanted


def test_windows_between_edges_of_a_zone_are_those_of_its_clock():
    """New York is four hours behind UTC in May: read as UTC, windows would be four hours early."""
    zone = ZoneInfo("America/New_York")
    opens, closes = (datetime(2024, 5, 1, *at, tzinfo=zone) for at in ((9, 30), (16, 0)))
    wanted = [(int(opens.timestamp()) * 10**6, int(closes.timestamp()) * 10**6)]
    for starts, ends in (
        ([opens], [closes]),
        ([opens.isoformat()], [closes.isoformat()]),
        *([[s], [e]] for s, e in wanted),
    ):
        assert by_edges(starts, ends).windows_of("2024-05-01T12:00:00-04:00") == wanted
        assert by_edges(starts, ends).windows_of("2024-05-01T12:00:00Z") == []
    assert by_edges(np.array(wanted[0][:1]), np.array(wanted[0][1:])).windows_of(wanted[0][0]) == wanted
