"""A checkpoint that moves to other numbers of shuffle partitions in a stream, by Spark's own repartitioning."""

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from streams import ARROW, MINUTE, SECOND, START, run, source, write
from test_restart import copy

import combinators as C
from slicing import InvalidValue, describe, group_by, hopping
from slicing.spark.lookup import LookupRequest
from slicing.stages.labels import labels_of
from slicing.state.format.buckets import Buckets
from slicing.state.format.labels import hash_of, labels

WINDOW = hopping("3 minutes", "1 minute")


def file_of(keys, number):
    """A record of each key in the minute of a file; `n` tells key and file."""
    columns = {
        "world": pa.array(range(keys), pa.int64()),
        "ts": pa.array([START + number * MINUTE + at % 60 * SECOND for at in range(keys)], pa.timestamp("us", "UTC")),
        "n": pa.array([at * 10 + number for at in range(keys)], pa.int64()),
    }
    return pa.table([columns.get(f.name, pa.nulls(keys, f.type)) for f in ARROW], schema=ARROW)


def query(spark, files, buckets):
    return group_by(source(spark, files), "world").window(WINDOW, time="ts").buckets(buckets).define(total=C.sum("n"))


def rows_of(outputs):
    found = pa.concat_tables(table for output in outputs for table in output.tables.values())
    return found.sort_by([("world", "ascending"), ("window", "ascending")]) if len(found) else found


def shares(spark, checkpoint, partitions):
    """How many keys each partition has, by the place of each bucket's label in Spark's shuffle."""
    found = Counter()
    for bucket in describe(spark, str(checkpoint)).buckets:
        found[int(hash_of(bucket.label)) % partitions] += bucket.keys
    return [found[each] for each in range(partitions)]


def moves(spark, root, keys, buckets, partitions, setting):
    """Move through numbers of partitions, a file or two with each; the sessions have another setting each time."""
    files, checkpoint = root / "files", root / "checkpoint"
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions[0]))
    outputs, spread, number = [], [], 0
    try:
        for step, count in enumerate(partitions):
            if step:
                spark._streamingCheckpointManager.repartition(str(checkpoint), count)
                spark.conf.set("spark.sql.shuffle.partitions", str(setting(count)))
            write([file_of(keys, number + each) for each in range(2)], files, first=number)
            number += 2
            (output,) = run(query(spark, files, buckets).dataframe(), checkpoint=checkpoint)
            outputs.append(output)
            used = {each["stateOperators"][0]["numShufflePartitions"] for each in output.progress.values()}
            assert used == {count}
            spread.append(shares(spark, checkpoint, count))
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions[0]))
        (whole,) = run(query(spark, files, buckets).dataframe(), checkpoint=root / "at once")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert rows_of(outputs).drop_columns(["window"]).equals(rows_of([whole]).drop_columns(["window"]))
    assert rows_of(outputs)["window"].to_pylist() == rows_of([whole])["window"].to_pylist()
    assert len(rows_of(outputs)) >= 2 * keys * (len(partitions) - 1)
    return spread


@pytest.mark.slow
def test_a_checkpoint_moves_to_more_partitions_and_back(spark, tmp_path, monkeypatch):
    spread = moves(spark, tmp_path, keys=400, buckets=4, partitions=(2, 4, 3), setting=lambda count: count + 1)
    assert [len(each) for each in spread] == [2, 4, 3]
    assert all(min(each) > 0.7 * max(each) for each in spread[:2]), "3 does not divide the number of buckets"
    asked = query(spark, tmp_path / "files", 4)
    moved = copy(tmp_path, tmp_path / "moved")
    spark._streamingCheckpointManager.repartition(str(moved), 4)
    assert "4 over 4 shuffle partitions, 1." in str(describe(spark, str(moved)))
    monkeypatch.setattr(LookupRequest, "_of_all", None)
    (row,) = asked.lookup(str(moved), keys=[7], latest=True).collect()
    assert row["total"] == 3 * 70 + 3 + 4 + 5, "the partition of the key is found by the number of now"


@pytest.mark.long
def test_all_partitions_have_equal_shares_wherever_a_checkpoint_moves(spark, tmp_path):
    spread = moves(spark, tmp_path, keys=200_000, buckets=64, partitions=(8, 16, 64, 8), setting=lambda _: 3)
    assert all(max(each) <= 1.1 * min(each) for each in spread), [(min(each), max(each)) for each in spread]


@pytest.mark.slow
def test_without_a_number_of_buckets_a_restart_on_other_partitions_names_it(spark, tmp_path):
    def frame():
        windowed = group_by(source(spark, tmp_path / "files"), "world").window(WINDOW, time="ts")
        return windowed.define(total=C.sum("n"))

    write([file_of(20, 0)], tmp_path / "files")
    run(frame().dataframe(), checkpoint=tmp_path / "checkpoint")
    write([file_of(20, 1)], tmp_path / "files", first=1)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        (change,) = frame().changes(str(tmp_path / "checkpoint"))
        assert "Say `.buckets(2)`, with any number of shuffle partitions. With another" in change.effect
        said = r"buckets: `2` in the checkpoint, `3` in the query.*Say `\.buckets\(2\)`"
        with pytest.raises(StreamingQueryException, match=said):
            run(frame().dataframe(), checkpoint=copy(tmp_path, tmp_path / "other"))
        chosen = group_by(source(spark, tmp_path / "files"), "world").window(WINDOW, time="ts").buckets(2)
        assert not chosen.define(total=C.sum("n")).changes(str(tmp_path / "checkpoint"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


# Without Spark.


@pytest.mark.parametrize("count", [1, 2, 6, 64, 200])
def test_buckets_lie_evenly_in_every_number_of_partitions_that_divides_theirs(count):
    chosen = hash_of(labels(count, count))
    for partitions in (each for each in range(1, count + 1) if count % each == 0):
        assert set(Counter((chosen % partitions).tolist()).values()) == {count // partitions}


def test_so_do_keys():
    label = labels_of(pa.table({"key": pa.array(range(300_000))}), labels(64, 64))
    for partitions in (1, 2, 4, 8, 16, 32, 64):
        found = Counter((hash_of(label) % partitions).tolist()).values()
        assert len(found) == partitions
        assert max(found) <= 1.1 * min(found)


def test_checkpoints_of_before_keep_the_labels_that_they_have():
    """As many buckets as partitions have the same labels; others are told by `over`."""
    assert Buckets.of("8 over 8 shuffle partitions") == Buckets(8)
    assert Buckets.of("1 over 200 shuffle partitions") == Buckets(1)
    assert Buckets.of("64 over 8 shuffle partitions") == Buckets(64, 8) == Buckets.of(Buckets(64, 8).text)
    assert str(Buckets.of("64 over 8 shuffle partitions")) == "64, over=8"
    assert Buckets.of("64") == Buckets(64)
    assert labels(64, Buckets(64, 8).even_over) != labels(64, Buckets(64).even_over)
    assert repr(group_by("a").window(WINDOW, time="ts").buckets(64, over=8)).endswith(".buckets(64, over=8)")
    with pytest.raises(InvalidValue, match="`over` must be a positive integer; got 0"):
        group_by("a").window(WINDOW, time="ts").buckets(64, over=0)
