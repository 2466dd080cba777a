"""What `merge_into` asks of a table and of each micro-batch; tables of Delta Lake and Iceberg are in test_tables."""

import pickle
from datetime import datetime

import pytest

from slicing import InvalidType, InvalidValue, merge_into

ROWS = "user string, window struct<start: timestamp, end: timestamp>, spent bigint, emission string, revision bigint"


def row(user, minute, spent, revision, emission="update"):
    return user, (datetime(2024, 5, 1, 12, minute), datetime(2024, 5, 1, 12, minute + 10)), spent, emission, revision


def test_only_the_newest_row_of_a_key_is_merged(spark):
    rows = [row("ada", 0, 1, 3), row("ada", 0, 2, 5), row("ada", 5, 3, 5), row(None, 0, 4, 1), row(None, 0, 5, 2)]
    frame = spark.createDataFrame(rows, ROWS)
    by_window = merge_into("t", "user", "window").newest(frame)
    assert by_window.columns == frame.columns
    assert sorted(found.spent for found in by_window.collect()) == [2, 3, 5]
    assert sorted(found.spent for found in merge_into("t", "user").newest(frame).collect()) == [3, 5], "the last window"
    closed = frame.drop("emission", "revision")
    assert sorted(found.spent for found in merge_into("t", "user", "window.start").newest(closed).collect())[1] == 3


def test_the_statement_goes_by_what_rows_say(spark):
    frame = spark.createDataFrame([], ROWS)
    statement = merge_into("delta.`/a{b}`", "user", "window").statement(frame).format(incoming="rows")
    assert statement == (
        "MERGE INTO delta.`/a{b}` AS kept USING rows AS incoming "
        "ON kept.`user` <=> incoming.`user` AND kept.`window` <=> incoming.`window` "
        "WHEN MATCHED AND struct(incoming.`revision`, incoming.`window`.`end`) > "
        "struct(kept.`revision`, kept.`window`.`end`) AND incoming.emission IN ('drained', 'merged') THEN DELETE "
        "WHEN MATCHED AND struct(incoming.`revision`, incoming.`window`.`end`) > "
        "struct(kept.`revision`, kept.`window`.`end`) THEN UPDATE SET * "
        "WHEN NOT MATCHED AND NOT incoming.emission IN ('drained', 'merged') THEN INSERT *"
    )
    closed = merge_into("t", "user", "window.start").statement(frame.drop("emission", "revision"))
    assert "kept.`window`.`start` <=> incoming.`window`.`start`" in closed
    assert "WHEN MATCHED AND struct(incoming.`window`.`end`) > struct(kept.`window`.`end`) AND false" in closed


def test_what_cannot_be_merged_is_refused(spark):
    for given in ((1, "user"), ("t", None)):
        with pytest.raises(InvalidType, match="takes names, of a table and of columns"):
            merge_into(*given)
    for given in (("t",), (" ", "user")):
        with pytest.raises(InvalidValue, match="a table and the columns that tell its rows apart"):
            merge_into(*given)
    frame = spark.createDataFrame([], ROWS)
    with pytest.raises(InvalidValue, match="got `who`, and the rows have user, window, spent, emission, revision"):
        merge_into("t", "who").statement(frame)
    with pytest.raises(InvalidValue, match="by `revision`, `window` or `window_end`; these have user, spent"):
        merge_into("t", "user").statement(frame.select("user", "spent"))
    merging = merge_into("t", "user")
    assert pickle.loads(pickle.dumps(merging)) == merging, "over Spark Connect it goes to the server"
