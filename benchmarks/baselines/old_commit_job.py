"""Runs queries of `slicing` of some tree in a separate process, which `benchmarks.baselines.old_commit` starts.

`PYTHONPATH=TREE python -P old_commit_job.py OPTIONS`. Each input line is a query in JSON, which runs to its end; each
output line has its figures. It uses only the public interface and nothing of this project's benchmarks, which belong to
another tree.
"""

import json
import statistics
import sys
import tempfile
import time

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

import combinators as C
import slicing
from slicing import group_by, hopping, on_close, on_update

EMISSIONS = {"append": on_close, "update": on_update}
COUNTED = ("partials_read", "partials_written")
WINDOWS = {
    "hopping": lambda size, advance: (hopping(size, advance),),
    "several": lambda size, advance: (
        hopping(size, advance),
        slicing.tumbling("10 minutes"),
        hopping("30 minutes", advance),
    ),
    "sessions": lambda size, _: (slicing.session(size),),
    "sliding": lambda size, _: (slicing.sliding(size),),
}
"""The windows of each kind, for a size and an advance. Old commits have only hopping windows, so others come late."""


def main(options):
    """Run the queries from the input until it ends."""
    builder = SparkSession.builder
    for name, value in json.loads(options).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    answer({"ready": slicing.__file__})
    for line in sys.stdin:
        query = json.loads(line)
        answer((bounded if query.pop("bounded", False) else stream)(spark, **query))
    spark.stop()


def answer(value):
    """Print a line that the other process can distinguish from Spark's output."""
    print(f"answer {json.dumps(value)}", flush=True)


def stream(
    spark,
    path,
    files,
    schema,
    delay,
    size,
    advance,
    last,
    column="v",
    tree="auto",
    mode="append",
    hashed=False,
    functions="columns",
    kind="hopping",
):
    """Run a stream; return medians of the `last` micro-batches; `hashed` also sums hashes of rows, which costs time.

    `functions` are "columns" for combinators, "plain" for plain functions, or "rows" for plain ones that cannot be
    traced.
    """
    source = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(path).withWatermark("ts", delay)
    )
    windowed = (
        group_by(source, "key").window(*WINDOWS[kind](size, advance), time="ts").assemble(tree).emit(EMISSIONS[mode]())
    )
    out = aggregated(windowed, functions, column)
    if hashed:
        out = out.observe("made", *made_of())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = out.writeStream.format("noop").outputMode(mode).option("checkpointLocation", checkpoint)
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        progress = running.recentProgress
    full = [each for each in progress if each["numInputRows"]][-last:]
    made = [each["observedMetrics"]["made"].asDict() for each in progress if "made" in each["observedMetrics"]]
    return {
        "seconds": statistics.median(each["durationMs"]["triggerExecution"] / 1000 for each in full),
        "rows": sum(each["count"] for each in made),
        "hashes": str(sum(int(each["hashes"] or 0) for each in made)),
        "partials": [statistics.fmean(observed(each, name) for each in full) for name in COUNTED],
    }


def bounded(spark, path, schema, size, advance, hashed=False, functions="columns"):
    """Run a bounded query and return its seconds; the arguments are those of `stream`."""
    windowed = group_by(spark.read.schema(schema).parquet(path), "key").window(hopping(size, advance), time="ts")
    out, made = aggregated(windowed, functions, "v"), Observation("made")
    if hashed:
        out = out.observe(made, *made_of())
    start = time.monotonic()
    out.write.format("noop").mode("overwrite").save()
    seconds = time.monotonic() - start
    found = made.get if hashed else {"count": 0, "hashes": 0}
    return {"seconds": seconds, "rows": found["count"], "hashes": str(found["hashes"])}


def made_of():
    """Return the number of rows and the sum of their hashes, as observed metrics."""
    rows = F.xxhash64("key", "window", "records", "total").cast("decimal(38,0)")
    return F.count("*").alias("count"), F.sum(rows).cast("string").alias("hashes")


def aggregated(windowed, functions, column):
    """Return count and sum by the chosen functions; untraceable ones read a list, which may change."""
    if functions == "columns":
        return windowed.aggregate(records=C.count(), total=C.sum(column))
    unit = [1]
    plain = (
        lambda acc, v: (acc[0] + 1, acc[1] + v),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        lambda a, b: (a[0] - b[0], a[1] - b[1]),
    )
    untraceable = (
        lambda acc, v: (acc[0] + unit[0], acc[1] + v),
        lambda a, b: (a[0] + b[0] * unit[0], a[1] + b[1]),
        lambda a, b: (a[0] - b[0] * unit[0], a[1] - b[1]),
    )
    chosen = {"plain": plain, "rows": untraceable}[functions]
    out = windowed.aggregate(lambda: (0, 0), *chosen, value=column, partial="n long, total long")
    return out.select("key", "window", F.col("value.n").alias("records"), "value.total")


def observed(progress, name):
    """Return the sum of an engine's counter; 0 if that version does not have it."""
    return sum(metrics.asDict().get(name) or 0 for metrics in progress["observedMetrics"].values())


if __name__ == "__main__":
    main(sys.argv[1])
