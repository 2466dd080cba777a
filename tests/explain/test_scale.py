"""Predictions: counts and bytes by hand, monotony, what is refused, and how coefficients are fitted and kept."""

import math
from dataclasses import replace

import pytest
from test_plan import plan_of

import combinators as C
from slicing import InvalidType, InvalidValue, hopping, tumbling
from slicing.explain import coefficients as own
from slicing.explain.coefficients import COUNTED, SHIPPED, Coefficients, known, place
from slicing.explain.scale import Limit, load_of
from slicing.options import Options
from slicing.triggers.emission import on_update

HOUR = hopping("1 hour", "1 minute")
SIZE = {"keys": 10_000, "records_per_second": 5000, "cores": 8, "trigger": "60 seconds"}


def made(window=HOUR, **changes):
    return plan_of(window, records=C.count().resolve(()), buckets=64).at(**SIZE | changes, coefficients=SHIPPED)


def test_counts_of_dense_keys_are_those_by_hand():
    """30 records of each key in a minute: every window of every key has one."""
    load = made().load
    assert load.records == 300_000
    assert load.emitted == pytest.approx(10_000, rel=1e-9)
    assert load.entered == pytest.approx(10_000, rel=1e-9)
    assert load.shipped == pytest.approx(8 * 10_000 * (1 - math.exp(-30 / 8)))
    assert load.closes == 1


def test_counts_of_sparse_keys_are_those_by_hand():
    """A million keys, each with a record every 200 seconds."""
    load = made(keys=10**6).load
    assert load.emitted == pytest.approx(10**6 * (1 - math.exp(-3600 / 200)))
    assert load.entered == pytest.approx(10**6 * (1 - math.exp(-60 / 200)))
    assert load.shipped <= load.records


def test_windows_that_close_seldom_are_shared_by_micro_batches():
    often, seldom = made(trigger="60 seconds").load, made(trigger="6 seconds")
    assert seldom.load.emitted == pytest.approx(often.emitted / 10)
    assert seldom.load.closes == pytest.approx(0.1)
    assert seldom.longest_micro_batch > seldom.seconds_per_micro_batch
    assert made().longest_micro_batch == pytest.approx(made().seconds_per_micro_batch)


def test_state_of_dense_keys_is_that_of_the_plan():
    """Those of the window, and those of a micro-batch, which has one slice here."""
    scale = made()
    partials = scale.plan.state_bytes_per_key + scale.plan.row_bytes
    assert scale.state_bytes == pytest.approx(10_000 * partials * SHIPPED.stored, rel=1e-6)
    assert made(keys=10**6).state_bytes < 100 * scale.state_bytes, "slices of sparse keys are empty"


def test_each_bucket_adds_bytes_to_the_checkpoint_in_each_micro_batch():
    rows = made().load.written * made().plan.row_bytes * SHIPPED.stored
    assert made().checkpoint_bytes == pytest.approx(64 * SHIPPED.files + rows)


def test_slices_of_open_windows_are_written_again_in_micro_batches_that_are_longer():
    hour, day = (made(trigger=trigger).load for trigger in ("1 hour", "24 hours"))
    assert hour.written / hour.entered < 1.1
    assert day.written / day.entered == pytest.approx(1 + 1 / 24, rel=0.01)


def test_rows_of_a_bucket_that_do_not_fit_into_memory_take_longer():
    few, many = (made(keys=10**7, records_per_second=10**6, trigger=trigger) for trigger in ("60 seconds", "1 hour"))
    assert few.counts["spilled"] == 0
    assert many.counts["spilled"] == many.load.entered / 8
    more = replace(SHIPPED, spilled=2 * SHIPPED.spilled)
    slower = replace(many, coefficients=more).seconds_per_micro_batch
    assert slower - many.seconds_per_micro_batch == pytest.approx(SHIPPED.spilled * many.load.entered / 8)


def test_a_worker_has_a_chunk_of_records_or_the_partials_of_a_bucket():
    records, partials = (
        made(keys=100, records_per_second=10**6),
        made(keys=10**7, records_per_second=10**6, trigger="1 hour"),
    )
    assert records.worker_bytes == SHIPPED.worker + 130 * 10**6
    row_bytes = partials.plan.row_bytes / 64
    assert partials.worker_bytes == pytest.approx(SHIPPED.worker + row_bytes * 4 * partials.load.entered + (192 << 20))


def test_merged_slices_count_as_such():
    long, tail = hopping("90 days", "1 minute"), hopping("90 days", "1 minute", tail="1 hour")
    assert made(tail).state_bytes < made(long).state_bytes / 30
    assert dict(made(tail).plan.slices_stored)[3600 * 10**6] in (2159, 2160)


@pytest.mark.parametrize("name", ["keys", "records_per_second"])
def test_more_of_it_takes_more(name):
    few, many = made(), made(**{name: 3 * SIZE[name]})
    figures = ("seconds_per_micro_batch", "longest_micro_batch", "state_bytes", "checkpoint_bytes", "worker_bytes")
    for figure in figures:
        assert getattr(many, figure) >= getattr(few, figure) * (1 - 1e-9), figure
    assert many.seconds_per_micro_batch > few.seconds_per_micro_batch


def test_more_cores_take_less_until_each_has_one_bucket():
    seconds = [made(cores=cores).seconds_per_micro_batch for cores in (1, 2, 4, 8, 64)]
    assert seconds == sorted(seconds, reverse=True)
    assert made(cores=1000).busy == 64


def test_it_is_in_seconds_of_its_coefficients():
    alone = replace(SHIPPED, **dict.fromkeys(COUNTED[1:], 0))
    plan = made().plan
    of = {name: plan.at(**SIZE, coefficients=replace(alone, trigger=0, **{name: 1e-6})) for name in COUNTED[1:]}
    assert plan.at(**SIZE, coefficients=alone).seconds_per_micro_batch == SHIPPED.trigger
    assert of["bucket"].seconds_per_micro_batch == pytest.approx(64 / 8 * 1e-6)
    assert of["record"].seconds_per_micro_batch == pytest.approx(0.3 / 8)
    assert of["emitted"].seconds_per_micro_batch == pytest.approx(0.01 / 8)


def lines_of(scale):
    return {line[:19].strip(): line[19:].strip() for line in str(scale).splitlines()}


def test_it_prints_what_was_asked():
    scale = made()
    text, lines = str(scale), lines_of(scale)
    assert lines["keys"] == "10,000"
    assert lines["records a second"] == "5,000"
    assert "of 60.0 s" in text or "of 1.0 min" in text
    assert "1,000,000,000" not in text
    html = scale._repr_html_()
    assert all(cell in html for row in scale.rows for cell in row)
    assert "shipped" in html


def test_a_billion_keys_when_asked():
    large = made().large
    lines = lines_of(large)
    assert (lines["keys"], lines["cores"], lines["buckets"]) == ("1,000,000,000", "1,000", "4,000")
    assert lines["records a second"] == "500,000,000"


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (0.0755, "13 x, memory first"),
        (0.00005, "20,000 x, memory first"),
        (0.4, "2.5 x, memory first"),
        (1.0, "1.0 x, memory first"),
        (1.0009, "none, memory first: 1.00 x of what there is"),
        (2.5, "none, memory first: 2.50 x of what there is"),
    ],
)
def test_headroom_is_in_words(share, says):
    assert Limit("memory", share, "").headroom == says


def test_the_headroom_is_that_of_the_scarcest():
    scale = made()
    assert lines_of(scale)["headroom"] == scale.breaks_first.headroom == "13 x, memory first"
    assert scale.breaks_first.share == max(limit.share for limit in scale.limits)


def test_what_breaks_first_is_the_scarcest_and_has_a_remedy():
    slow = made(trigger="1 second", records_per_second=10**8, cores=1)
    assert slow.breaks_first.name == "time"
    assert slow.breaks_first.share == max(limit.share for limit in slow.limits) > 1
    assert "too large for 1 cores: time. Add cores" in str(slow)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"keys": 0}, InvalidValue, "`keys` must be a positive integer; got 0."),
        ({"keys": 1.5}, InvalidValue, "`keys` must be a positive integer; got 1.5."),
        ({"cores": True}, InvalidValue, "`cores` must be a positive integer; got True."),
        ({"records_per_second": "5"}, InvalidType, "`records_per_second` must be a number; got '5'."),
        ({"records_per_second": 0}, InvalidValue, "`records_per_second` must be positive and finite; got 0."),
        ({"records_per_second": math.inf}, InvalidValue, "`records_per_second` must be positive and finite; got inf."),
        ({"trigger": "0 seconds"}, InvalidValue, "`trigger` must be positive; got '0 seconds'."),
        ({"trigger": "5"}, InvalidValue, "a duration needs a unit"),
    ],
)
def test_sizes_that_are_none_are_refused(changes, error, says):
    with pytest.raises(error) as raised:
        made(**changes)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (
            {"executors": 4},
            "(keys=..., records_per_second=..., cores=..., trigger=...)`, with the cores of all executors",
        ),
        ({"keys": 9, "core": 4}, "(keys=9, records_per_second=..., cores=4, trigger=...)`"),
        ({}, "(keys=..., records_per_second=..., cores=..., trigger=...)`"),
    ],
)
def test_the_message_writes_the_prediction_that_was_meant(given, meant):
    with pytest.raises(InvalidType) as raised:
        plan_of(records=C.count().resolve(())).at(**given)
    assert f"Write `at{meant}" in str(raised.value)
    assert "self" not in str(raised.value)


@pytest.mark.parametrize(
    "plan",
    [
        plan_of(records=C.count().resolve(()), streaming=False),
        replace(plan_of(records=C.count().resolve(())), options=Options(trigger=on_update())),
        plan_of(records=C.count().resolve(()), trees=("eager",)),
    ],
)
def test_plans_that_are_not_predicted_say_so(plan):
    with pytest.raises(InvalidValue, match="a plan is predicted for a stream of windows that time decides"):
        plan.at(**SIZE)


def test_a_fit_finds_the_coefficients_that_made_the_seconds():
    true = {"trigger": 0.2, "bucket": 0.01, "record": 2e-7, "partial": 0.0, "node": 3e-6, "emitted": 4e-6}
    rows = [(0, 1e3, 1e2, 5, 10), (8, 1e6, 1e4, 30, 5e3), (8, 1e5, 9e4, 1e5, 4e4), (2, 2e5, 1e4, 7, 2e5)]
    rows += [(4, 5e5, 5e5, 3e4, 10), (1, 10, 2e4, 2e5, 3e3), (6, 3e5, 1e3, 4e4, 8e4)]
    counts = [dict(zip(COUNTED, (1, *row), strict=True)) for row in rows]
    seconds = [sum(true[name] * each[name] for name in COUNTED) for each in counts]
    found = SHIPPED.fitted(counts, seconds)
    assert {name: getattr(found, name) for name in COUNTED} == pytest.approx(true, rel=1e-6, abs=1e-12)
    with pytest.raises(InvalidValue, match="6 coefficients need as many micro-batches; got 3"):
        SHIPPED.fitted(counts[:3], seconds[:3])


def test_coefficients_of_the_machine_take_precedence(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known() == SHIPPED
    mine = replace(SHIPPED, trigger=1.5, machine="mine")
    mine.save(place())
    assert known() == mine == Coefficients.load(own.place())
    place().write_text('{"trigger": 1}')
    with pytest.raises(
        InvalidValue, match=r"cannot be read: KeyError\. Measure again with `python -m slicing.calibrate`"
    ):
        known()


def test_a_load_without_a_tumbling_overlap_has_one_window_a_record():
    plan = plan_of(tumbling("1 minute"), records=C.count().resolve(()))
    load = load_of(plan.shape.family, plan.per_window, 100, 1000.0, 2, 600.0)
    assert load.closes == pytest.approx(10)
    assert load.emitted == pytest.approx(1000)
