"""Use case 2, downsampling: the statistics of a sensor in tumbling windows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.public.query import PublicQuery
from benchmarks.theodolite.statistics import of_ours, of_spark, of_sql
from slicing import group_by, tumbling


def ours(records: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of tumbling windows."""
    return group_by(records, "identifier").window(tumbling(size), time="ts").aggregate(**of_ours())


def spark(records: DataFrame, size: str, advance: str) -> DataFrame:
    """Return the statistics of Spark's windows."""
    return records.groupBy("identifier", F.window("ts", size)).agg(*of_spark())


def sql(size: int, advance: int) -> str:
    """Return the statistics of windows."""
    return f"""
        select identifier, epoch_us(ts) // {size} * {size} as window_start, window_start + {size} as window_end,
            {of_sql()}
        from records group by identifier, window_start"""


UC2 = PublicQuery("uc2", ours, spark, sql)
