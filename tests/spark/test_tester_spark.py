"""`slicing.testing.run` against streams of Spark: rows, late rows, counters and watermarks of every micro-batch."""

import pytest
from pyspark.sql import functions as F
from streams import MINUTE, SCHEMA, Output, Running, source, worlds, write
from test_tester import remembering

import combinators as C
from slicing import counting, early, group_by, hopping, on_close, on_update, session, testing, tumbling
from slicing.stages.metrics import REFUSED

DELAY = "10 minutes"
WHO = "who struct<world: bigint, day: struct<d: date, m: decimal(12,2)>>"


def flagged(key, window, results, context):
    if results["n"] > 1:
        yield window.end, results["s"]["most"]


HOPPING = hopping("1 hour", advance="10 minutes")
DEFINITIONS = {
    "values": group_by("world")
    .window(HOPPING, time="ts")
    .late("records")
    .define(n=C.count(), d=C.min("d"), m=C.sum("m"), s=C.last("s"), all=C.collect_list("n", limit=10_000)),
    "structs": group_by("who", "who.day.d")
    .window(session("20 minutes"), time="ts")
    .emit(on_update())
    .late("partials")
    .define(n=C.count(), s=C.struct(most=C.max("s"), at=C.struct(m=C.max("m")))),
    "side by side": group_by("world")
    .window(short=tumbling("10 minutes"), hour=HOPPING, time="ts")
    .emit(early(records=3))
    .define(n=C.count(), m=C.mean("m")),
    "one after another": group_by()
    .window(short=tumbling("10 minutes"), hour=HOPPING, time="ts", long=True)
    .late("partials")
    .grace("5 minutes")
    .define(n=C.count()),
    "corrections": group_by("d")
    .window(HOPPING, time="ts")
    .grace("5 minutes")
    .emit(on_close(corrections=True, old=True))
    .define(n=C.max("n"), f=C.collect_set("f", limit=1000)),
    "rows of results": group_by("world")
    .window(tumbling("10 minutes"), time="ts")
    .define(n=C.count(), s=C.struct(most=C.max("s")), then=flagged, returns="until timestamp, most string"),
    "rows of records": group_by("world")
    .window(counting(3), time="ts")
    .define_process(remembering, returns="n long", key_state="n long"),
}  # fmt: skip


def with_struct(row):
    return row | {"who": {"world": row["world"], "day": None if row["n"] is None else {"d": row["d"], "m": row["m"]}}}


class Collected(Output):
    """The rows of each micro-batch as dicts: late rows cannot be put into Arrow by every version of Spark."""

    def sink(self, frame, batch):
        self.tables[batch] = [row.asDict(recursive=True) for row in frame.collect()]


def shown(rows):
    """Rows in any order, as text; Spark collects times without their zone, which is UTC in tests."""
    found = [{name: value for name, value in row.items() if name != "late" or value is not None} for row in rows]
    return sorted(repr(each).replace(", tzinfo=datetime.timezone.utc", "") for each in found)


def late_of(definition, row):
    """A late row of a stream, with the columns of `late_records` or `late_partials`."""
    if definition.windowed.options.late == "records":
        tag = {name: value for name, value in row["late"].items() if name not in ("records", "record")}
        return row["late"]["record"] | {"late": tag} if row["late"]["record"] else None
    left = ("window", "windows", "window_end", "emission", "revision", "old")
    return {name: value for name, value in row.items() if name not in left}


QUICK = ("values", "structs", "rows of results")


@pytest.mark.parametrize(
    "names", [QUICK, pytest.param([name for name in DEFINITIONS if name not in QUICK], marks=pytest.mark.slow)]
)
def test_rows_are_those_of_streams(spark, tmp_path, names):
    tables = worlds(28, files=4, count=6, edge=MINUTE)
    write(tables, tmp_path / "in")
    day = F.when(F.col("n").isNotNull(), F.struct("d", "m"))
    frame = source(spark, tmp_path / "in", DELAY).withColumn("who", F.struct("world", day.alias("day")))
    streams = [
        Running(DEFINITIONS[name].on(frame).dataframe(), tmp_path / name, {"availableNow": True}, Collected())
        for name in names
    ]
    records, emitted, late_rows = [[with_struct(row) for row in table.to_pylist()] for table in tables], 0, 0
    for name, output in zip(names, [stream.finish() for stream in streams], strict=True):
        definition = DEFINITIONS[name]
        watermark = DELAY if definition.windowed.windows.by_time else None
        found = testing.run(definition, records, watermark, schema=f"{SCHEMA}, {WHO}", restart_between=name == "values")
        # Spark moves the watermark of the source, also if no window closes by it.
        assert len(found) == len(output.tables) - (watermark is None), name
        assert not any(output.tables[number] for number in range(len(found), len(output.tables))), name
        for number, batch in enumerate(found):
            rows = output.tables[number]
            late = [each for row in rows if row.get("late") and (each := late_of(definition, row))]
            rows = [row for row in rows if row.get("late") is None]
            assert shown(row.asDict(recursive=True) for row in batch.rows) == shown(rows), (name, number)
            assert shown(row.asDict(recursive=True) for row in batch.late) == shown(late), (name, number)
            emitted, late_rows = emitted + len(batch.rows), late_rows + len(batch.late)
            for counter in (*REFUSED, "results"):  # others depend on caches and the number of buckets
                assert output.counters(counter).get(number, 0) == batch.counters[counter], (name, number, counter)
            if batch.watermark:
                assert output.watermarks()[number] == batch.watermark.timestamp() * 1000
    assert emitted > 50
    assert late_rows > 5
