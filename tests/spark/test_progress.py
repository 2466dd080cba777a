"""The progress of streams as lines and gauges: from reports of Spark as they are, then on a real stream."""

import io
import logging
import sys
import time
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from threading import Event
from types import SimpleNamespace

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress
from streams import SECOND, START, record, source, table, write

import combinators as C
from benchmarks import demo
from slicing import ProgressListener, group_by, hopping
from slicing.cli.console import Work, shown
from slicing.drawing.text import Display, duration, size
from slicing.spark.progress import micro_batch, panel

COUNTS = {
    "late": 5,
    "late_for_some": 1200,
    "no_time": 0,
    "no_window": 0,
    "partials_read": 7,
    "partials_written": 11,
    "results": 3456,
    "open_windows": 61,
    "slices": 64,
}
OPERATOR = {
    "operatorName": "transformWithStateInPandasExec",
    "numRowsTotal": 6,
    "numRowsUpdated": 5,
    "allUpdatesTimeMs": 1,
    "numRowsRemoved": 0,
    "allRemovalsTimeMs": 0,
    "commitTimeMs": 1,
    "memoryUsedBytes": 2 << 20,
    "numRowsDroppedByWatermark": 0,
    "numShufflePartitions": 2,
    "numStateStoreInstances": 2,
    "customMetrics": {"rocksdbSstFileSize": 1536},
}


def report(operators=1, **changes):
    """A progress report as Spark writes it."""
    return StreamingQueryProgress.fromJson(
        {
            "id": "6968af00-8f1b-4a4f-baf1-f04268b88578",
            "runId": "f8a89d05-214c-4e48-a757-6b832e34ac40",
            "name": "payments",
            "timestamp": "2024-05-01T12:30:00.000Z",
            "batchId": 3,
            "batchDuration": 500,
            "numInputRows": 20_000,
            "durationMs": {"addBatch": 400, "triggerExecution": 500},
            "eventTime": {"watermark": "2024-05-01T12:28:00.000Z"},
            "stateOperators": [OPERATOR] * operators,
            "sources": [],
            "sink": {"description": "", "numOutputRows": -1},
            "observedMetrics": {"slicing: n in tumbling('1 hour') of ts": COUNTS, "other": {"x": 1}},
            **changes,
        }
    )


def test_a_line_says_all_there_is_to_know():
    assert micro_batch(report()).line() == (
        "micro-batch 3: 20,000 records (40,000/s), watermark 2024-05-01T12:28:00 (2.0 min ago), 3,456 results, 5 late, "
        "1,200 late for some, 61 open windows, 64 slices, state 2.0 MiB in memory and 1.5 KiB on disk, 0.5 s"
    )


def test_gauges_are_plain_numbers_by_name():
    assert micro_batch(report()).gauges() == {
        "micro_batch": 3,
        "records": 20_000,
        "seconds": 0.5,
        "records_per_second": 40_000,
        "watermark_seconds": datetime(2024, 5, 1, 12, 28, tzinfo=UTC).timestamp(),
        "watermark_lag_seconds": 120,
        "state_memory_bytes": 2 << 20,
        "state_disk_bytes": 1536,
        "dropped_by_other_operators": 0,
        **COUNTS,
    }


def test_several_aggregations_of_a_query_are_added_up_but_for_the_extent_of_their_state():
    both = {"slicing: a": COUNTS, "slicing: b": COUNTS | {"late": 2, "open_windows": 70, "slices": 1}}
    found = micro_batch(report(operators=2, observedMetrics=both))
    assert (found.counts["late"], found.counts["results"]) == (7, 6912)
    assert (found.counts["open_windows"], found.counts["slices"]) == (70, 64)
    assert (found.in_memory, found.on_disk) == (4 << 20, 3072)


def test_rows_that_any_operator_of_the_query_drops_are_counted():
    """Also behind the windows, and those of several operators; what is not theirs is not in a query of windows only."""
    operators = [{**OPERATOR, "numRowsDroppedByWatermark": count} for count in (0, 3, 1400)]
    found = micro_batch(report(stateOperators=operators))
    assert found.gauges()["dropped_by_other_operators"] == found.additions()["dropped_by_other_operators"] == 1403
    assert "1,200 late for some, 1,403 dropped by other operators, 61 open windows" in found.line()
    assert "dropped by other operators" not in micro_batch(report()).line()
    assert "  dropped by other operators 1,403" in panel([found])


def test_times_that_cannot_be_are_beside_the_other_counters_where_they_are_observed():
    both = {"slicing: a": COUNTS, "implausible: ts 1": {"implausible": 3}, "implausible: ts 2": {"implausible": 1400}}
    found = micro_batch(report(observedMetrics=both))
    assert found.counts == COUNTS | {"implausible": 1403, "dropped_by_other_operators": 0}
    assert found.gauges()["implausible"] == 1403
    assert "1,200 late for some, 1,403 implausible, 61 open windows" in found.line()
    none = both | {"implausible: ts 1": {"implausible": 0}, "implausible: ts 2": {"implausible": 0}}
    assert micro_batch(report(observedMetrics=none)).gauges()["implausible"] == 0
    assert "implausible" not in micro_batch(report(observedMetrics=none)).line()
    assert micro_batch(report(observedMetrics={"implausible: ts 1": {"implausible": 3}})) is None


def test_reports_over_spark_connect_say_the_same():
    """What a server of 4.3 sends: metrics with their schema, and no total of the sources."""
    name = "slicing: n in tumbling('1 hour') of ts"
    schema = {"type": "struct", "fields": [{"name": each, "type": "long", "nullable": False} for each in COUNTS]}
    source = {"description": "", "startOffset": "", "endOffset": "", "latestOffset": "", "inputRowsPerSecond": 1.0}
    sources = [{**source, "processedRowsPerSecond": 1.0, "numInputRows": count} for count in (19_000, 1_000)]
    connected = report(observedMetrics={name: {"values": list(COUNTS.values()), "schema": schema}}, sources=sources)
    connected["numInputRows"] = None
    assert micro_batch(connected) == micro_batch(report())


@pytest.mark.parametrize("event_time", [{}, {"watermark": "1970-01-01T00:00:00.000Z"}])
def test_before_there_is_a_watermark(event_time):
    found = micro_batch(report(eventTime=event_time))
    assert (found.watermark, found.lag) == (None, None)
    assert "watermark -, " in found.line()
    assert not [name for name in found.gauges() if name.startswith("watermark")]


@pytest.mark.parametrize("changes", [{"observedMetrics": {"other": {"x": 1}}}, {"durationMs": {"latestOffset": 3}}])
def test_reports_of_other_queries_or_of_waiting_have_no_figures(changes):
    assert micro_batch(report(**changes)) is None


def test_a_query_without_a_name_goes_by_its_id():
    assert micro_batch(report(name=None)).query == "6968af00-8f1b-4a4f-baf1-f04268b88578"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (59.9, "59.9 s"), (90, "1.5 min"), (5400, "1.5 h"), (90_000_000, "1,041.7 d"), (-90, "-1.5 min")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), (3 << 40, "3,072.0 GiB")]
)
def test_sizes(count, text):
    assert size(count) == text


class Terminal(io.StringIO):
    """A terminal that understands what the display writes: up, clear the line or the rest, text."""

    def isatty(self):
        return True

    def screen(self):
        """The lines that are seen."""
        lines, row = [], 0
        for part in self.getvalue().replace("\x1b[2K", "").splitlines():
            text = part
            while text.startswith("\x1b["):
                if text.startswith("\x1b[J"):
                    text = text.removeprefix("\x1b[J")
                    del lines[row:]
                    continue
                up, _, text = text.removeprefix("\x1b[").partition("F")
                row -= int(up)
            lines[row : row + 1] = [text]
            row += 1
        return lines


def test_in_a_terminal_every_query_keeps_its_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    display = Display(terminal)
    for number in range(3):
        display.show("a", f"a {number}")
        display.show("b", f"b {number} " + "x" * 50)
    assert terminal.screen() == ["a 2", "b 2 " + "x" * 15]
    display.end("b")
    display.show("a", "a 3")
    display.show("c", "c 0")
    assert terminal.screen() == ["b 2 " + "x" * 15, "a 3", "c 0"]
    display.end("unknown")


def test_elsewhere_lines_follow_one_another():
    plain = io.StringIO()
    display = Display(plain)
    for number in range(2):
        display.show("a", f"a {number}")
    display.end("a")
    assert plain.getvalue() == "a 0\na 1\n"


def test_a_query_that_fails_says_why():
    ours = "[STREAM_FAILED] it\n  at java\nslicing.errors.StateMismatch: another shape.\n  at java"
    events = [("1", "first", ours), ("2", None, ours), ("3", "theirs", "[STREAM_FAILED] it"), ("4", "done", None)]
    lines = io.StringIO()
    listener = ProgressListener(stream=lines)
    for id_, name, exception in events:
        listener.onQueryStarted(SimpleNamespace(id=id_, name=name))
        listener.onQueryTerminated(SimpleNamespace(id=id_, exception=exception))
        ProgressListener(lines=False).onQueryTerminated(SimpleNamespace(id=id_, exception=exception))
    assert lines.getvalue() == "first: failed: another shape.\n2: failed: another shape.\n"


def test_a_query_that_is_started_again_says_that_its_history_is_not_read_again(caplog):
    plain, warm = ({"slicing: n": COUNTS | more} for more in ({}, {"before_warm": 0, "loaded": 0}))
    listener, id_ = ProgressListener(lines=False), report().id

    def said(*numbers, metrics=warm, is_seen=True):
        caplog.clear()
        if is_seen:
            listener.onQueryStarted(SimpleNamespace(id=id_, name="payments"))
        for number in numbers:
            listener.onQueryProgress(SimpleNamespace(progress=report(batchId=number, observedMetrics=metrics)))
        listener.onQueryTerminated(SimpleNamespace(id=id_, exception=None))
        return caplog.text.count("payments: micro-batch 0 of the checkpoint has loaded the history")

    with caplog.at_level(logging.INFO, "slicing"):
        assert said(0, 1) == 0, "the first start reads it"
        assert said(2, 3) == 1
        assert said(4, metrics=plain) == 0
        assert said(5, is_seen=False) == 0, "the listener is registered after the start: which one it was is not known"


@pytest.mark.versions
def test_a_stream_that_is_listened_to(spark, tmp_path):
    """Five micro-batches; the fourth has a late record, and the last has no data."""
    files = [
        [record(key, START + key * SECOND) for key in range(8)],
        [record(1, START + 100 * SECOND)],
        [record(1, START + 200 * SECOND)],
        [record(1, START + 300 * SECOND), record(1, START)],
    ]
    write(map(table, files), tmp_path)
    seen, lines = [], io.StringIO()
    listener = ProgressListener(lambda query, gauges: seen.append((query, gauges)), stream=lines)
    spark.streams.addListener(listener)
    try:
        windowed = group_by(source(spark, tmp_path), "world").window(hopping("20 seconds", "10 seconds"), time="ts")
        frame = windowed.aggregate(total=C.sum("n"))
        for each, name in ((source(spark, tmp_path).select("n"), "other"), (frame, "listened")):
            query = each.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
            query.awaitTermination()
        end = time.monotonic() + 60
        while (len(seen) < 5 or listener.gauges) and time.monotonic() < end:
            time.sleep(0.1)
    finally:
        spark.streams.removeListener(listener)
    assert [query for query, _ in seen] == ["listened"] * 5
    assert not listener.gauges, "it has ended"
    gauges = {name: [int(each.get(name, -1)) for _, each in seen] for name in seen[-1][1]}
    assert gauges["records"] == [8, 1, 1, 2, 0]
    assert gauges["late"] == [0, 0, 0, 1, 0]
    assert sum(gauges["results"]) == spark.table("listened").count() == 16 + 2 + 2
    assert gauges["watermark_seconds"] == [-1, *(START // SECOND + after for after in (7, 100, 200, 300))]
    assert min(gauges["watermark_lag_seconds"][1:]) > 0
    # Of the record at 300 s one window has not ended: [290, 310) and [300, 320) are open.
    assert gauges["open_windows"][-1] == 2
    assert gauges["slices"][-1] == 1
    assert min(gauges["state_memory_bytes"]) > 0
    printed = lines.getvalue().splitlines()
    assert [line.split("(")[0] for line in printed[:2]] == [
        "listened: micro-batch 0: 8 records ",
        "listened: micro-batch 1: 1 record ",
    ]
    assert len(printed) == 5


def test_what_is_printed_beside_a_display_stays_above_it():
    terminal = Terminal()
    display = Display(terminal)
    display.show("a", "a 0\nmore")
    with display.printing_above():
        terminal.write("a row\n")
    assert terminal.screen() == ["a row", "a 0", "more"]
    display.show("a", "a 1\nmore")
    assert terminal.screen() == ["a row", "a 1", "more"]


def test_a_panel_has_a_bar_for_each_micro_batch():
    listener = ProgressListener(stream=Terminal())
    for number, seconds in ((3, 1), (4, 4)):
        took = {"addBatch": 1, "triggerExecution": 1000 * seconds}
        listener.onQueryProgress(SimpleNamespace(progress=report(batchId=number, name="<b>", durationMs=took)))
    assert panel(listener.batches["<b>"]).splitlines() == [
        "<b>: micro-batch 4, 20,000 records",
        "  records/s        5,000  █▂",
        "  seconds            4.0  ▂█",
        "  watermark   2024-05-01T12:28:00 (2.0 min ago)",
        "  windows     3,456 results, 61 open windows",
        "  state       64 slices, 2.0 MiB in memory, 1.5 KiB on disk",
        "  late        1,205, 2,410 since micro-batch 3",
    ]
    assert listener._display.stream.screen() == panel(listener.batches["<b>"]).splitlines()
    cells = [cell.text for cell in ET.fromstring(listener._repr_html_()).iter("td")]
    assert cells == [
        "<b>",
        "4",
        "20,000",
        "5,000",
        "4.0 s",
        "2.0 min",
        "3,456",
        "1,205",
        "61",
        "2.0 MiB, 1.5 KiB",
        "▂█",
    ]


def test_a_bounded_run_says_how_far_it_is():
    terminal, plain = Terminal(), io.StringIO()
    for stream in (terminal, plain):
        asked = Event()
        with shown(lambda asked=asked: asked.set() or Work(2, 40, 10), Display(stream), wait=0.01):
            asked.wait(20)
    line = f"{'█' * 7}{'░' * 23} stage 3: 10 of 40 tasks, 0 s\n"
    assert plain.getvalue() == line
    assert line in terminal.getvalue()
    assert not any(terminal.screen()), "in a terminal nothing of it stays"


def test_the_demo_keeps_its_table_above_the_panel(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    show = demo.Show(1)
    for number in (1, 2):
        show._cell(f"{number}   0.1 s ")
        show.display.show("slicing", f"micro-batch {number}\nmore")
        show._cell(" > 1 s stopped\n")
    assert terminal.screen() == [
        "1   0.1 s  > 1 s stopped",
        "2   0.1 s  > 1 s stopped",
        "micro-batch 2",
        "more",
    ]
