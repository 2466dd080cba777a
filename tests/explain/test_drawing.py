"""Pictures: what they show, read back from their `data-` attributes, is what windows and engines say by other ways."""

import random
import re
import xml.etree.ElementTree as ET
from collections import defaultdict

import pytest

from slicing import (
    by_edges,
    counting,
    cumulating,
    draw,
    early,
    hopping,
    on_change,
    on_close,
    on_update,
    processing_time,
    session,
    sliding,
    tumbling,
    unbounded,
)
from slicing.drawing.clock import MINUTE, Clock, ticks
from slicing.drawing.svg import COLOURS, element, svg
from slicing.drawing.timeline import Bar, Row, Timeline
from slicing.errors import InvalidType, InvalidValue
from slicing.stages.local_runner import bounded, stream
from slicing.windows.sets import windows_of_call

HOP = hopping("10 minutes", advance="5 minutes")
BATCHES = [["12:00:05", "12:07", "12:09"], ["12:04", "12:16"], ["12:06", "12:30"], ["12:08", "12:01"]]
NOON = 720


def of_call(*given, **named):
    return windows_of_call(given, named, False)


KINDS = {
    "tumbling": tumbling("10 minutes"),
    "hopping": HOP,
    "two slices an advance": hopping("5 minutes", advance="2 minutes", offset="1 minute"),
    "gaps": hopping("2 minutes", advance="5 minutes", gaps=True),
    "cumulating": cumulating("15 minutes", step="5 minutes"),
    "zone": tumbling("1 day", zone="Europe/Berlin"),
    "edges": by_edges([0, 25 * MINUTE, 40 * MINUTE], [20 * MINUTE, 35 * MINUTE, 90 * MINUTE]),
    "several": of_call(HOP, tumbling("20 minutes")),
    "side by side": of_call(short=tumbling("5 minutes"), half=hopping("30 minutes", advance="5 minutes")),
    "side by side, not by length": of_call(
        middle=hopping("10 minutes", advance="5 minutes"),
        long=hopping("15 minutes", advance="5 minutes"),
        short=tumbling("5 minutes"),
    ),
}


def read(picture, name, tag="*"):
    """The shapes with a data attribute: its value, then their other ones."""
    return [each.attrib for each in ET.fromstring(picture).iter() if f"data-{name}" in each.attrib]


def pairs(picture, name):
    return [tuple(map(int, each[f"data-{name}"].split())) for each in read(picture, name)]


def rows(picture):
    """What went out: window, micro-batch, records, emission."""
    return [
        (tuple(map(int, each["data-out"].split())), each["data-batch"], each["data-records"], each["data-emission"])
        for each in read(picture, "out")
    ]


def minutes(found):
    return [((start // MINUTE - NOON, end // MINUTE - NOON), *more) for (start, end), *more in found]


@pytest.mark.parametrize("name", KINDS)
def test_a_picture_of_windows_has_their_intervals_and_slices(name):
    window = KINDS[name]
    shown, cut = pairs(window._repr_svg_(), "window"), pairs(window._repr_svg_(), "slice")
    assert shown
    for start, end in shown:
        assert (start, end) in window.windows_of(start)
        assert (start, end) in window.windows_of(end - 1)
        assert (start, end) not in window.windows_of(end)
    assert cut == [window.slice_of(start) for start, _ in cut]
    assert {edge for each in shown for edge in each} <= {edge for each in cut for edge in each}


@pytest.mark.parametrize("name", KINDS)
def test_bounded_input_goes_out_as_its_windows_hold_it(name):
    rng = random.Random(name)
    window, times = KINDS[name], [rng.randrange(24 * MINUTE) for _ in range(30)]
    held = defaultdict(int)
    for time in times:
        for each in window.windows_of(time):
            held[each] += 1
    picture = draw(window, times)
    got = defaultdict(int)
    for each, batch, records, emission in rows(picture):
        assert (batch, emission) == ("", "final")
        got[each] += int(records)
    assert got == held
    fates = sorted((int(each["data-time"]), each["data-fate"]) for each in read(picture, "fate"))
    assert fates == sorted((time, "taken" if window.windows_of(time) else "lost") for time in times)


@pytest.mark.parametrize("names", [["long", "short"], ["short", "long"], ["long", "short", "middle"]], ids=" ".join)
def test_aligned_windows_have_their_own_names(names):
    sizes = {"short": 2, "middle": 3, "long": 4}
    window = of_call(**{name: hopping(f"{sizes[name]} seconds", advance="1 second") for name in names})
    wanted = sorted((at, *each) for at, part in enumerate(window.parts) for each in part.windows_of(10**7))
    for replay in (bounded(window, [10**7]), stream(window, [[10**7], [3 * 10**7], []], 0)):
        assert sorted((row.part, row.start, row.end) for row in replay.rows if row.start <= 10**7) == wanted


def test_a_stream_is_that_of_the_quickstart():
    """The figures of the page on emission, which Spark prints there; the records here are those of bob and of ada."""
    picture = draw(HOP, BATCHES, watermark="2 minutes")
    assert minutes(rows(picture)) == [
        ((-5, 5), "1", "2", "final"),
        ((0, 10), "2", "5", "final"),
        ((5, 15), "3", "4", "final"),
        ((10, 20), "3", "1", "final"),
        ((15, 25), "3", "1", "final"),
    ]
    assert [int(each["data-watermark"]) // MINUTE - NOON for each in read(picture, "watermark")] == [7, 14, 28]
    late = [(each["data-batch"], each["data-fate"]) for each in read(picture, "fate") if each["data-fate"] != "taken"]
    assert late == [("3", "late"), ("3", "partly")]
    looks = {pair: each["class"] for pair, each in zip(pairs(picture, "window"), read(picture, "window"), strict=True)}
    assert list(looks.values()) == ["window"] * 5 + ["empty", "open", "open"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["hopping", "gaps", "cumulating", "several"])
def test_random_streams_go_out_by_the_rule(name, seed):
    """Windows tried one by one: a record counts while `end + grace > W(b - 1)`, and a window goes out at its W."""
    rng, window, grace, delay = random.Random(seed), KINDS[name], 3 * MINUTE, 4 * MINUTE
    batches = [[(b * 4 + rng.randrange(-12, 5)) * MINUTE + 1 for _ in range(rng.randrange(4))] for b in range(9)]
    held, out, fates, watermark, greatest = defaultdict(int), {}, [], 0, None
    known = [(part, each) for part in window.parts for each in part.between(-(10**9), 10**10)]
    for number, batch in enumerate([*batches, []]):
        for time in batch:
            mine = [(part, each) for part, each in known if each[0] <= time < each[1]]
            takes = [w for w in mine if w[1][1] + grace > watermark]
            for each in takes:
                held[each] += 1
            fates.append((time, "lost" if not mine else "taken" if takes == mine else "partly" if takes else "late"))
        watermark = max(0, greatest - delay) if greatest is not None else 0
        for each in held:
            if each[1][1] + grace <= watermark:
                out.setdefault(each, (str(number), str(held[each]), "final"))
        greatest = max([*batch, *([] if greatest is None else [greatest])], default=None)
    picture = draw(window, batches, watermark="4 minutes", grace="3 minutes")
    assert sorted(rows(picture)) == sorted((each, *row) for (_, each), row in out.items())
    got = sorted((int(each["data-time"]), each["data-fate"]) for each in read(picture, "fate"))
    assert got == sorted(fates)


@pytest.mark.parametrize(
    ("emit", "grace", "expected"),
    [
        (on_update(), 0, [((0, 10), "0", "3", "update"), ((0, 10), "1", "4", "update"), ((0, 10), "2", "5", "update")]),
        (on_close(corrections=True), 10, [((0, 10), "2", "5", "final"), ((0, 10), "3", "7", "correction")]),
        (
            early(records=2),
            0,
            [((0, 10), "0", "3", "early"), ((0, 10), "1", "4", "early"), ((0, 10), "2", "5", "final")],
        ),
        (on_change(), 0, [((0, 10), "2", "5", "final")]),
    ],
    ids=str,
)
def test_emissions(emit, grace, expected):
    picture = draw(HOP, BATCHES, watermark="2 minutes", emit=emit, grace=f"{grace} minutes")
    assert [row for row in minutes(rows(picture)) if row[0] == (0, 10)] == expected


def test_sessions_and_what_never_closes():
    picture = draw(session("10 minutes"), [["12:00"], ["12:25"], ["12:08"], ["12:17"]], "1 hour", emit=on_update())
    assert minutes(rows(picture)) == [
        ((0, 10), "0", "1", "update"),
        ((0, 10), "2", "0", "merged"),
        ((0, 18), "2", "2", "update"),
        ((0, 18), "3", "0", "merged"),
        ((0, 35), "3", "4", "update"),
        ((25, 35), "1", "1", "update"),
        ((25, 35), "3", "0", "merged"),
    ]
    late = draw(session("5 minutes"), BATCHES, "2 minutes")
    assert {each["data-fate"] for each in read(late, "fate") if each["data-batch"] == "3"} == {"late"}
    assert session("5 minutes")._repr_svg_() is None
    counted = draw(counting(2), [["12:00", "12:08"], ["12:03", "12:25"], ["12:30"]], "2 minutes")
    assert minutes(rows(counted)) == [((0, 8), "0", "2", "final"), ((3, 25), "1", "2", "final")]
    ordered = draw(counting(3, 2, order_by="ts"), ["12:25", "12:00", "12:08", "12:03"])
    assert [row[0] for row in minutes(rows(ordered))] == [(0, 3), (3, 25)]
    assert counting(2)._repr_svg_() is None
    near = draw(
        sliding("10 minutes", unit="1 minute"), [["12:14"], ["12:30"], ["12:31"], ["12:13", "12:16"]], "8 minutes"
    )
    assert minutes(rows(near)) == [((4, 15), "2", "1", "final")]
    assert [each["data-fate"] for each in read(near, "fate")][-2:] == ["late", "partly"]
    assert sliding("10 minutes")._repr_svg_() is None
    totals = draw(unbounded(), BATCHES, emit=on_update())  # no watermark is needed, nor shown
    assert "watermark" not in totals
    assert [each["data-records"] for each in read(totals, "out")] == ["3", "5", "7", "9"]
    with pytest.raises(InvalidValue, match="no windows without records"):
        draw(unbounded())


def test_a_watermark_that_other_keys_move():
    """The rows that the page on emission prints for bob."""
    bob, moved = [["12:07"], ["12:04"], ["12:06"], ["12:08", "12:01"]], [None, "12:07", "12:14", "12:28"]
    picture = draw(HOP, bob, moved)
    assert minutes(rows(picture)) == [
        ((-5, 5), "1", "1", "final"),
        ((0, 10), "2", "3", "final"),
        ((5, 15), "3", "3", "final"),
    ]


def test_windows_by_the_clock():
    clock = ["12:00:02", "12:00:07", "12:00:12", "12:00:17", "12:00:23"]
    came = [["12:00"] * count for count in (3, 1, 2, 4, 1)]
    picture = draw(tumbling("10 seconds"), came, time=processing_time(), clock=clock)
    assert [(each["data-batch"], each["data-records"]) for each in read(picture, "out")] == [("2", "4"), ("4", "6")]
    looks = draw(HOP, BATCHES, "2 minutes", emit=early(every="10 seconds"), clock=clock)
    assert "early" in {emission for *_, emission in rows(looks)}


def test_pictures_are_well_formed_and_stand_alone():
    hostile = Timeline(
        '<script>&"</script>',
        (Row("<b>", '"&', (Bar(0, 10 * MINUTE, "window", "]]>", {"x": '"><script>'}),)),),
        0,
        10 * MINUTE,
    )
    text = svg(hostile)
    root = ET.fromstring(text)
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    assert element("a", data={"b": '<">'}) == '<a data-b="&lt;&quot;&gt;"/>'
    for window in KINDS.values():
        drawn = window._repr_svg_()
        assert draw(window) == drawn == draw(window)._repr_svg_(), "the same picture each time"
        assert repr(draw(window)) == f"<{len(drawn):,} characters of SVG>"
        assert not re.search(r"url\(|href|@import|<script", drawn)
        assert set(re.findall(r"var\(--(\w+)\)", drawn)) <= COLOURS.keys()
        assert "prefers-color-scheme:dark" in drawn


def boxes(picture):
    """Texts as boxes (left, right, base line), with the width that the widest font gives them."""
    for each in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        wide = len(each.text) * (11 if "soft" in each.get("class", "") else 12) * 0.6
        x = float(each.get("x")) - wide * {"middle": 0.5, "end": 1}.get(each.get("text-anchor"), 0)
        yield x, x + wide, float(each.get("y")), each.text


@pytest.mark.parametrize("case", [*KINDS, "stream", "sessions", "updates", "many"])
def test_labels_do_not_overlap(case):
    picture = {
        "stream": lambda: draw(KINDS["several"], BATCHES, "2 minutes"),
        "sessions": lambda: draw(session("10 seconds"), BATCHES, "2 minutes"),
        "updates": lambda: draw(HOP, [["12:00"] * 1200, ["12:01"]] * 5, "1 minute", emit=on_update()),
        "many": lambda: draw(hopping("1 hour", advance="1 minute"), BATCHES, "2 minutes"),
    }.get(case, lambda: KINDS[case]._repr_svg_())()
    found, width = sorted(boxes(picture)), float(ET.fromstring(picture).get("width"))
    for i, (left, right, y, text) in enumerate(found):
        assert left >= 0, text
        assert right <= width, text
        for other_left, _, other_y, other in found[i + 1 :]:
            assert other_left >= right or abs(other_y - y) >= 11, (text, other)


def test_ticks_and_their_texts():
    hour = [minute * MINUTE for minute in range(0, 61, 5)]
    assert ticks(0, 60 * MINUTE, hour, 5 * MINUTE) == hour
    assert ticks(0, 60 * MINUTE, hour, 8 * MINUTE) == hour[::2]
    assert ticks(0, 60 * MINUTE, (), 8 * MINUTE) == hour[::2]
    days = [86_400 * 10**6 * day for day in (0, 1, 2)]
    assert [Clock(days).text(each) for each in days] == ["1 Jan", "2 Jan", "3 Jan"]
    assert Clock([0, 90 * MINUTE]).text(90 * MINUTE) == "01:30"
    assert [Clock([0, 1500]).text(each) for each in (0, 1500, 2000)] == ["00:00", "00:00:00.001500", "00:00:00.002"]
    assert [Clock([0, 10**6]).tick(each, None) for each in (0, 10**6)] == ["00:00:00", "00:00:01"]
    assert Clock([0], "Europe/Berlin").text(0) == "01:00"
    assert Clock([0, days[1] + MINUTE]).text(days[1]) == "2 Jan 00:00"


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (("1 hour",), InvalidType, "`windows` must be made with"),
        ((HOP, "12:00"), InvalidType, "a list of times"),
        ((HOP, ["12:00", ["12:01"]]), InvalidType, "got both"),
        ((HOP, ["noon"]), InvalidValue, 'such as "2024-05-01 12:03" or "12:03"'),
        ((HOP, [1.5]), InvalidType, "a time is a datetime"),
        ((HOP, [["12:00"], ["12:01"]]), InvalidValue, 'watermark="2 minutes"'),
        ((session(gap_column="gap"), ["12:00"]), InvalidValue, "times alone here, without gaps"),
        ((unbounded(), [["12:00"], ["12:01"]]), InvalidValue, "waits for windows to close"),
    ],
)
def test_bad_input_is_told(arguments, error, said):
    with pytest.raises(error, match=said):
        draw(*arguments)
    with pytest.raises(InvalidValue, match="compares a window with the one before"):
        draw(sliding("10 minutes"), [["12:00"], ["12:05"]], "2 minutes", emit=on_change())
    with pytest.raises(InvalidValue, match="the time of each trigger"):
        draw(HOP, ["12:00"], time=processing_time())
