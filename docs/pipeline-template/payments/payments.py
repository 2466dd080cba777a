"""The first pipeline: files become the table `payments`, and days of it a materialized view of the same graph."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import combinators as C
from slicing import group_by, tumbling

spark = SparkSession.active()
FOLDER = Path(__file__).resolve().parent.parent / "incoming"
SCHEMA = "user string, ts timestamp, amount bigint"

daily = (
    group_by("user")
    .window(tumbling("1 day"), time="ts")
    .define(orders=C.count(), spent=C.sum("amount"))
    .declare(SCHEMA, partitions=2)
)


@dp.table
def payments() -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"file://{FOLDER}")


@dp.materialized_view
def daily_spend() -> DataFrame:
    return spark.read.table("payments").transform(daily)
