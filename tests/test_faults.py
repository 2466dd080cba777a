"""Failures in a live query: tasks that fail and are tried again, and lost executors.

Tasks are tried again, so the query runs in a session of its own, most of the time on a cluster of two executors on this
machine: this file is also the program of its driver. It runs the same query twice, the second time with a failure in
some of the micro-batches. Rows and counters have to be the same in every micro-batch.
"""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from functools import partial
from pathlib import Path

import pytest
from streams import Output, Running, source, worlds, write
from test_executors import CLUSTER, ROOT

import combinators as C
from slicing import Aggregate, group_by, hopping, on_change, on_update
from slicing.spark.session import LOCAL_CHECKPOINTS

TESTS = Path(__file__).resolve().parent
EMISSIONS = {str(emission): emission for emission in (on_update(), on_change(drained=True))}
FAULTS = {1: "fail lower", 2: "fail agg", 3: "lose lower", 4: "lose agg"}
"""What happens in a micro-batch, and in which function of the user: `agg` is of the first stage, `lower` of the second.

"fail" raises, "lose" kills the executor. The copies of speculation are made on other hosts only, and here is one.
"""
FILES, WINDOW = 9, hopping("10 minutes", "1 minute")
SETTINGS = CLUSTER | {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
}


# --- what runs in the workers ---------------------------------------------------------------------------------------


def disturbed(armed, function):
    """Do what the file says, if it is there and names this function; only one task gets it."""
    try:
        fault, where = armed.read_text().split()
        if where != function:
            return
        armed.rename(armed.with_name("done"))
    except (FileNotFoundError, ValueError):
        return
    with (armed.parent / "log").open("a") as log:
        log.write(f"{fault} {where}\n")
    if fault == "fail":
        raise RuntimeError("power cut")
    if fault == "lose":
        os.kill(_parent(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    time.sleep(600)


def _parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def tally(armed, acc, n):
    """Sums, and a failure if it is armed."""
    disturbed(armed, "agg")
    return acc[0] + 1, acc[1] + n % 1009


def nothing():
    return 0, 0


def join(a, b):
    return a[0] + b[0], a[1] + b[1]


def mean(armed, partial_):
    """The mean, and a failure if it is armed."""
    if partial_[0]:
        disturbed(armed, "lower")
    return partial_[1] / partial_[0] if partial_[0] else None


# --- the driver -----------------------------------------------------------------------------------------------------


def frame_of(spark, files, armed, emission):
    functions = nothing, partial(tally, armed), join
    mine = Aggregate(*functions, lower=partial(mean, armed), partial="n long, total long", returns="double").on("n")
    windowed = group_by(source(spark, files, "30 seconds"), "world").window(WINDOW, time="ts")
    return windowed.emit(emission).aggregate(records=C.count(), total=C.sum("n"), most=C.max("s"), mine=mine)


class Disturbing(Output):
    """Arms a fault for the next micro-batch when one is through."""

    def __init__(self, armed, faults):
        super().__init__()
        self.armed, self.faults = armed, faults

    def sink(self, frame, batch):
        super().sink(frame, batch)
        if batch + 1 in self.faults:
            self.armed.write_text(self.faults[batch + 1])


def ran(spark, root, emission, faults):
    """Rows and counters of every micro-batch, and what happened."""
    root.mkdir()
    output = Disturbing(root / "armed", faults)
    frame = frame_of(spark, root.parent / "files", root / "armed", emission)
    Running(frame, root / "checkpoint", {"availableNow": True}, output).finish()
    log = root / "log"
    return {
        "rows": {batch: sorted(map(repr, found.to_pylist())) for batch, found in output.tables.items()},
        "counters": {name: output.counters(name) for name in ("late", "late_for_some", "no_time", "results", "slices")},
        "written": output.counters("partials_written"),
        "faults": log.read_text().splitlines() if log.exists() else [],
    }


def main(root, name, faults):
    """The program of the driver."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    emission = EMISSIONS[name]
    found = [ran(spark, root / how, emission, each) for how, each in {"whole": {}, "cut": faults}.items()]
    (root / "found").write_text(json.dumps(found))
    spark.stop()


# --- the tests ------------------------------------------------------------------------------------------------------


def submitted(root, master, name, faults):
    """Run the driver; what it found without and with the faults."""
    import pyspark

    write(worlds("faults", files=FILES, count=12)[: max(faults) + 1], root / "files")
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", master]
    paths = os.pathsep.join([str(ROOT), str(TESTS), sysconfig.get_path("purelib"), os.environ.get("PYTHONPATH", "")])
    more = {"spark.local.dir": str(root / "local"), "spark.executorEnv.PYTHONPATH": paths}
    for option, value in (SETTINGS | more).items():
        command += ["--conf", f"{option}={value}"]
    environment = os.environ | {"SPARK_HOME": str(home), "TZ": "UTC", "PYTHONPATH": paths}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    arguments = [__file__, str(root), name, json.dumps(faults)]
    with (root / "log").open("wb") as log:
        subprocess.run(command + arguments, cwd=root, env=environment, stdout=log, stderr=log, timeout=900)
    # What a cluster says while it ends hides why it does; that is in the first error.
    said = (root / "log").read_text(errors="replace")
    assert (root / "found").exists(), said[said.find(" ERROR ") :][:5000]
    return json.loads((root / "found").read_text())


FEW = "local[2,2]", "on_update()", {batch: FAULTS[batch] for batch in (1, 2)}


@pytest.mark.parametrize(
    ("master", "name", "faults"),
    [FEW, *(pytest.param("local-cluster[2,1,1024]", name, FAULTS, marks=pytest.mark.long) for name in EMISSIONS)],
    ids=["few", *EMISSIONS],
)
def test_rows_and_counters_are_those_of_a_query_without_failures(tmp_path, master, name, faults):
    whole, cut = submitted(tmp_path, master, name, faults)
    assert whole["faults"] == []
    assert cut["faults"] == list(faults.values())
    assert cut["rows"] == whole["rows"]
    assert sum(map(len, whole["rows"].values())) > 100
    assert cut["counters"] == whole["counters"]
    assert cut["written"] == whole["written"], "an attempt that failed is not counted"
    assert whole["counters"]["late_for_some"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], {int(batch): fault for batch, fault in json.loads(sys.argv[3]).items()})
