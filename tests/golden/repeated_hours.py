"""State in which only the earlier instant of a repeated hour is an edge: a golden file, and the queries that go on.

The code of e5fa6a9, the last that numbered edges so, wrote `repeated_hours.json.xz` with this file::

    PYTHONPATH=<e5fa6a9>:$PWD/tests python tests/golden/repeated_hours.py

It has for each query its micro-batches (records, watermark in milliseconds), and the header and pages after `SEEN` of
them. It is not written again.
"""

import json
import lzma
import random
from datetime import datetime
from pathlib import Path

from scenarios.kind import PARTIALS, RECORDS, Kind
from scenarios.scenario import Scenario

from slicing.state.format.fingerprint import fingerprint_of
from slicing.triggers.emission import on_close, on_update
from slicing.windows.families.by_edges import ByEdges
from slicing.windows.families.even import Even
from slicing.windows.families.several import several
from slicing.windows.families.timed import calendar_cumulating, calendar_hopping, calendar_tailed
from slicing.windows.time.edges import Listed
from slicing.windows.time.zones import Zone
from slicing.windows.window import Timed

FILE = Path(__file__).parent / "repeated_hours.json.xz"
SEEN, MINUTE = 6, 60 * 10**6
HOUR = 60 * MINUTE
_changes = (1_743_296_400, 1_761_440_400, 1_774_746_000, 1_792_890_000, 1_806_195_600, 1_824_944_400, 1_837_645_200)
BERLIN = Zone("Europe/Berlin", _changes, (3600, 7200, 3600, 7200, 3600, 7200, 3600, 7200))
"""Written out, as time zone data may change."""


def at(text):
    """Microseconds since 1970 of a time in UTC."""
    return int(datetime.fromisoformat(f"{text}Z").timestamp()) * 10**6


WINTER = at("2026-12-10T09:00")
QUARTERS = calendar_hopping(("minute", 15), ("minute", 15), BERLIN)
HOURS = calendar_hopping(("hour", 1), ("hour", 1), BERLIN)
LIST = [WINTER + number * 5 * HOUR for number in range(200)]
QUERIES = {
    "quarters": (QUARTERS, on_close(), PARTIALS, WINTER),
    "quarters, grace": (QUARTERS, on_close(corrections=True), PARTIALS, WINTER),
    "quarters, records": (QUARTERS, on_close(), RECORDS, WINTER),
    "a day by hours": (calendar_cumulating(("day", 1), ("hour", 1), BERLIN), on_update(), PARTIALS, WINTER),
    "tails": (calendar_tailed(("day", 2), ("minute", 30), ("day", 1), BERLIN), on_close(), PARTIALS, WINTER),
    "several": (several([HOURS, Even(6 * HOUR, 2 * HOUR)]), on_close(), PARTIALS, WINTER),
    "several, listed": (
        several([ByEdges(Listed(LIST[:-1]), Listed(LIST[1:])), QUARTERS]), on_close(), PARTIALS, WINTER
    ),
    "before a change": (QUARTERS, on_close(), PARTIALS, at("2027-03-27T23:40")),
    "across a change": (HOURS, on_close(), PARTIALS, at("2027-03-28T00:20")),
    "summer": (HOURS, on_close(), PARTIALS, at("2027-06-01T00:20")),
    "autumn": (QUARTERS, on_close(), PARTIALS, at("2026-10-25T00:50")),
    "a window across a change": (
        calendar_cumulating(("day", 1), ("hour", 1), BERLIN), on_update(), PARTIALS, at("2027-03-27T23:05")
    ),
}  # fmt: skip
"""By name: windows, trigger, content, and the first instant of the records that are seen."""
LATER = [at("2027-03-28T00:30"), at("2027-10-31T00:30"), at("2028-02-01T00:30")]
"""The first instants of the records to come: about the hour that is left out, and the one that is shown twice."""


def made(name):
    """The query of a name, before its first micro-batch."""
    family, trigger, content, _ = QUERIES[name]
    grace = 30 * MINUTE if "grace" in name else 0
    found = Scenario(Kind(Timed(family, "")), trigger, grace, content, ("sum",))
    found.fingerprint = fingerprint_of(found.shape, ["partials" if content == PARTIALS else "windows"], [["v"]], "1")
    return found


def micro_batches(name):
    """Records within some minutes of each other, some of them late."""
    rng, begin = random.Random(name), QUERIES[name][3]
    starts = [begin + step * 4 * MINUTE for step in range(SEEN)]
    starts += [later + step * 25 * MINUTE for later in LATER if later > begin for step in range(6)]
    found, watermark = [], begin - HOUR
    for start in starts:
        times = [start + rng.randrange(-10 * MINUTE, 30 * MINUTE) for _ in range(8)]
        found.append(([(time, rng.choice([1, 2]), rng.randrange(99)) for time in times], watermark // 1000))
        watermark = max(watermark, start - 20 * MINUTE)
    return [*found, ([], (starts[-1] + 99 * 24 * HOUR) // 1000)]


def main():
    """Write the file."""
    content = {}
    for name in QUERIES:
        query, batches = made(name), micro_batches(name)
        for records, watermark in batches[:SEEN]:
            query.emit(records, watermark)
        content[name] = {"batches": batches, "header": query.store.text, "pages": query.store.pages}
    if FILE.exists():
        raise SystemExit(f"{FILE} is there, and is not written again")
    FILE.write_bytes(lzma.compress(json.dumps(content, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
