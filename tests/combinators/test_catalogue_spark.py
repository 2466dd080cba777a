"""The catalogue on streams against Spark's own functions, in every micro-batch; and its fields in several windows."""

import math

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from streams import Output, Running, run, source, spark_window, table, write
from test_more_combinators_spark import EXACT, prepared, rows

import combinators as C
from combinators.catalogue import CATALOGUE
from slicing import early, group_by, hopping, on_update, processing_time, tumbling, unbounded

pytestmark = pytest.mark.slow

SHORT, LONG = hopping("12 seconds", "6 seconds"), hopping("30 seconds", "6 seconds")
# Spark counts no different values on a stream, but collects them; 0.0 and -0.0 are one.
COUNTED = {"distinct": "cast(size(collect_set(x + 0.0)) as bigint)", "words": "cast(size(collect_set(s)) as bigint)"}
ALL = {f"all_{name}": (bound, COUNTED.get(name, text)) for name, (bound, text) in EXACT.items()}
for entry in CATALOGUE:
    for column in ("n", "x", "even"):
        kind = {"n": "bigint", "x": "double", "even": "boolean"}[column]
        if entry.accepts(kind) and not (column == "x" and entry.others):
            arguments = [column, *(["ts"] if entry.by_time else ["f"] * len(entry.others))]
            made = entry.function(*arguments[: 1 + len(entry.others)])
            ALL[f"{entry.name}_{column}"] = made, f"{entry.reference}({', '.join(arguments)})"
"""All combinators that equal a function of Spark, on columns of several kinds, and what they are in its SQL."""

SHARED = {
    "mean": (C.mean("n"), "avg(n)"),
    "sum": (C.sum("n"), "sum(n)"),
    "count": (C.count("n"), "count(n)"),
    "variance": (C.variance("n"), "var_samp(n)"),
    "deviation": (C.stddev_pop("n"), "stddev_pop(n)"),
    "skewness": (C.skewness("n"), "skewness(n)"),
    "even": (C.sum("n", where="even"), "sum(n) filter (where even)"),
    "evens": (C.count("n", where="even"), "count(n) filter (where even)"),
    "words": (C.count_distinct("s", limit=99), COUNTED["words"]),
    "often": (C.mode("s", limit=99), "mode(s, true)"),
}


def files():
    """Some files, in which records come again when their windows are closed, and a last one that closes all windows."""
    made = list(rows(240, 5))
    parts = [made[at : at + 40] for at in range(0, 240, 40)]
    for number in range(2, 6):
        parts[number] = parts[number] + [{**each, "s": "late"} for each in parts[number - 2][20:30]]
    last = {**made[-1], "world": 9, "ts": made[-1]["ts"] + 10**9}
    return [*map(table, parts), table([last])]


def asked(results_):
    return {name: bound for name, (bound, _) in results_.items()}


def by_spark(frame, results_, window):
    columns = [F.expr(text).alias(name) for name, (_, text) in results_.items()]
    return frame.groupBy("world", spark_window(window)).agg(*columns)


def near(a, b):
    """Equal, floats but for their last digits."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[name], b[name]) for name in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return a == b and type(a) is type(b)


def differences(found, wanted, names):
    missing = [(place, place in found) for place in found.keys() ^ wanted.keys()]
    return missing + [
        (place, name, found[place][name], wanted[place][name])
        for place in found.keys() & wanted.keys()
        for name in names
        if not near(found[place][name], wanted[place][name])
    ]


def at(frame, path, delay="5 seconds"):
    return prepared(source(frame, path, delay))


def test_every_combinator_is_that_of_spark_in_every_micro_batch(spark, tmp_path):
    """Both are stopped halfway, and started again."""
    tables = files()
    write(tables[:3], tmp_path / "files")
    stream = at(spark, tmp_path / "files")
    windowed = group_by(stream, "world").window(LONG, time="ts")
    frames = [windowed.aggregate(**asked(ALL)), by_spark(stream, ALL, LONG)]
    ours, theirs = interrupted(frames, tmp_path, tables)
    found, wanted = ours.rows("world"), theirs.rows("world")
    assert differences(found, wanted, ALL)[:5] == []
    assert len(wanted) > 50
    assert len({batch for batch, *_ in wanted}) >= 4
    assert sum(sum(ours.counters(name).values()) for name in ("late", "late_for_some")) > 5
    types = [{field.name: field.dataType.simpleString() for field in frame.schema} for frame in frames]
    assert types[0] == types[1]


def interrupted(frames, path, tables):
    """What queries put out that are stopped halfway and started again."""
    outputs = [Output() for _ in frames]
    for part in (tables[3:], []):
        for number, (frame, output) in enumerate(zip(frames, outputs, strict=True)):
            Running(frame, path / f"checkpoint{number}", {"availableNow": True}, output).finish()
        write(part, path / "files", 3)
    return outputs


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.long)])
def test_results_that_share_fields_in_several_windows_are_those_of_spark(spark, tmp_path, wide):
    """Each window as Spark has it alone, over a restart; what is late for a window is put out for that window."""
    tables = files()
    write(tables[:3], tmp_path / "files")
    grouped = group_by(at(spark, tmp_path / "files"), "world")
    windows = grouped.window(a=SHORT, b=LONG, time="ts") if wide else grouped.window(SHORT, LONG, time="ts")
    stream = at(spark, tmp_path / "files")
    ours = windows.late("partials").aggregate(**asked(SHARED)).withColumn("records", F.col("late.records")).drop("late")
    frames = [ours, by_spark(stream, SHARED, SHORT), by_spark(stream, SHARED, LONG)]
    output, *theirs = interrupted(frames, tmp_path, tables)
    everything = pa.concat_tables(output.tables.values()).to_pylist()
    put_out = [row for row in everything if row["records"] is None]
    late = sum(row["records"] for row in everything if row["records"] is not None)
    for name, length, one in zip("ab", (12, 30), theirs, strict=True):
        wanted = {place[1:]: row for place, row in one.rows("world").items()}
        found = {}
        for row in put_out:
            if wide:
                start = row["window_end"].timestamp() - length
                held = {each: row[f"{each}_{name}"] for each in SHARED}
            else:
                window = row["window"]
                if (window["end"] - window["start"]).total_seconds() != length:
                    continue
                start, held = window["start"].timestamp(), row
            place = row["world"], round(start * 1_000_000)
            if wide and place not in wanted:
                assert all(value is None for value in held.values())
                continue
            assert place not in found
            found[place] = held
        assert differences(found, wanted, SHARED)[:5] == []
        assert len(wanted) > 40
    assert late > 20


def test_totals_that_never_close_are_those_of_all_records(spark, tmp_path):
    """The last row of each key, over a restart, beside what Spark has of all records."""
    tables = files()
    write(tables[:3], tmp_path / "files")
    query = (
        group_by(at(spark, tmp_path / "files"), "world")
        .window(unbounded())
        .emit(on_update())
        .aggregate(**asked(SHARED))
    )
    (output,) = interrupted([query], tmp_path, tables)
    found = {row["world"]: row for batch in sorted(output.tables) for row in output.tables[batch].to_pylist()}
    columns = [F.expr(text).alias(name) for name, (_, text) in SHARED.items()]
    whole = prepared(spark.read.parquet(str(tmp_path / "files")))
    wanted = {row["world"]: row for row in whole.groupBy("world").agg(*columns).toArrow().to_pylist()}
    assert differences(found, wanted, SHARED) == []
    assert len(wanted) == 4


def test_results_that_share_fields_by_the_clock(spark, tmp_path):
    """All records come in an hour of the clock, so that a window of a day before and after holds them all."""
    write(files(), tmp_path)
    windowed = group_by(at(spark, tmp_path), "world").window(tumbling("36500 days"), time=processing_time())
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    try:
        (output,) = run(windowed.emit(on_update()).aggregate(**asked(SHARED)))
    finally:
        spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")
    found = {row["world"]: row for batch in sorted(output.tables) for row in output.tables[batch].to_pylist()}
    columns = [F.expr(text).alias(name) for name, (_, text) in SHARED.items()]
    whole = prepared(spark.read.parquet(str(tmp_path)))
    wanted = {row["world"]: row for row in whole.groupBy("world").agg(*columns).toArrow().to_pylist()}
    assert differences(found, wanted, SHARED) == []


def test_values_without_end_need_a_limit_where_windows_never_close(spark, tmp_path):
    write(files()[:1], tmp_path)
    windowed = group_by(at(spark, tmp_path), "world").window(unbounded()).emit(early(records=3))
    with pytest.raises(
        ValueError, match=r"`kept` is median\(n\), .* in unbounded\(\), which never closes, .*`limit=10_000`"
    ):
        windowed.aggregate(kept=C.median("n"))
    windowed.aggregate(kept=C.median("n", limit=5))
    bounded = spark.read.parquet(str(tmp_path))
    assert group_by(bounded, "world").window(unbounded()).aggregate(kept=C.median("n")).count() == 3
