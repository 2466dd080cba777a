"""Texts of stored specs: the call that makes the windows again, and edges in words."""

import json

import pytest

import slicing
from slicing import (
    by_edges,
    counting,
    cumulating,
    hopping,
    session,
    sliding,
    tumbling,
    unbounded,
)
from slicing.windows.families.several import several
from slicing.windows.specs import cut_text, edges_text, from_spec, short, windows_text

CALLS = [
    tumbling("1 hour"),
    tumbling("1 hour", offset="-1 minute"),
    hopping("1 hour", "1 minute", offset="5 s"),
    hopping("1 minute", "1 hour", gaps=True),
    hopping("90 days", "1 minute", tail="1 hour"),
    hopping("90 minutes", "1 minute", offset="5 s", tail="1 hour"),
    hopping("7 days", "1 minute", tail="1 day", zone="Europe/Berlin"),
    hopping("7 days", "1 day", zone="Europe/Berlin"),
    hopping("1 year", "1 quarter", zone="UTC"),
    tumbling("1 month", zone="Europe/Berlin"),
    tumbling("1 hour", closed="right"),
    hopping("1 minute", "1 hour", offset="5 s", gaps=True, closed="right"),
    hopping("7 days", "1 day", zone="Europe/Berlin", closed="right"),
    hopping("90 days", "1 minute", tail="1 hour", closed="right"),
    cumulating("1 month", "1 day", zone="Asia/Tokyo", closed="right"),
    tumbling("15 minutes", zone="US/Central"),
    tumbling("2 weeks", zone="UTC"),
    cumulating("1 day", "1 hour", offset="30 minutes"),
    cumulating("1 month", "1 day", zone="Asia/Tokyo"),
    session("5 minutes"),
    session("5 minutes", unit="1 ms"),
    session(gap_column="gap"),
    session("5 minutes", longest="2 hours"),
    sliding("1 month", right=False, zone="Europe/Berlin"),
    sliding("7 days", right=False, closed="left", zone="UTC"),
    sliding("1 hour"),
    sliding("1 hour", right=False),
    counting(100, 10),
    counting(5),
    unbounded(),
]
NAMES = {name: getattr(slicing, name) for name in slicing.__all__}


def stored(window):
    """The spec as a header has it."""
    return json.loads(json.dumps(short(window.family.spec())))


@pytest.mark.parametrize("window", CALLS, ids=repr)
def test_the_text_is_the_call_that_makes_the_windows(window):
    assert stored(eval(windows_text(stored(window)), NAMES)) == stored(window)


def test_windows_back_are_made_again_from_their_spec():
    made = sliding("1 quarter", right=False, closed="none", zone="Europe/Berlin").family
    spec = json.loads(json.dumps(made.spec()))
    assert spec == ["sliding back", ["local", "month", 3, "Europe/Berlin", made.zone.digest], "none"]
    assert from_spec(spec) == from_spec(spec, zones=[made.zone]) == made


@pytest.mark.parametrize("made", [session("1 minute"), session("1 minute", longest="1 hour")])
def test_sessions_are_made_again_from_their_spec(made):
    """Without a greatest length it is that of checkpoints from before there was one."""
    spec = json.loads(json.dumps(made.family.spec()))
    assert from_spec(spec) == made.family
    assert spec == ["session", 60_000_000, None, 0, *([3_600_000_000] if made.longest else [])]


@pytest.mark.parametrize("window", [CALLS[0], CALLS[2], CALLS[4], CALLS[7], CALLS[9], CALLS[12]], ids=repr)
def test_the_text_is_what_the_user_wrote(window):
    assert windows_text(stored(window)) == repr(window).replace("'5 s'", "'5 seconds'")


def test_windows_that_no_call_tells_are_named_by_their_kind():
    assert windows_text(stored(by_edges([0, 5], [3, 9]))) == "by_edges(2 instants, 2 instants)"
    assert windows_text(stored(by_edges(range(1000), range(1, 1001)))) == "by_edges(...)"
    assert windows_text(["mine", 3]) == "mine(...)"
    both = several([tumbling("1 hour").family, tumbling("1 month", zone="UTC").family])
    assert windows_text(both.spec()) == "tumbling('1 hour'), tumbling('1 month', zone='UTC')"


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (tumbling("1 hour", offset="5 s"), "every 1 hour from 5 seconds on"),
        (hopping("3 minutes", "2 minutes"), "every 2 minutes from 1 minute on, and every 2 minutes"),
        (tumbling("1 week", zone="Europe/Berlin"), "every 1 week in Europe/Berlin"),
        (by_edges([0], [3]), "at 1 instants, and at 1 instants"),
        (by_edges(range(1000), range(1, 1001)), "a long list of edges"),
    ],
)
def test_cuts_are_in_words(window, text):
    assert cut_text(short(window.family.cut.spec())) == text
    assert edges_text(["mine", 3]) == "at instants of mine"
