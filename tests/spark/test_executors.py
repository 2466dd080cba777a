"""Real executor processes: the core on a cluster of two on this machine, with the packages shipped as docs/deploy says.

The driver is a process of its own, and so are two executors. None of them has the repository on its path: the driver
has a zip of the packages in `PYTHONPATH`, a worker of an executor finds them only if they were shipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import LOCAL_CHECKPOINTS, QUICK

ROOT = Path(__file__).resolve().parents[2]

JOB = """
import json, os

from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
if {artifact}:
    spark.addArtifacts({artifact}, pyfile=True)

import combinators as C
from slicing import Aggregate, group_by, hopping

def place(total):
    return os.getcwd()  # every executor has a directory of its own

sums = [lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, lambda ab, a: ab - a]
schema = "key bigint, ts timestamp, v bigint"
results = dict(
    records=C.count(), total=C.sum("v"), most=C.max("v"), mean=C.mean("v"),
    mine=Aggregate(*sums).on("v"), place=Aggregate(*sums, place, returns="string").on("v"),
)

def windowed(frame):
    return group_by(frame, "key").window(hopping("10 minutes", "1 minute"), time="ts").aggregate(**results)

def rows(frame, *names):
    return sorted((r.key, r.window.start.isoformat(), *(r[n] for n in names)) for r in frame.collect())

names = ["records", "total", "most", "mean"]
stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet("events")
query = (
    windowed(stream.withWatermark("ts", "1 minute")).writeStream.format("memory").queryName("out")
    .option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
out = spark.table("out")
closed = F.col("window.end") <= F.lit(query.lastProgress["eventTime"]["watermark"]).cast("timestamp")
events = spark.read.schema(schema).parquet("events")
spark_aggregates = [F.count("*"), F.sum("v"), F.max("v"), F.avg("v")]
theirs = events.groupBy("key", F.window("ts", "10 minutes", "1 minute").alias("window"))
theirs = theirs.agg(*(column.alias(name) for column, name in zip(spark_aggregates, names)))
whole = windowed(events)
found = dict(
    driver=os.getcwd(),
    places=sorted({{r.place for r in out.select("place").distinct().collect()}}),
    bounded_places=sorted({{r.place for r in whole.select("place").distinct().collect()}}),
    stream=rows(out, *names) == rows(theirs.where(closed), *names),
    mine=out.where("mine <> total").count(),
    bounded=rows(whole, *names) == rows(theirs, *names),
    count=out.count(),
)
open("found", "w").write(json.dumps(found))
spark.stop()
"""

CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.log.level": "ERROR",
    # No task before both executors are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.enabled": "false",
}


def events(directory):
    """Six files of a few thousand records, in time order."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(5)
    directory.mkdir()
    for number in range(6):
        times = 1_700_006_400 * 10**6 + (number * 600 + rng.uniform(0, 600, 3000)) * 10**6
        columns = {
            "key": rng.integers(0, 50, 3000),
            "ts": pa.array(np.sort(times).astype(np.int64), pa.timestamp("us", "UTC")),
            "v": rng.integers(-1000, 1000, 3000),
        }
        path = directory / f"{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1e9 + number, 1e9 + number))


def submit(root, shipped):
    """Run the job on a cluster; `shipped` is "py-files", "addArtifacts" or None. Returns its log and what it found."""
    events(root / "events")
    zipped = shutil.make_archive(str(root / "spark-slicing"), "zip", _packages(root))
    (root / "job.py").write_text(JOB.format(artifact=repr(zipped if shipped == "addArtifacts" else None)))
    home = os.environ["SPARK_HOME"]
    command = [f"{home}/bin/spark-submit", "--master", "local-cluster[2,1,1024]"]
    for name, value in (CLUSTER | {"spark.local.dir": str(root / "local")}).items():
        command += ["--conf", f"{name}={value}"]
    command += ["--py-files", zipped] if shipped == "py-files" else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    environment |= {"TZ": "UTC", **_isolated(root)}
    ran = subprocess.run(
        [*command, "job.py"], cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240
    )
    found = root / "found"
    return ran.stdout.decode(), json.loads(found.read_text()) if found.exists() else None


def _packages(root):
    """A directory with the two packages and nothing else, as docs/deploy zips them."""
    for package in ("slicing", "combinators"):
        shutil.copytree(ROOT / package, root / "packages" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return root / "packages"


def _isolated(root):
    """A Python that has the installed packages, but not this repository, however that was installed."""
    python = root / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    # The zip is on the driver's path relative to where the driver was started, which is not where executors run.
    places = dict.fromkeys(["spark-slicing.zip", sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    return {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python), "PYTHONPATH": os.pathsep.join(places)}


@pytest.mark.slow
@pytest.mark.parametrize("shipped", ["py-files", pytest.param("addArtifacts", marks=pytest.mark.long)])
def test_packages_are_shipped_to_two_executors_and_the_rows_are_those_of_spark(tmp_path, shipped):
    isolated = _isolated(tmp_path)
    alone = subprocess.run(
        [isolated["PYSPARK_PYTHON"], "-c", "import slicing"], cwd=tmp_path, env=os.environ | isolated
    )
    assert alone.returncode, "a worker has the packages only if they are shipped"
    log, found = submit(tmp_path, shipped)
    assert found is not None, log[-3000:]
    assert len(found["places"]) == 2, "both executors made rows"
    assert found["driver"] not in found["places"] + found["bounded_places"]
    assert found["count"] > 1000
    assert found["mine"] == 0
    assert found["stream"]
    assert found["bounded"]


@pytest.mark.long
def test_without_shipping_the_workers_do_not_find_the_packages(tmp_path):
    log, found = submit(tmp_path, None)
    assert found is None
    assert re.search(r"ModuleNotFoundError: No module named '(slicing|combinators)'", log), log[-3000:]
