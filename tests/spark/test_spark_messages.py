"""Messages of Spark that docs/errors answers: provoked here, with the remedies tried, where no other test does so."""

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from streams import MINUTE, START, Output, Running, record, source, table, write

import combinators as C
from slicing import group_by, tumbling

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
WINDOW = tumbling("1 minute")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    write([table([record(1, START + at * MINUTE)]) for at in (0, 5, 9)], place)
    return place


def condition(error):
    """The name of an error, which has to be one that the page has an answer to."""
    name = error.value.getCondition().partition(".")[0]
    assert re.search(rf"^\| `{name}`", PAGE, re.MULTILINE)
    return name


def test_names_that_collide_downstream(spark, folder, tmp_path):
    windowed = group_by(spark.read.parquet(str(folder)), "world").window(WINDOW, time="ts")
    one, other = windowed.aggregate(records=C.count()), windowed.aggregate(total=C.sum("n"))
    joined = one.join(other, (one["world"] == other["world"]) & (one["window"] == other["window"]))
    with pytest.raises(AnalysisException, match="Reference `window` is ambiguous") as error:
        joined.select("window")
    assert condition(error) == "AMBIGUOUS_REFERENCE"
    for number, twice in enumerate((joined, one.select("world", "window.*", "records", "window.start"))):
        with pytest.raises(AnalysisException) as error:
            twice.write.parquet(str(tmp_path / str(number)))
        assert condition(error) == "COLUMN_ALREADY_EXISTS"
    one.select("window.*", one["window.start"].alias("begin")).write.parquet(str(tmp_path / "renamed"))
    by_names = one.join(other, ["world", "window"])
    assert by_names.columns == ["world", "window", "records", "total"]
    assert by_names.count() == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("trigger", "rows"), [("once", 0), ("availableNow", 2)])
def test_one_micro_batch_over_all_there_is_closes_nothing(spark, folder, tmp_path, trigger, rows):
    frame = group_by(source(spark, folder, per_batch=100), "world").window(WINDOW, time="ts")
    query = Running(frame.aggregate(records=C.count()), tmp_path / "checkpoint", {trigger: True}, Output())
    assert sum(each.num_rows for each in query.finish().tables.values()) == rows
    assert "`trigger(once=True)`" in PAGE
