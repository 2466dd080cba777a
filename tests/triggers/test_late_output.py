"""Late rows on Spark: one query with two outputs, split by the public helpers, written exactly once."""

from collections import Counter
from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from streams import (
    MINUTE,
    POWER_CUT,
    SECOND,
    START,
    Running,
    brute,
    micros,
    record,
    run,
    source,
    table,
    worlds,
    write,
)

import combinators as C
from slicing import Aggregate, InvalidValue, group_by, hopping, late_partials, late_records, results, tumbling

WINDOW = hopping("20 minutes", "5 minutes")
DELAY = MINUTE
BEFORE = 2
"""Files read by a query that only counts, before one that puts late rows out continues from its checkpoint."""

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


class Outputs:
    """Three directories, in which every micro-batch overwrites its own part; `fail` ends a run between two writes."""

    names = ("results", "partials", "records")

    def __init__(self, root):
        self.root, self.fail, self.counted = root, set(), {}

    def sink(self, batch, number):
        """For foreachBatch, as docs/deploy.md has it."""
        batch.persist()
        parts = dict(zip(self.names, (results(batch), late_partials(batch), late_records(batch)), strict=True))
        for name, part in parts.items():
            if number in self.fail and name == "partials":
                self.fail.remove(number)
                raise RuntimeError(POWER_CUT)
            part.write.mode("overwrite").parquet(f"{self.root}/{name}/micro_batch={number}")
        batch.unpersist()

    def note(self, query):
        """Take over the counters of the micro-batches that ran."""
        for each in query.recentProgress:
            if "addBatch" in each["durationMs"]:
                (self.counted[each["batchId"]],) = (row.asDict() for row in each["observedMetrics"].values())

    def read(self, spark):
        """What is in the three directories."""
        return [spark.read.parquet(f"{self.root}/{name}").collect() for name in self.names]


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """Counts first; then records from the same checkpoint, in which a micro-batch fails between two writes."""
    root = tmp_path_factory.mktemp("late")
    tables = worlds("late", files=6, count=20)
    write(tables[:BEFORE], root / "files")
    windowed = group_by(source(spark, root / "files", f"{DELAY} microseconds"), "world").window(WINDOW, time="ts")
    asked = {"records": C.count(), "total": C.sum("n"), "longest": C.max("s")}
    # A micro-batch without data would come between the files, and move the watermark.
    spark.conf.set(NO_DATA, "false")
    run(windowed.aggregate(**asked), checkpoint=root / "checkpoint")
    spark.conf.unset(NO_DATA)
    write(tables[BEFORE:], root / "files", first=BEFORE)

    outputs = Outputs(root)
    outputs.fail = {BEFORE + 1}
    Running(windowed.late("records").aggregate(**asked), root / "checkpoint", {"availableNow": True}, outputs).finish()
    assert not outputs.fail
    return brute(tables, WINDOW, DELAY), outputs.read(spark), outputs.counted


def later(truth):
    return [each for each in truth.refused if each[0] >= BEFORE and each[1].startswith("late")]


@pytest.mark.slow
@pytest.mark.versions
def test_results_are_written_once_and_are_those_of_a_query_that_only_counts(story):
    truth, (rows, _, _), _ = story
    found = [((r.micro_batch, r.world, micros(r.window.start)), (r.records, r.total)) for r in rows]
    assert len(found) == len(dict(found)) > 100
    expected = {place: (row["records"], row["total"]) for place, row in truth.rows.items() if place[0] >= BEFORE}
    assert dict(found) == expected


def test_late_records_are_exactly_the_refused_ones(story):
    truth, (_, _, rows), _ = story
    found = Counter(
        (r.micro_batch, r.late.cause, micros(r.late.watermark) // 1000, r.world, micros(r.ts), r.n) for r in rows
    )
    assert found == Counter(later(truth))
    assert found.total() > 50
    assert all(micros(r.late.slice.start) <= micros(r.ts) < micros(r.late.slice.end) for r in rows)


def test_late_partials_are_those_of_the_late_records(story):
    _, (_, partials, rows), _ = story
    values = {}
    for r in rows:
        values.setdefault((r.micro_batch, r.world, r.late.slice.start), []).append(r)
    found = {(r.micro_batch, r.world, r.late.slice.start): r for r in partials}
    assert len(found) == len(partials)
    assert found.keys() == values.keys()
    for place, held in values.items():
        known = [r.n for r in held if r.n is not None]
        partial = found[place]
        assert partial.records == partial.late.records == len(held)
        assert partial.total == (sum(known) if known else None)
        assert partial.longest == max((r.s for r in held if r.s is not None), default=None)
        tag = partial.late.asDict(recursive=True)
        assert tag.pop("records")
        assert all(r.late.asDict(recursive=True) == tag for r in held)


def test_what_late_partials_met(story):
    """The first window that took them starts after the last that did not; all that they missed had ended."""
    _, (_, partials, _), _ = story
    for tag in (r.late for r in partials):
        begins = [micros(tag.slice.start) - i * WINDOW.advance for i in range(WINDOW.size // WINDOW.advance)]
        taken = [begin for begin in begins if begin + WINDOW.size > micros(tag.watermark)]
        assert tag.missed == len(begins) - len(taken) > 0
        assert tag.cause == ("late_for_some" if taken else "late")
        assert (tag.first_window and micros(tag.first_window.start)) == (min(taken) if taken else None)
        assert tag.first_window is None or micros(tag.first_window.end) == min(taken) + WINDOW.size


@pytest.mark.versions
def test_late_rows_agree_with_the_observed_counters(story):
    truth, (_, partials, rows), counted = story
    for cause in ("late", "late_for_some"):
        observed = {batch: counts[cause] for batch, counts in counted.items() if counts[cause]}
        for found in (
            Counter({r.micro_batch: 0 for r in rows}) + sum_by(partials, cause),
            Counter(r.micro_batch for r in rows if r.late.cause == cause),
        ):
            assert dict(found) == observed
        assert {b: n for b, n in truth.counters[cause].items() if b >= BEFORE} == observed


def sum_by(partials, cause):
    found = Counter()
    for r in partials:
        if r.late.cause == cause:
            found[r.micro_batch] += r.late.records
    return found


# --- small streams --------------------------------------------------------------------------------------------------


def small_stream(spark, directory):
    """Two keys; a jump of the watermark to START + 100 s, then one record late for all windows, one for some."""
    late = [record(1, START + 3 * SECOND, n=7, x=0.5), record(1, START + 97 * SECOND, n=9, x=None)]
    write(map(table, ([record(1, START)], [record(2, START + 100 * SECOND)], [], late)), directory)
    return source(spark, directory)


def collected(spark, frame, name):
    query = frame.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.table(name)


@pytest.mark.slow
def test_columns_and_keys_of_all_kinds_come_back_as_they_were(zone, tmp_path):
    """In a session whose time zone is not UTC, which must not matter to any kind of time."""
    frame = small_stream(zone, tmp_path).withColumn("key", F.struct("world", F.col("s").alias("letter")))
    noon = F.expr("timestamp_ntz'2024-05-01 12:00:00'")
    frame = frame.withColumns({"price": F.col("m"), "word": F.concat("s", F.lit(" é")), "noon": noon})
    windowed = group_by(frame, "key", "d", "price", "word", "noon").window(
        hopping("10 seconds", "5 seconds"), time="ts"
    )
    wide = windowed.late("records").aggregate(
        n=C.sum("n"), x=C.max("x"), m=C.sum("m"), day=C.max("d"), at=C.max("ts"), letters=C.max("s")
    )
    out = collected(zone, wide, "kinds")
    rows = late_records(out).orderBy("ts").collect()
    partials = late_partials(out).orderBy("late.slice.start").collect()
    assert late_records(out).columns == ["key", "d", "price", "word", "noon", "ts", "n", "x", "m", "s", "late"]
    for each in (*rows, *partials):
        keys = tuple(each.key), each.d, each.price, each.word, each.noon
        assert keys == ((1, "a"), date(2024, 2, 29), Decimal("1.25"), "a é", datetime(2024, 5, 1, 12))
    assert [(micros(r.ts) - START, r.n, r.x, r.m, r.s) for r in rows] == [
        (3 * SECOND, 7, 0.5, Decimal("1.25"), "a"),
        (97 * SECOND, 9, None, Decimal("1.25"), "a"),
    ]
    assert [r.late.cause for r in rows] == ["late", "late_for_some"]
    assert [(r.n, r.x, r.m, micros(r.at) - START, r.letters) for r in partials] == [
        (7, 0.5, Decimal("1.25"), 3 * SECOND, "a"),
        (9, None, Decimal("1.25"), 97 * SECOND, "a"),
    ]
    for each in (rows, partials):
        met = [(micros(r.late.slice.start), micros(r.late.watermark), r.late.missed) for r in each]
        assert met == [(START, START + 100 * SECOND, 2), (START + 95 * SECOND, START + 100 * SECOND, 1)]
        assert micros(each[1].late.first_window.end) == START + 105 * SECOND
    for found in (late_records(out), late_partials(out)):
        met = found.select("late.slice.*", "late.watermark", "late.first_window.*")
        assert {each.dataType for each in met.schema} == {frame.schema["ts"].dataType}


@pytest.mark.slow
def test_the_eager_strategy_without_keys(spark, tmp_path):
    frame = small_stream(spark, tmp_path)
    squares = Aggregate(lambda: 0, lambda acc, n: acc + n * n).on("n")
    windowed = group_by(frame).window(hopping("10 seconds", "5 seconds"), time="ts").late("records")
    out = collected(spark, windowed.aggregate(squares=squares), "eager")
    assert sorted((r.squares, r.late.records, r.late.cause) for r in late_partials(out).collect()) == [
        (49, 1, "late"),
        (81, 1, "late_for_some"),
    ]
    assert sorted((micros(r.ts) - START, r.n) for r in late_records(out).collect()) == [
        (3 * SECOND, 7),
        (97 * SECOND, 9),
    ]
    assert [r.squares for r in results(out).collect()] == [1, 1]


@pytest.mark.slow
def test_a_further_aggregation_may_follow_the_results(spark, tmp_path):
    windowed = group_by(small_stream(spark, tmp_path), "world").window(tumbling("5 seconds"), time="ts")
    tagged = windowed.late("partials").aggregate(total=C.sum("n"))
    assert tagged.schema["window"].metadata
    totals = results(tagged).groupBy("window").agg(F.sum("total").alias("total"))
    out = collected(spark, totals, "further")
    assert [(micros(r.window.start) - START, r.total) for r in out.collect()] == [(0, 1)]


# --- where there is nothing to put out ------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["counts", "partials", "records"])
def test_bounded_input_has_no_late_rows(spark, output):
    frame = spark.createDataFrame([(1, datetime(2024, 5, 1, 12), 3)], "k long, ts timestamp, n long")
    windowed = group_by(frame, "k").window(tumbling("1 hour"), time="ts")
    plain, tagged = windowed.aggregate(n=C.sum("n")), windowed.late(output).aggregate(n=C.sum("n"))
    assert tagged.schema == plain.schema
    assert tagged.collect() == plain.collect() == results(tagged).collect()
    with pytest.raises(InvalidValue, match=r"tagged by a column `late`.*the columns are k, window, n"):
        late_partials(tagged)


def test_explain_says_what_the_shuffle_carries(spark, tmp_path, capsys):
    windowed = group_by(small_stream(spark, tmp_path), "world").window(WINDOW, time="ts")
    lines = {}
    for output in ("counts", "partials", "records"):
        windowed.late(output).explain(total=C.sum("n"), least=C.min("s"))
        lines[output] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("late")]
    assert lines == {
        "counts": [],
        "partials": ["late     late rows are emitted; nothing more is shuffled or stored"],
        "records": [
            "late     late rows and records are emitted; the shuffle carries every record, about 48 bytes each"
        ],
    }
    assert windowed.late("records").plan(n=C.count()).record_bytes == 24
