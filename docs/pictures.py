"""Draw the pictures of README and docs with `slicing.draw`: `python -m docs.pictures` writes docs/pictures.

A test fails if a stored picture differs from what is drawn now.
"""

from datetime import UTC, datetime
from pathlib import Path

from docs.as_of import as_of
from docs.chart import chart
from docs.kinds import kinds
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
from slicing.windows.sets import windows_of_call

FOLDER = Path(__file__).resolve().parent / "pictures"
HOP = hopping("10 minutes", advance="5 minutes")
EVENTS = [["12:00:05", "12:07", "12:09"], ["12:04", "12:16"], ["12:06", "12:30"], ["12:08", "12:01"]]
"""The event times of the quickstart's stream, file by file."""
BOB, MOVED = [["12:07"], ["12:04"], ["12:06"], ["12:08", "12:01"]], [None, "12:07", "12:14", "12:28"]
"""The event times of bob, and the watermark, which the records of all users advance."""
OPENS, CLOSES = [(25, 14, 30), (27, 14, 30), (30, 14, 30)], [(25, 21), (27, 18), (30, 21)]
"""Opening and closing times of the New York Stock Exchange around Thanksgiving, in UTC."""
CLOCK = ["12:00:02", "12:00:07", "12:00:12", "12:00:17", "12:00:23"]
SLIDE = sliding("10 minutes", unit="1 minute")
LATE = [["12:20"], [], ["12:06", "12:13"]], [None, "12:15", "12:15"]
"""Records for the two rules of lateness of sessions, and the watermark."""


def several(*given, **named):
    """Several windows of one call."""
    return windows_of_call(given, named, False)


def drawn():
    """All pictures, by name."""
    return {
        "as_of": as_of(
            several(
                half=hopping("30 minutes", advance="10 minutes"),
                hours=hopping("4 hours", advance="10 minutes", tail="1 hour"),
            ),
            datetime(2024, 5, 1, 14, 47, tzinfo=UTC),
        ),
        "faster": chart(),
        "kinds": kinds(),
        "overview": draw(
            hopping("30 minutes", advance="10 minutes"),
            [["12:05", "12:19"], ["12:28"], ["12:09", "12:52"]],
            "5 minutes",
        ),
        "idea": draw(
            hopping("15 minutes", advance="5 minutes"), ["12:01", "12:03", "12:06", "12:08", "12:12", "12:17"]
        ),
        "slices": draw(HOP, ["12:03"]),
        "uneven": draw(hopping("5 minutes", advance="2 minutes")),
        "gaps": draw(hopping("2 minutes", advance="5 minutes", gaps=True), ["00:01", "00:03", "00:06", "00:09"]),
        "closing": draw(HOP, EVENTS, "2 minutes"),
        "grace": draw(
            tumbling("10 minutes"), [["12:07"], ["12:13"], ["12:08", "12:15"]], "0 minutes", grace="3 minutes"
        ),
        "on_close": draw(HOP, BOB, MOVED),
        "corrections": draw(HOP, BOB, MOVED, emit=on_close(corrections=True), grace="10 minutes"),
        "on_update": draw(HOP, BOB, MOVED, emit=on_update()),
        "latest_only": draw(HOP, BOB, MOVED, emit=on_update(latest_only=True)),
        "on_change": draw(
            hopping("20 minutes", advance="5 minutes"), [["12:01", "12:16"]], [None, "13:00"], emit=on_change()
        ),
        "drained": draw(HOP, BOB, MOVED, emit=on_change(drained=True)),
        "early": draw(HOP, BOB, MOVED, emit=early(records=2)),
        "early_first": draw(
            tumbling("10 minutes"),
            [["12:01", "12:02"], ["12:03"], ["12:04"], [], [], ["12:06", "12:07", "12:08", "12:09"]],
            [None] * 6,
            emit=early(records=3, after="30 seconds"),
            clock=["12:04:00", "12:04:10", "12:04:20", "12:04:40", "12:04:50", "12:10:00"],
        ),
        "early_event": draw(
            tumbling("1 hour"),
            [["12:04"], ["12:09"], ["12:14"], ["12:16"], ["12:31"], ["12:33"]],
            "2 minutes",
            emit=early(every="10 minutes", by="event"),
        ),
        "idle": draw(tumbling("10 minutes"), [["12:16"], ["12:30"]], "2 minutes"),
        "tumbling": draw(tumbling("10 minutes")),
        "hopping": draw(HOP),
        "cumulating": draw(cumulating("15 minutes", step="5 minutes")),
        "zone": draw(
            tumbling("1 day", zone="Europe/Berlin"), ["2026-03-28 12:00", "2026-03-29 12:00", "2026-03-30 12:00"]
        ),
        "edges": draw(
            by_edges(
                [datetime(2026, 11, *at, tzinfo=UTC) for at in OPENS],
                [datetime(2026, 11, *at, tzinfo=UTC) for at in CLOSES],
            ),
            ["2026-11-25 15:00", "2026-11-27 02:00", "2026-11-27 15:00", "2026-11-30 20:00"],
        ),
        "several": draw(several(HOP, tumbling("20 minutes")), EVENTS, "2 minutes"),
        "side_by_side": draw(
            several(short=tumbling("5 minutes"), half=hopping("30 minutes", advance="5 minutes")),
            [["12:07"], ["12:16"]],
            "1 minute",
        ),
        "unbounded": draw(unbounded(), BOB, MOVED, emit=on_update()),
        "clock": draw(
            tumbling("10 seconds"), [["12:00"] * n for n in (3, 1, 2, 4, 1)], time=processing_time(), clock=CLOCK
        ),
        "sessions": draw(session("10 minutes"), ["12:00", "12:08", "12:18", "12:35"]),
        "counting": draw(
            counting(4, advance=2),
            [["12:00", "12:02", "12:03"], ["12:07"], ["12:08", "12:11", "12:15"], ["12:19"]],
            [None] * 4,
        ),
        "late_by_record": draw(session("8 minutes"), *LATE),
        "late_by_session": draw(session("8 minutes", late_by="session"), *LATE),
        "sliding": draw(SLIDE, ["12:00", "12:08", "12:18", "12:25"]),
        "sliding_left": draw(sliding("10 minutes", unit="1 minute", right=False), ["12:00", "12:08", "12:18", "12:25"]),
        "sliding_late": draw(SLIDE, [["12:14"], ["12:30"], ["12:31"], ["12:13", "12:16"]], "8 minutes"),
        "merged": draw(
            session("10 seconds"), [["12:00:00"], ["12:00:25"], ["12:00:08"], ["12:00:17"]], "1 hour", emit=on_update()
        ),
    }


def main():
    """Write all pictures, and remove files without a picture."""
    FOLDER.mkdir(exist_ok=True)
    pictures = drawn()
    for path in FOLDER.glob("*.svg"):
        if path.stem not in pictures:
            path.unlink()
    for name, picture in pictures.items():
        (FOLDER / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
