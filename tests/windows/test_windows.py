"""Durations, window values and their messages."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest

from slicing import errors
from slicing.errors import InvalidType, InvalidValue, SlicingError
from slicing.windows.lookback import lookbacks
from slicing.windows.session import session
from slicing.windows.sliding import sliding
from slicing.windows.time.durations import microseconds, show, show_instant
from slicing.windows.window import Hopping, hopping, tumbling

SECOND = 10**6
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("10 minutes", 600 * SECOND),
        ("1 minute", 60 * SECOND),
        ("  1   HOUR  ", HOUR),
        ("1hour", HOUR),
        ("interval 5 seconds", 5 * SECOND),
        ("1 hour 30 minutes", 5400 * SECOND),
        ("1 day -1 hour", 23 * HOUR),
        ("+2 weeks", 14 * 24 * HOUR),
        ("250 milliseconds", 250_000),
        ("7 microseconds", 7),
        ("0 seconds", 0),
        ("1h", HOUR),
        ("1.5 hours", 5400 * SECOND),
        ("2d 12hrs", 60 * HOUR),
        ("10 min", 600 * SECOND),
        ("0.25ms", 250),
        ("-0.5 s", -SECOND // 2),
        ("PT10M", 600 * SECOND),
        ("P1W2DT3H4M5.5S", (9 * 24 + 3) * HOUR + 4 * 60 * SECOND + 5 * SECOND + SECOND // 2),
        ("pt-1h", -HOUR),
        (timedelta(days=-1, microseconds=1), 1 - 24 * HOUR),
        (timedelta(hours=1, microseconds=1), HOUR + 1),
        (timedelta.max, 86_400 * 10**9 * SECOND - 1),
    ],
)
def test_durations_are_exact(duration, expected):
    assert microseconds(duration, "size") == expected


@pytest.mark.parametrize(
    ("duration", "error", "says"),
    [
        (10, InvalidType, 'a duration needs a unit; got 10. Write for example "10 minutes", or pass a timedelta.'),
        (1.5, InvalidType, "a duration needs a unit; got 1.5"),
        (None, InvalidType, "a duration needs a unit; got None"),
        ("10", InvalidValue, "a duration needs a unit; got '10'. Write for example \"10 minutes\"."),
        ("-1.5", InvalidValue, "a duration needs a unit"),
        ("", InvalidValue, 'a duration is empty. Write for example "10 minutes".'),
        ("   ", InvalidValue, "a duration is empty"),
        ("minutes", InvalidValue, "not a duration; got 'minutes'"),
        ("1.5.2 hours", InvalidValue, "not a duration; got '1.5.2 hours'"),
        ("10m", InvalidValue, "`m` may be minutes or months; got '10m'. Write min or month."),
        ("0.0000001 s", InvalidValue, "a duration has whole microseconds; got '0.0000001 s'. Round it."),
        ("P", InvalidValue, "not a duration; got 'P'"),
        ("PT", InvalidValue, "not a duration; got 'PT'"),
        ("P1M", InvalidValue, "no fixed length; got 'P1M'. Use weeks or smaller"),
        ("10 minutes and", InvalidValue, "not a duration; got '10 minutes and'"),
        (
            "5 parsecs",
            InvalidValue,
            "unknown unit `parsecs` in '5 parsecs'. Known are microsecond, millisecond, second",
        ),
        ("5 events", InvalidValue, "minute, hour, day, week. Windows of a number of records are `counting(n)`."),
        ("1 month", InvalidValue, "no fixed length; got '1 month'. Use weeks or smaller"),
        ("2 YEARS", InvalidValue, "no fixed length"),
        ("1 quarter", InvalidValue, "no fixed length"),
    ],
)
def test_what_is_no_duration_is_refused(duration, error, says):
    with pytest.raises(error) as raised:
        microseconds(duration, "advance")
    assert str(raised.value).startswith("`advance`: ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tumbling("0 seconds"), "`size` must be positive; got '0 seconds'."),
        (lambda: hopping("-1 hour", "1 minute"), "`size` must be positive; got '-1 hour'."),
        (lambda: tumbling(timedelta(0)), "`size` must be positive; got datetime.timedelta(0)."),
        (
            lambda: hopping("1 hour", "0 x"),
            "`advance`: unknown unit `x` in '0 x'. Known are microsecond, millisecond, second, minute, hour",
        ),
        (
            lambda: hopping("1 hour", "0 seconds"),
            "`advance` must be positive; got '0 seconds'. For windows that do not overlap use `tumbling(size)`.",
        ),
        (lambda: hopping("1 hour", "-1 minute"), "`advance` must be positive; got '-1 minute'."),
        (
            lambda: hopping("1 hour", "1 minute", offset="90 seconds"),
            "`offset` must be shorter than `advance`, 1 minute; got '90 seconds'. "
            "Edges repeat every `advance`: offset='30 seconds' makes the same windows.",
        ),
        (
            lambda: tumbling("1 hour", offset=timedelta(hours=-1)),
            "`offset` must be shorter than `advance`, 1 hour; got datetime.timedelta(days=-1, seconds=82800). "
            "Edges repeat every `advance`: offset='0 seconds' makes the same windows.",
        ),
        (
            lambda: hopping("1 minute", "1 hour"),
            "`advance` must not be longer than `size`, or records between the windows are in none; "
            "got size='1 minute', advance='1 hour'. If they were swapped, write hopping('1 hour', advance='1 minute'). "
            "If such gaps are meant, add gaps=True.",
        ),
        (
            lambda: hopping(timedelta(minutes=1), timedelta(hours=1), offset="-90 seconds"),
            "`advance` must not be longer than `size`, or records between the windows are in none; got "
            "size=datetime.timedelta(seconds=60), advance=datetime.timedelta(seconds=3600). If they were swapped, "
            "write hopping('1 hour', advance='1 minute', offset='30 seconds'). If such gaps are meant, add gaps=True.",
        ),
        (
            lambda: hopping("1 hour", "2 minutes", tail="5 minutes"),
            "`tail` must be a multiple of `advance`, so that windows begin where others end; got "
            "5 minutes and 2 minutes. Write for example tail='4 minutes'.",
        ),
        (
            lambda: hopping("1 hour", "7 minutes", tail="2 minutes"),
            "`tail` must be a multiple of `advance`, so that windows begin where others end; got "
            "2 minutes and 7 minutes. Write for example tail='7 minutes'.",
        ),
        (
            lambda: hopping("1 minute", "1 hour", tail="30 seconds"),
            "windows with a `tail` overlap: `advance` must not be longer than `size`; got 1 hour and 1 minute. "
            "Take a shorter advance.",
        ),
        (
            lambda: hopping("1 hour", "1 minute", tail="2 hours"),
            "`tail` must not be longer than `size`: windows are up to a tail longer; got 2 hours and 1 hour.",
        ),
        (lambda: hopping("1 hour", "1 minute", tail="0 minutes"), "`tail` must be positive; got '0 minutes'."),
        (
            lambda: hopping("1 hour", "1 minute", tail="10 minutes", gaps=True),
            "windows with a `tail` overlap and have no gaps; got gaps=True. Leave it out.",
        ),
        (
            lambda: hopping("1 hour", "1 minute", offset="2 minutes", tail="10 minutes"),
            "`offset` must be shorter than `advance`, 1 minute; got '2 minutes'.",
        ),
        (lambda: hopping("1 year", "1 day", tail="1 month"), "`size`: months, quarters and years need a zone"),
        (
            lambda: hopping("10 days", "1 hour", tail="1 week", zone="UTC"),
            "`size` and `tail` in a zone are both in days or weeks, or both in months, quarters or years, the first a "
            "multiple of the second; got 10 days and 1 week.",
        ),
        (
            lambda: hopping("2 weeks", "2 days", tail="1 week", zone="UTC"),
            "Every edge of `tail` must be an edge of `advance`; got 1 week and 2 days.",
        ),
        (
            lambda: hopping("2 days", "1 hour", offset="1 minute", tail="1 day", zone="UTC"),
            "Clock units that divide an hour begin with the hour in a zone; got 1 hour from 1 minute on",
        ),
    ],
)
def test_messages_give_rule_value_and_remedy(make, says):
    with pytest.raises(InvalidValue) as raised:
        make()
    assert str(raised.value).startswith(says)


def test_a_bare_offset_is_refused_unless_it_is_zero():
    assert hopping("1 hour", "1 minute", offset=0) == hopping("1 hour", "1 minute", offset="0 seconds")
    with pytest.raises(InvalidType, match="`offset`: a duration needs a unit; got 5"):
        hopping("1 hour", "1 minute", offset=5)
    assert hopping("1 hour", "1 minute", offset="-59 seconds").offset == -59 * SECOND


def test_windows_of_an_instant():
    #   hopping("5 seconds", advance="2 seconds"), in seconds
    #
    #   time     -6  -5  -4  -3  -2  -1   0   1   2   3   4   5
    #            [===================)            x
    #                    [===================)    x
    #                            [===================)
    #                                    [===================)
    window = hopping("5 seconds", advance="2 seconds")
    half = SECOND // 2
    assert window.windows_of(2 * SECOND + half) == [(s * SECOND, (s + 5) * SECOND) for s in (-2, 0, 2)]
    assert window.windows_of(3 * SECOND) == [(0, 5 * SECOND), (2 * SECOND, 7 * SECOND)], "the end is outside"
    assert window.windows_of(-1) == [(s * SECOND, (s + 5) * SECOND) for s in (-4, -2)]
    assert window.slice_of(-1) == (-SECOND, 0)
    assert window.slice_of(-SECOND) == (-SECOND, 0), "the start is inside"


def test_an_instant_in_a_gap_has_a_slice_but_no_window():
    window = hopping("1 minute", advance="1 hour", offset="1 second", gaps=True)
    assert window.windows_of(0) == []
    assert window.slice_of(0) == (61 * SECOND - HOUR, SECOND)
    assert window.windows_of(SECOND) == [(SECOND, 61 * SECOND)]


@pytest.mark.parametrize(
    "instant",
    [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1970, 1, 1, 1, 59, 59, 999_999, timezone(timedelta(hours=2))),
        "1970-01-01T01:59:59.999999+02:00",
        "1969-12-31T23:59:59.999999Z",
        -1,
    ],
)
def test_instants_may_be_datetimes(instant):
    assert tumbling("1 hour").windows_of(instant) == [(-HOUR, 0)]
    assert tumbling("1 hour").slice_of(instant) == (-HOUR, 0)


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (tumbling("60 minutes"), "tumbling('1 hour')"),
        (tumbling("2 days"), "tumbling('2 days')"),
        (hopping("1 hour", "90 seconds"), "hopping('1 hour', advance='90 seconds')"),
        (hopping("7 days", "1 day", offset="-6 hours"), "hopping('1 week', advance='1 day', offset='-6 hours')"),
        (tumbling("1 hour", offset="1 minute"), "hopping('1 hour', advance='1 hour', offset='1 minute')"),
        (hopping("1 hour", "1 minute", gaps=True), "hopping('1 hour', advance='1 minute')"),
        (hopping("1 minute", "1 hour", gaps=True), "hopping('1 minute', advance='1 hour', gaps=True)"),
        (
            hopping("90 days", "1 minute", offset="5 seconds", tail="1 hour"),
            "hopping('90 days', advance='1 minute', tail='1 hour', offset='5 seconds')",
        ),
        (
            hopping("90 days", "1 hour", tail="1 day", zone="Europe/Berlin"),
            "hopping('90 days', advance='1 hour', tail='1 day', zone='Europe/Berlin')",
        ),
        (
            hopping("1 minute", "1 hour", offset="-5 seconds", gaps=True),
            "hopping('1 minute', advance='1 hour', offset='-5 seconds', gaps=True)",
        ),
    ],
)
def test_windows_print_as_they_are_written(window, text):
    assert str(window) == repr(window) == text
    assert eval(text, {"hopping": hopping, "tumbling": tumbling}) == window


@pytest.mark.parametrize(("duration", "text"), [(0, "0 seconds"), (1, "1 microsecond"), (-2000, "-2 milliseconds")])
def test_durations_print_in_their_largest_unit(duration, text):
    assert show(duration) == text


def test_instants_print_as_far_as_datetime_reaches():
    assert show_instant(-1) == "1969-12-31T23:59:59.999999"
    assert show_instant(1 << 62) == f"{1 << 62} us"


def test_windows_are_values():
    assert hopping("1 hour", "1 hour") == tumbling("60 minutes") == Hopping(HOUR, HOUR)
    assert len({hopping("1 hour", "1 hour"), tumbling("60 minutes"), tumbling("1 hour", offset="1 minute")}) == 2
    assert hopping("1 hour", "1 minute", gaps=True) == hopping("1 hour", "1 minute")
    window = hopping("1 hour", "1 minute")
    assert pickle.loads(pickle.dumps(window)) == window
    with pytest.raises(AttributeError):
        window.size = 5


def test_checkpoints_hold_windows_without_gaps_as_before_it_had_to_be_asked_for():
    window = hopping("1 minute", "1 hour", offset="1 second", gaps=True)
    assert window == Hopping(60 * SECOND, HOUR, SECOND)
    assert window.stored == "hopping('1 minute', advance='1 hour', offset='1 second')"
    assert hopping("1 hour", "1 minute").stored == "hopping('1 hour', advance='1 minute')"
    assert tumbling("1 hour").stored == "tumbling('1 hour')"


ERRORS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, SlicingError)]


@pytest.mark.parametrize("error", ERRORS)
def test_errors_cross_process_borders(error):
    found = pickle.loads(pickle.dumps(error("`size` must be positive; got 0.")))
    assert type(found) is error
    assert str(found) == "`size` must be positive; got 0."


def test_errors_are_caught_as_the_builtin_ones():
    with pytest.raises(ValueError, match="positive"):
        tumbling("0 seconds")
    with pytest.raises(TypeError, match="unit"):
        tumbling(5)


@pytest.mark.parametrize("window", [session("1 minute"), sliding("1 minute"), lookbacks("1 minute", {}, False)])
def test_what_time_does_not_decide_has_neither_slices_nor_windows(window):
    for asked in (window.slice_of, window.windows_of):
        with pytest.raises(InvalidValue, match="windows of an instant are those that time decides"):
            asked(0)
    assert window.between(0, HOUR) == []
