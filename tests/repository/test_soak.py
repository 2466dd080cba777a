"""The soak judges rightly: its truth is that of loops over all records and windows, and it finds what is wrong."""

import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.soak.feed import START, STEP, Feed
from benchmarks.soak.steady import compared, ratios, read
from benchmarks.soak.truth import differences, keep, micro_batches
from benchmarks.soak.windows import GRACE, LENGTHS, windows

FEED = Feed(records=15, keys=8, late=0.2)
FILES, EMPTY = 16, 12
"""One micro-batch has no file."""


def checkpoint(folder):
    """Files, and a checkpoint whose watermark is a minute behind them."""
    for name in ("files", "checkpoint/commits", "checkpoint/offsets"):
        (folder / name).mkdir(parents=True)
    for number in range(FILES):
        FEED.write(folder / "files", number)
    reads = [min(number + 1, number + (number < EMPTY)) for number in range(FILES + 1)]
    for number, until in enumerate(reads):
        mark = (START + (until - 2) * STEP) // 1000
        lines = "v1", json.dumps({"batchWatermarkMs": mark}), json.dumps({"logOffset": until - 1})
        (folder / "checkpoint" / "offsets" / str(number)).write_text("\n".join(lines))
        (folder / "checkpoint" / "commits" / str(number)).touch()


def by_loops(folder):
    """Rows (name, start, end, key) -> records and total, and the micro-batch of each, by the windows' own edges."""
    held, emitted, read_, judged = defaultdict(lambda: [0, 0]), {}, 0, 0
    for number, until, watermark in micro_batches(folder / "checkpoint"):
        for file in range(read_, until):
            for row in FEED.table(file).cast(pa.schema({"key": "int64", "ts": "int64", "v": "int64"})).to_pylist():
                for name, window in windows().items():
                    for start, end in window.windows_of(row["ts"]):
                        if end + GRACE > judged:
                            content = held[name, start, end, row["key"]]
                            content[0] += 1
                            content[1] += row["v"]
        read_, judged = until, watermark
        for place in [place for place in held if place[2] + GRACE <= watermark]:
            emitted[place] = number, *held.pop(place)
    return emitted


def write(folder, emitted):
    """The rows as the job writes them."""
    times = pa.struct({"start": pa.timestamp("us", "UTC"), "end": pa.timestamp("us", "UTC")})
    for number in {row[0] for row in emitted.values()}:
        rows = [(place, row) for place, row in emitted.items() if row[0] == number]
        columns = {
            "key": [place[3] for place, _ in rows],
            "window": pa.array([{"start": place[1], "end": place[2]} for place, _ in rows], times),
            "windows": [place[0] for place, _ in rows],
            "records": [row[1] for _, row in rows],
            "total": [row[2] for _, row in rows],
        }
        (folder / f"{number:06d}").mkdir(parents=True)
        pq.write_table(pa.table(columns), folder / f"{number:06d}" / "part.parquet")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("soak")
    checkpoint(folder)
    return folder, by_loops(folder)


def found(whole, sink, emitted, changed=0):
    folder, _ = whole
    write(sink, emitted)
    return differences(folder / "files", sink, folder / "checkpoint", changed)


def test_rows_of_loops_are_those_of_the_truth(whole, tmp_path):
    folder, emitted = whole
    assert {place[0] for place in emitted} == set(LENGTHS)
    assert not found(whole, tmp_path, emitted)
    keep(folder / "checkpoint", tmp_path / "kept")
    keep(folder / "checkpoint", tmp_path / "kept")
    assert micro_batches(tmp_path / "kept") == micro_batches(folder / "checkpoint")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: (row[0], row[1] + 1, row[2]), "short: 1 of "),
        (lambda row: (row[0], row[1], row[2] - 1), "rows are wrong"),
        (lambda row: None, "short: 1 windows were not emitted"),
    ],
)
def test_one_row_that_differs_is_found(whole, tmp_path, change, says):
    emitted = dict(whole[1])
    place = max(place for place in emitted if place[0] == "short")
    changed = change(emitted.pop(place))
    differing = found(whole, tmp_path, emitted | ({place: changed} if changed else {}))
    assert len(differing) == 1
    assert says in differing[0]


def test_windows_that_equal_the_one_before_may_be_left_out_after_the_change(whole, tmp_path):
    changed, emitted = 8, {}
    for place, row in whole[1].items():
        name, _, end, key = place
        before = [
            row for other, row in whole[1].items() if other[0] == name and (other[2], other[3]) == (end - STEP, key)
        ]
        if row[0] < changed or [each[1:] for each in before] != [row[1:]]:
            emitted[place] = row
    assert len(emitted) < len(whole[1])
    assert not found(whole, tmp_path / "changed", emitted, changed)
    differing = found(whole, tmp_path / "never", emitted)
    assert differing
    assert all("were not emitted" in line for line in differing)


def test_the_end_is_compared_with_the_second_ten_minutes(tmp_path):
    names = ("seconds", "state bytes", "worker MiB", "checkpoint files")
    lines = [{"at": 60.0 * at} | dict.fromkeys(names, 100 if at < 40 else 150) for at in range(61)]
    assert ratios(lines) == dict.fromkeys(names, 1.5)
    with pytest.raises(ValueError, match="after 25 minutes; got 20"):
        ratios(lines[:21])
    (tmp_path / "figures").write_text('{"at": 1}\n{"at": 2, "sec\n{"at": 3}\n')
    assert read(tmp_path / "figures") == [{"at": 1}, {"at": 3}]


def test_growth_is_judged_under_one_trigger_if_that_ran_long_enough():
    """What a trigger needs more than the one before is no growth, but what grows under it is."""
    of = {"seconds": 1.0, "state bytes": 10.0, "worker MiB": 100.0, "checkpoint files": 5.0}
    lines = [{"at": 60.0 * at, **of, "worker MiB": 100.0 if at < 30 else 150.0} for at in range(61)]
    shown, grows = compared(lines, 30 * 60.0)
    assert "worker MiB: last ten minutes / second ten: 1.50; since the change of the trigger: 1.00" in shown
    assert not grows
    assert compared(lines, 40 * 60.0)[1] == ["worker MiB: 1.50 times as much at the end"]
    more = [each | {"state bytes": 10.0 if at < 30 else 12.0} for at, each in enumerate(lines)]
    assert compared(more, 30 * 60.0)[1] == ["state bytes: 1.20 times as much at the end"]
    for each in lines[50:]:
        each["seconds"] = 1.2
    assert compared(lines, 30 * 60.0)[1] == ["seconds: 1.20 times as much at the end"]
    assert compared(lines[:20], 0.0) == ([], [])


def test_a_key_has_a_tenth_of_all_records():
    table = Feed().table(3)
    assert 0.08 < np.mean(table["key"].to_numpy() == 0) < 0.12
    assert table.equals(Feed().table(3))
