"""A checkpoint in another place, as docs/live-changes.md has it: what can be asked, and when its query continues."""

import shutil
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from rooms import ROOT
from streams import MINUTE, SECOND, START, record, run, source, table, write

import combinators as C
from slicing import StateMismatch, describe, group_by, hopping
from slicing.spark.checkpoint import State


def defined(spark, folder):
    windowed = group_by(source(spark, folder), "world").window(hopping("2 minutes", "1 minute"), time="ts")
    return windowed.define(n=C.count())


def correct_paths():
    """The function of the page."""
    text = (ROOT / "docs" / "live-changes.md").read_text(encoding="utf-8")
    (block,) = (
        each.split("```")[0] for each in text.split("```python\n") if "def correct_paths" in each.split("```")[0]
    )
    namespace = {}
    exec(block, namespace)
    return namespace["correct_paths"]


def asked(spark, definition, checkpoint):
    """What can be asked of a checkpoint; its own place is named in some answers."""
    where = str(checkpoint)
    return (
        definition.lookup(where, keys=[1], latest=True).collect(),
        definition.lookup_partials(where).count(),
        str(definition.changes(where)),
        str(describe(spark, where)).replace(where, "here"),
    )


def rows(output):
    return {(place[1:], row["n"]) for place, row in output.rows("world").items()}


def test_it_is_asked_and_goes_on_where_its_schema_is_found(spark, tmp_path):
    old, copied, moved = tmp_path / "old", tmp_path / "copied", tmp_path / "moved"
    write([table([record(key, START + key * SECOND) for key in range(4)])], tmp_path / "in")
    definition = defined(spark, tmp_path / "in")
    run(definition.dataframe(), checkpoint=old)
    shutil.copytree(old, copied)
    right = asked(spark, definition, old)
    assert asked(spark, definition, copied) == right

    write([table([record(1, START + 5 * MINUTE)])], tmp_path / "in", first=1)
    old.rename(moved)
    for question in (
        lambda: describe(spark, str(moved)),
        lambda: definition.changes(str(moved)),
        lambda: definition.lookup(str(moved), keys=[1], latest=True),
        lambda: definition.lookup_partials(str(copied)),
    ):
        with pytest.raises(
            StateMismatch, match=r"there is no `file:.*/old/state/0/_stateSchema/.*move it back, or.*\.crc"
        ):
            question()
    with pytest.raises(StreamingQueryException, match=r"_stateSchema.* does not exist"):
        run(definition.dataframe(), checkpoint=copied)

    correct_paths()(moved, old)
    assert asked(spark, definition, moved) == right
    goes_on, whole = run(definition.dataframe(), checkpoint=moved) + run(definition.dataframe())
    assert rows(goes_on) == rows(whole)
    assert rows(whole)


@pytest.mark.parametrize(
    ("said", "scheme"),
    [
        ("File {} does not exist", "file:/"),
        ("File does not exist: {}", "/"),
        ("File does not exist: {}", "hdfs://name:8020/"),
        ("No such file or directory: {}", "s3a://bucket/"),
        ("Item not found: '{}'. Note, it is possible that", "gs://bucket/"),
    ],
)
@pytest.mark.parametrize("folder", ["old", "an old one"])
def test_a_missing_schema_is_recognised_in_the_words_of_each_file_system(said, scheme, folder):
    """Their texts, as Hadoop's clients of these file systems raise them; Spark is not there."""
    gone = f"{scheme}{folder}/state/0/_stateSchema/default/0_6a1c"
    spark = MagicMock()
    failed = PySparkException(
        f"Job aborted: java.io.FileNotFoundException: {said.format(gone)}\n\tat org.apache.hadoop.x"
    )
    spark.read.format().options().load.side_effect = failed
    with pytest.raises(StateMismatch) as refused:
        State(spark, "/new", 0, 2, 0, 1, 1).headers()
    assert f"there is no `{gone}`." in str(refused.value)
    assert "`/new/state/0/_metadata/v2` and remove the `.crc` files" in str(refused.value)
