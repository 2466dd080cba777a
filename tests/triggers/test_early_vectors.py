"""What Flink tests of its count and continuous triggers, replayed here; `test_vectors.py` says what the files hold.

Flink's watermark is ours minus 1. Its trigger by event time counts intervals from the first element of a window, ours
fire all windows at multiples: so a window fires once more, at the multiple before. No case fires a window twice by
count, so none depends on what a purging trigger purges.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.kinds.sessions import Sessions
from scenarios.scenario import Scenario

from slicing import Trigger, hopping, sliding, tumbling
from slicing.errors import InvalidType, InvalidValue, TooLarge
from slicing.stages import local_runner
from slicing.state import bucket_cache
from slicing.triggers.buffer import buffer
from slicing.triggers.emission import early, on_close
from slicing.triggers.own import own
from slicing.windows.session import session

FOLDER = Path(__file__).parents[1] / "vectors"


def cases(kind):
    """The cases of Flink in a folder, by name."""
    files = sorted((FOLDER / kind).glob("flink.*.json"))
    return {case["name"]: case for file in files for case in json.loads(file.read_text(encoding="utf-8"))["cases"]}


VECTORS = cases("sessions") | cases("counting") | cases("triggers")
CONTINUOUS = cases("triggers").keys()
DAY = 86_400_000


def sessions_fired(window, trigger, batches, grace=0, kinds=("early",)):
    """Rows of some kinds of each micro-batch: (number, key, start, end, sum), in milliseconds, as `grace` is."""
    one = Scenario(Sessions(window), trigger, 1000 * grace, results=("sum",), key="string")
    for number, records, watermark in batches:
        bucket_cache._entries.clear()
        made = [(1000 * r["time"], r["key"], r["value"], 1000 * r.get("gap", 0)) for r in records]
        for (kind, key, _, start, end), (row, _) in one.emit(made, watermark).items():
            if kind in kinds:
                yield number, key, start // 1000, end // 1000, row[1]


def by_record(events):
    return [(number, [event], 0) for number, event in enumerate(events) if "time" in event]


def by_watermark(events):
    waiting, found = [], []
    for number, event in enumerate(events):
        if "time" in event:
            waiting.append(event)
        elif "watermark" in event:
            found.append((number, waiting, event["watermark"] + 1))
            waiting = []
    return found


def wanted(name):
    return sorted((row["event"], row["key"], row["start"], row["end"], row["value"]) for row in VECTORS[name]["rows"])


def test_sessions_that_merge_add_their_counts():
    name, trigger = "flink_session_count_trigger_purging", early(records=4, per="window", final=False)
    window = session("3 seconds", late_by="session")
    assert sorted(sessions_fired(window, trigger, by_record(VECTORS[name]["events"]))) == wanted(name)


def test_a_session_that_takes_in_two_fires_with_its_own_record():
    window = session(gap_column="gap", late_by="session")
    batches = [
        (number, [{"key": "a", "time": start, "gap": end - start, "value": 1}], 0)
        for number, (start, end) in enumerate([(2, 4), (5, 6), (0, 8)])
    ]
    assert list(sessions_fired(window, early(records=3, per="window"), batches)) == [(2, "a", 0, 8, 3)]


def test_sessions_fire_at_multiples_of_event_time():
    name, trigger = "flink_session_continuous_event_time", early(every="2 seconds", by="event")
    window = session("3 seconds", late_by="session")
    assert sorted(sessions_fired(window, trigger, by_watermark(VECTORS[name]["events"]))) == wanted(name)


def fired(size, trigger, batches, content=PARTIALS, grace=0):
    """Rows of each micro-batch: (number, key, start, sum, kind), in milliseconds, as `size` and `grace` are."""
    one = Scenario(Even.of(size, size), trigger, 1000 * grace, content, ("sum",))
    for number, records, watermark in batches:
        bucket_cache._entries.clear()
        made = [(1000 * each["time"], each["key"], each["value"]) for each in records]
        for (kind, key, _, start, _), (row, _) in one.emit(made, watermark).items():
            yield number, key, start // 1000, row[1], kind


def fired_early(*given):
    """The early ones of `fired`."""
    return [row[:-1] for row in fired(*given) if row[-1] == "early"]


def test_each_window_is_counted_for_itself():
    operations = VECTORS["flink_count_trigger_separation"]["ops"]
    batches = [
        (number, [{"key": 1, "time": each["window"][0], "value": 1}], 0) for number, each in enumerate(operations)
    ]
    found = {number for number, *_ in fired_early(2, early(records=3, per="window"), batches)}
    assert found == {number for number, each in enumerate(operations) if each["result"] == "fire"}


def continuous(name, trigger, grace=0):
    """The windows that fire with each operation of a case of the continuous trigger, in milliseconds."""
    batches, watermark = [], 0
    for number, each in enumerate(VECTORS[name]["ops"]):
        watermark = each["time"] + 1 if "time" in each else watermark
        given = [{"key": 1, "time": each["window"][0], "value": 1}] if each["op"] == "element" else []
        batches.append((number, given, watermark))
    found = [[] for _ in batches]
    for number, _, start, *_ in fired(2, trigger, batches, grace=grace):
        found[number].append([start, start + 2])
    return found


def test_a_continuous_trigger_fires_at_the_end_too():
    name, trigger = "flink_continuous_trigger_separation", early(every="1 hour", by="event", repeat=True)
    assert continuous(name, trigger) == [each.get("fired", []) for each in VECTORS[name]["ops"]]


def test_a_late_record_fires_its_window_at_once():
    """Whatever the interval is: what fires at the end fires again, with corrections."""
    name = "flink_continuous_trigger_late_element"
    _, late = VECTORS[name]["ops"]
    assert late["result"] == "fire"
    assert continuous(name, on_close(corrections=True), grace=10) == [[], [late["window"]]]


def test_sessions_that_merge_fire_once_at_a_multiple_of_event_time():
    first, second, merge = VECTORS["flink_continuous_trigger_merge"]["ops"]
    records = [{"key": "a", "time": each["window"][0], "value": 1} for each in (first, second)]
    batches = [(0, records[:1], 0), (1, records[1:], 0), (2, [], 3), (3, [], 4)]
    window, trigger = session("2 milliseconds", late_by="session"), early(every="2 milliseconds", by="event")
    assert list(sessions_fired(window, trigger, batches)) == [(2, "a", *merge["into"], 2)]


def test_a_window_fires_again_without_news_if_it_repeats():
    """A day stands for the global window, which needs no watermark here."""
    case = VECTORS["flink_global_continuous_event_time"]
    numbered = {"key1": 1, "key2": 2}
    batches = [
        (number, [each | {"key": numbered[each["key"]]} for each in records], watermark)
        for number, records, watermark in by_watermark(case["events"])
    ]
    for repeat in (True, False):
        trigger = early(every="3 seconds", by="event", repeat=repeat)
        found = sorted((number, key, total) for number, key, _, total in fired_early(DAY, trigger, batches))
        theirs = [(row["event"], numbered[row["key"]], row["value"]) for row in case["rows"]]
        assert theirs == [(10, 1, 3), (13, 1, 3), (13, 2, 5)]
        assert found == sorted([*theirs, (10, 2, 5)] if repeat else [(10, 1, 3), (10, 2, 5)])


def suppressed(trigger, batches):
    return [(number, key, total) for number, key, _, total, _ in fired(100, trigger, batches)]


def test_a_full_buffer_emits_the_oldest_or_stops():
    """Kafka's `suppressShouldEmitWhenOverRecordCapacity` and `suppressShouldShutDownWhenOverRecordCapacity`."""
    batches = [(0, [{"key": 1, "time": 100, "value": 7}], 0), (1, [{"key": 2, "time": 101, "value": 8}], 1)]
    limited = {"after": "100 days", "by": "event", "final": False}
    one = suppressed(early(**limited, buffer=buffer(records=1)), batches)
    assert one == [(1, 1, 7)]
    # A pair takes 8 bytes for its sum, 8 for its key, and 16 for its window and count: there is room for one.
    size = Scenario(Even.of(100, 100), early(**limited), results=("sum",)).bucket().pair_bytes
    assert suppressed(early(**limited, buffer=buffer(bytes=2 * size - 1)), batches) == one
    assert not suppressed(early(**limited, buffer=buffer(bytes=2 * size)), batches)
    with pytest.raises(
        TooLarge, match=r"2 windows of keys wait in a bucket, and buffer\(.*full='fail'\) has room for 1"
    ):
        suppressed(early(**limited, buffer=buffer(records=1, full="fail")), batches)


def test_a_buffer_says_what_is_wrong_with_it():
    for error, words, call in [
        (InvalidValue, "takes `records`, `bytes`, or both", lambda: buffer()),
        (InvalidType, "`records` must be a whole number; got 1.5", lambda: buffer(records=1.5)),
        (InvalidValue, "`bytes` must be positive; got 0", lambda: buffer(bytes=0)),
        (InvalidValue, "`full` takes emit, fail; got 'drop'", lambda: buffer(records=1, full="drop")),
        (InvalidType, r"`buffer` takes what buffer\(\) returns; got 5", lambda: early(records=3, buffer=5)),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert str(early(records=3, buffer=buffer(records=9, full="fail"))) == (
        "early(records=3, per='window', buffer=buffer(records=9, full='fail'))"
    )


def test_a_buffer_has_room_for_a_window_as_it_is_stored():
    for error, few in [(True, buffer(bytes=99)), (False, buffer(bytes=100)), (False, buffer(records=1))]:
        trigger = early(records=3, buffer=few)
        trigger.check_room(10, keeps_records=False)
        if error:
            with pytest.raises(InvalidValue, match=r"take about 100 bytes; got buffer\(bytes=99\)\. Allow more"):
                trigger.check_room(100, keeps_records=False)
        else:
            trigger.check_room(100, keeps_records=False)
    with pytest.raises(
        InvalidValue, match=r"keep records instead.*got buffer\(records=9, bytes=999\).*records=100_000"
    ):
        early(records=3, buffer=buffer(records=9, bytes=999)).check_room(10, keeps_records=True)
    early(records=3, buffer=buffer(records=9)).check_room(10, keeps_records=True)
    early(records=3).check_room(10, keeps_records=True)


@pytest.mark.parametrize(
    "window",
    [tumbling("1 second"), hopping("3 seconds", "1 second"), session("1 second"), sliding("1 second")],
    ids=str,
)
def test_the_size_of_a_window_is_that_of_what_is_shipped_for_it(window):
    trigger = early(after="1 second")
    run = local_runner._Run(window, trigger, 0)
    assert run.bucket(trigger).pair_bytes == run.execution_plan.shipping.pair_bytes > 8


PURGED = "purging(count(4))"


def test_a_purging_count_drops_what_has_fired_of_sessions_and_of_the_global_window():
    name = "flink_session_count_trigger_purging"
    assert VECTORS[name]["emit"] == PURGED
    trigger = early(records=4, per="window", final=False, purge=True)
    window = session("3 seconds", late_by="session")
    assert sorted(sessions_fired(window, trigger, by_record(VECTORS[name]["events"]))) == wanted(name)
    case = VECTORS["flink_global_count_trigger_purging"]
    keys = {key: number for number, key in enumerate(sorted({each["key"] for each in case["events"] if "key" in each}))}
    batches = [
        (number, [{**each, "key": keys[each["key"]]} for each in some], 0)
        for number, some, _ in by_record(case["events"])
    ]
    # A window that is as long as a stream, which is stored as one partial.
    found = [(number, key, total) for number, key, _, total in fired_early(DAY, trigger, batches, RECORDS)]
    assert sorted(found) == sorted((row["event"], keys[row["key"]], row["value"]) for row in case["rows"])


@dataclass(frozen=True)
class AtEnd(Trigger):
    """Flink's event time trigger, purging: at the end of a window, then at each late record; grace is its lateness."""

    purges = True

    def on_time(self, windows, at):
        return np.where(at.watermark >= windows.end, self.FIRE_AND_PURGE, self.CONTINUE)

    on_records = on_time


@pytest.mark.parametrize("name", ["flink_session_small_lateness_purging", "flink_session_huge_lateness_purging"])
def test_late_records_fire_sessions_that_have_been_purged(name):
    case, watermark, batches = VECTORS[name], 0, []
    for number, event in enumerate(case["events"]):
        watermark = event.get("watermark", watermark - 1) + 1
        batches.append((number, [event] if "time" in event else [], watermark))
    window, lateness = session("3 seconds", late_by="session"), case["window"]["lateness"]
    found = sessions_fired(window, own(AtEnd()), batches, lateness, ("early", "final"))
    assert sorted(found) == wanted(name)


def test_a_window_that_has_been_purged_does_not_fire_when_it_is_forgotten():
    file = json.loads((FOLDER / "flink.WindowOperatorTest.json").read_text(encoding="utf-8"))
    (case,) = (each for each in file["cases"] if each["name"] == "flink_cleanup_tumbling_custom_purging")
    size, lateness = case["window"]["size"], case["window"]["lateness"]
    events = [{**each, "key": 2} for each in case["events"]]
    rows = fired(size, own(AtEnd()), by_watermark(events), RECORDS, lateness)
    found = [(number, start, total) for number, _, start, total, _ in rows]
    assert found == [(row["event"], row["start"], row["value"]) for row in case["rows"]] == [(2, 0, 1)]
