"""Several windows of one call on real streams: each against a Spark `window()` query, micro-batch by micro-batch.

All queries are stopped in the middle and started again. Bounded input is the truth for windows side by side.
"""

from collections import Counter

import pytest
from pyspark.sql import functions as F
from streams import (
    DAY,
    HOUR,
    MINUTE,
    START,
    Output,
    Running,
    micros,
    record,
    source,
    spark_window,
    table,
    worlds,
    write,
)

import combinators as C
from slicing import group_by, hopping, late_partials, on_change, on_close, on_update, results, tumbling
from slicing.errors import InvalidValue

DELAY = 5 * MINUTE
WINDOWS = {
    "often": hopping("6 minutes", advance="2 minutes"),
    "hour": hopping("1 hour", advance="10 minutes"),
    "apart": tumbling("7 minutes"),
    "seldom": tumbling("2 hours"),
}
CALLS = {2: ("often", "seldom"), 3: ("often", "hour", "apart"), 4: tuple(WINDOWS)}
NAMES = ("records", "total", "most")


def ours():
    return {"records": C.count(), "total": C.sum("n"), "most": C.max("n")}


def theirs():
    return [F.count("*").alias("records"), F.sum("n").alias("total"), F.max("n").alias("most")]


class Kept(Output):
    """Results, and beside them the late partials of each micro-batch."""

    def __init__(self):
        super().__init__()
        self.late = {}

    def sink(self, frame, batch):
        """For foreachBatch."""
        if "late" in frame.columns:
            self.late[batch] = late_partials(frame).collect()
        super().sink(results(frame), batch)


def in_two_parts(queries, files, folder):
    """Run queries by name over half of the files, then all anew over the rest; the runs."""
    half = len(files) // 2
    for number, part in enumerate((files[:half], files[half:])):
        write(part, folder / "files", number * half)
        if number == 0:
            runs = {
                name: Running(frame, folder / name, {"availableNow": True}, Kept()) for name, frame in queries.items()
            }
        else:
            for each in runs.values():
                each.start()
        for each in runs.values():
            each.finish()
    return runs


@pytest.fixture(scope="module", params=[pytest.param("story", marks=pytest.mark.slow)])
def story(spark, tmp_path_factory):
    """Files, the runs of one call for each number of windows, and of Spark for each window."""
    folder, files = tmp_path_factory.mktemp("several"), worlds("several", files=8, count=20)
    (folder / "files").mkdir()
    stream = source(spark, folder / "files", f"{DELAY} microseconds")
    queries = {}
    for count, names in CALLS.items():
        windowed = group_by(stream, "world").window(**{name: WINDOWS[name] for name in names}, time="ts", long=True)
        queries[f"ours {count}"] = windowed.late("partials").aggregate(**ours())
    for name, window in WINDOWS.items():
        queries[name] = stream.groupBy("world", spark_window(window)).agg(*theirs())
    return files, in_two_parts(queries, files, folder)


def rows_of(run, name=None):
    """(micro-batch, key, start, end) -> results, of one kind of windows or of the only one."""
    found = {}
    for batch, each in run.output.tables.items():
        for row in each.to_pylist():
            if name is None or row["windows"] == name:
                start, end = (micros(row["window"][edge]) for edge in ("start", "end"))
                assert (batch, row["world"], start, end) not in found, "a window goes out once"
                found[batch, row["world"], start, end] = [row[each] for each in NAMES]
    return found


@pytest.mark.parametrize("count", CALLS)
def test_each_of_several_windows_has_the_rows_of_spark(story, count):
    _, runs = story
    assert len({batch for batch, _ in rows_batches(runs["often"])}) > len({b for b, _ in rows_batches(runs["seldom"])})
    for name in CALLS[count]:
        wanted = rows_of(runs[name])
        assert rows_of(runs[f"ours {count}"], name) == wanted
        assert len(wanted) > 15


def rows_batches(run):
    return {(batch, world) for batch, world, *_ in rows_of(run)}


def refused(files, run, names):
    """Late records by (micro-batch, key, windows, cause), and by (micro-batch, counter), judged one by one."""
    by_name, counters = Counter(), Counter()
    read = before = 0
    for batch, until, watermark, _ in run.micro_batches():
        for row in (row for file in files[read:until] for row in file.to_pylist() if row["ts"] is not None):
            causes = []
            for name in names:
                windows = WINDOWS[name].windows_of(micros(row["ts"]))
                opened = sum(end > before * 1000 for _, end in windows)
                if opened < len(windows):
                    causes.append("late_for_some" if opened else "late")
                    by_name[batch, row["world"], name, causes[-1]] += 1
            if causes:
                counters[batch, "late" if causes == ["late"] * len(names) else "late_for_some"] += 1
        read, before = until, watermark
    return by_name, counters


def late_rows(run):
    """Late records as the late partials count them: (micro-batch, key, windows, cause)."""
    found = Counter()
    for batch, late in run.output.late.items():
        for row in late:
            found[batch, row["world"], row["late"]["windows"], row["late"]["cause"]] += row["late"]["records"]
    return found


@pytest.mark.parametrize("count", CALLS)
def test_late_rows_name_the_windows_that_refused_them(story, count):
    files, runs = story
    run = runs[f"ours {count}"]
    by_name, counters = refused(files, run, CALLS[count])
    assert late_rows(run) == by_name
    observed = {
        (batch, name): number
        for name in ("late", "late_for_some")
        for batch, number in run.output.counters(name).items()
    }
    assert observed == counters
    alone = [place for place in by_name if place[2] == "often" and place[3] == "late"]
    assert len(alone) > 5, "records are late for short windows"
    assert {name for _, _, name, _ in by_name} == set(CALLS[count])
    assert any(name == "late_for_some" for _, name in counters), "and are taken by others"


@pytest.mark.slow
def test_late_rows_of_windows_without_names_have_the_calls_that_make_them(spark, tmp_path):
    files, names = worlds("calls", files=6, count=8), CALLS[2]
    write(files, tmp_path / "files")
    windowed = group_by(source(spark, tmp_path / "files", f"{DELAY} microseconds"), "world").window(
        *(WINDOWS[name] for name in names), time="ts"
    )
    frame = windowed.late("partials").aggregate(records=C.count())
    assert "windows" not in frame.columns
    run = Running(frame, tmp_path / "checkpoint", {"availableNow": True}, Kept())
    run.finish()
    by_name, _ = refused(files, run, names)
    wanted = {(batch, key, repr(WINDOWS[name]), cause): n for (batch, key, name, cause), n in by_name.items()}
    assert late_rows(run) == wanted
    assert wanted, "some records are late"


# --- side by side ---------------------------------------------------------------------------------------------------

SIDES = {
    "short": tumbling("5 minutes"),
    "half": hopping("30 minutes", advance="5 minutes"),
    "hour": hopping("1 hour", advance="5 minutes"),
}
COLUMNS = tuple(f"{name}_{side}" for side in SIDES for name in NAMES)
EMISSIONS = {
    "closed": on_close(),
    "changed": on_change(),
    "updated": on_update(),
    "corrected": on_close(corrections=True),
}


@pytest.fixture(scope="module")
def sides(spark, tmp_path_factory):
    """Runs by emission, and the rows of bounded input; a last record of a key of its own closes all windows."""
    folder, files = tmp_path_factory.mktemp("sides"), worlds("sides", files=4, count=12)
    files.append(table([record(-1, START + 40 * DAY)]))
    (folder / "files").mkdir()
    queries = {}
    for name, emission in EMISSIONS.items():
        corrects = name == "corrected"
        stream = source(spark, folder / "files", "0 seconds" if corrects else "3 days")
        windowed = group_by(stream, "world").window(**SIDES, time="ts").grace("3 days" if corrects else "0 days")
        queries[name] = windowed.emit(emission).aggregate(**ours())
    runs = in_two_parts(queries, files, folder)
    frame = group_by(spark.read.parquet(str(folder / "files")), "world").window(**SIDES, time="ts")
    bounded = {(row["world"], row["window_end"]): row for row in frame.aggregate(**ours()).toArrow().to_pylist()}
    return runs, {place: [row[each] for each in COLUMNS] for place, row in bounded.items() if place[0] != -1}


def by_end(run):
    """(key, window_end) -> the columns of each row that went out, in order."""
    found = {}
    for batch in sorted(run.output.tables):
        for row in run.output.tables[batch].to_pylist():
            if row["world"] != -1:
                found.setdefault((row["world"], row["window_end"]), []).append([row[each] for each in COLUMNS])
    return found


def test_a_stream_of_windows_side_by_side_equals_bounded_input(sides):
    runs, bounded = sides
    assert by_end(runs["closed"]) == {place: [row] for place, row in bounded.items()}
    assert len(bounded) > 100
    assert any(row[0] is None for row in bounded.values()), "a short window is empty beside one that is not"


@pytest.mark.parametrize("name", ["updated", "corrected"])
def test_the_last_row_of_an_end_is_what_bounded_input_says(sides, name):
    runs, bounded = sides
    found = by_end(runs[name])
    last = {place: rows[-1] for place, rows in found.items()}
    assert sum(map(len, found.values())) > len(found), "some went out more than once"
    assert all(last[place] == bounded[place] for place in last if name == "corrected" or None not in last[place])
    assert last.keys() == bounded.keys()


def test_changes_side_by_side_are_ends_whose_row_is_not_that_of_the_end_before(sides):
    runs, bounded = sides
    step = SIDES["short"].size
    wanted = {
        (world, end): [row]
        for (world, end), row in bounded.items()
        if bounded.get((world, type(end).fromtimestamp(end.timestamp() - step / 1e6, end.tzinfo))) != row
    }
    assert by_end(runs["changed"]) == wanted
    assert 0 < len(wanted) < len(bounded)


@pytest.mark.slow
def test_windows_over_wide_rows_go_by_the_last_instant_of_the_row(spark, tmp_path):
    minutes, last = [*range(0, 70, 3), 90], F.col("window_end") - F.expr("interval 1 microsecond")
    write(
        [table([record(1, START + n * MINUTE) for n in minutes]), table([record(1, START + DAY)])], tmp_path / "files"
    )
    rows = group_by(source(spark, tmp_path / "files"), "world").window(**SIDES, time="ts").aggregate(n=C.count())
    with pytest.raises(InvalidValue, match=r"the watermark is on `window_end`.*schema\[\"window_end\"\]\.metadata"):
        group_by(rows).window(tumbling("1 hour"), time=last).aggregate(n=C.sum("n_short"))
    timed = rows.withColumn("at", last).withMetadata("at", rows.schema["window_end"].metadata)
    query = group_by(timed).window(tumbling("1 hour"), time="at").aggregate(n=C.sum("n_short"))
    output = Running(query, tmp_path / "checkpoint", {"availableNow": True}).finish()
    hours = [row for each in output.tables.values() for row in each.to_pylist()]
    found = {micros(row["window"]["start"]): row["n"] for row in hours if row["n"] is not None}
    assert found == Counter((START + n * MINUTE) // HOUR * HOUR for n in minutes)
