"""Checkpoints that have lost files: nothing is read as if it were whole, and `describe` says what is left."""

import re
import shutil
from types import SimpleNamespace

import pytest
from golden.checkpoint import SCHEMA, write

import combinators as C
from slicing import InvalidValue, StateMismatch, describe, group_by, tumbling


@pytest.fixture(scope="module")
def left(spark, tmp_path_factory):
    """A definition, its checkpoint, and the keys in the bucket of the partition that is to be damaged."""
    root = tmp_path_factory.mktemp("left")
    write(root / "files", 0, 3)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(root / "files"))
    windowed = group_by(stream.withWatermark("ts", "20 seconds"), "world").window(tumbling("1 minute"), time="ts")
    made = windowed.define(records=C.count())
    writer = made.dataframe().writeStream.format("noop").option("checkpointLocation", str(root / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(300)
    assert not query.exception()
    whole = describe(spark, str(root / "checkpoint"))
    assert len(whole.buckets) == 2
    assert not whole.damage
    return SimpleNamespace(definition=made, checkpoint=root / "checkpoint", whole=whole)


def all_gone(partition):
    shutil.rmtree(partition)


def changelogs_gone(partition):
    for each in partition.glob("*.changelog"):
        each.unlink()


def snapshots_damaged(partition):
    for each in (*partition.glob("*.zip"), *partition.glob(".*.zip.crc")):
        each.write_bytes(b"no archive") if each.suffix == ".zip" else each.unlink()


@pytest.mark.parametrize(
    ("damaged", "words"),
    [
        (all_gone, ()),
        (changelogs_gone, ("partition 1 cannot be read: [CANNOT_LOAD_STATE_STORE",)),
        pytest.param(snapshots_damaged, ("partition 1 cannot be read: ",), marks=pytest.mark.slow),
    ],
)
def test_a_partition_that_is_lost_is_named_and_never_left_out_of_an_answer(spark, left, tmp_path, damaged, words):
    """The rows of its keys would be missing in lookups, and its buckets in `changes`, without a word."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(left.checkpoint, checkpoint)
    damaged(checkpoint / "state" / "0" / "1")
    found = describe(spark, str(checkpoint))
    (bucket,), (lost,) = found.buckets, {*left.whole.buckets} - {*found.buckets}
    assert bucket in left.whole.buckets
    assert (found.keys, found.windows) == (left.whole.keys, left.whole.windows)
    *of_partitions, of_buckets = found.damage
    assert of_buckets == f"bucket {lost.number} is not in the store"
    assert len(of_partitions) == len(words)
    assert all(map(str.startswith, of_partitions, words))
    for ask in (left.definition.lookup, left.definition.changes):
        with pytest.raises(StateMismatch, match="The checkpoint is damaged: restore a copy of it"):
            ask(str(checkpoint))
    keys = [key for key in left.whole.largest_keys if key.bucket == lost.number]
    assert keys, "a key of the lost bucket is among the largest"
    with pytest.raises(StateMismatch, match="The checkpoint is damaged: restore a copy of it"):
        left.definition.lookup(str(checkpoint), keys=[None if keys[0].key == "None" else int(keys[0].key)])


def test_a_checkpoint_of_which_nothing_is_left_is_described(spark, left, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(left.checkpoint, checkpoint)
    for partition in (0, 1):
        changelogs_gone(checkpoint / "state" / "0" / str(partition))
    found = describe(spark, str(checkpoint))
    assert found.buckets == ()
    assert [re.match(r"partition (\d) cannot", each)[1] for each in found.damage] == ["0", "1"]
    assert "damage" in str(found)


def test_a_file_system_that_spark_does_not_know_is_said(spark):
    with pytest.raises(InvalidValue, match=r"no checkpoint of a query with state: .*Error loading"):
        describe(spark, "nofs://somewhere")
