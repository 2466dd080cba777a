"""The second pipeline: windows over the stream of `payments`, which is a table of the first."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import combinators as C
from slicing import group_by, hopping, on_update, tumbling

spark = SparkSession.active()
SCHEMA = "user string, ts timestamp, amount bigint"
STREAM = {"streaming": True, "watermark": "10 minutes", "partitions": 2}
RESULTS = {"orders": C.count(), "spent": C.sum("amount")}

hourly = group_by("user").window(hopping("1 hour", "15 minutes"), time="ts").define(**RESULTS)
updated = group_by("user").window(tumbling("1 hour"), time="ts").emit(on_update()).define(**RESULTS)


def payments() -> DataFrame:
    return spark.readStream.table("payments")


@dp.table
def hourly_spend() -> DataFrame:
    return payments().transform(hourly.declare(SCHEMA, **STREAM))


@dp.table
def spend_updates() -> DataFrame:
    return payments().transform(updated.declare(SCHEMA, **STREAM))


@dp.materialized_view
def spend_now() -> DataFrame:
    """Each window once, as it is now."""
    newest = F.max_by(F.struct("orders", "spent", "revision"), "revision").alias("newest")
    return spark.read.table("spend_updates").groupBy("user", "window").agg(newest).select("user", "window", "newest.*")


@dp.materialized_view
def spend_history() -> DataFrame:
    """Each window as often as it changed; `until` is the revision that replaced the row, null in the newest."""
    following = F.lead("revision").over(Window.partitionBy("user", "window").orderBy("revision"))
    return spark.read.table("spend_updates").select("*", following.alias("until"))
