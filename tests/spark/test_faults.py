"""Failures in a live query: tasks that fail and are tried again, lost executors, and speculative copies of tasks.

Tasks are tried again, so the query runs in a session of its own, most of the time on a cluster of two executors on this
machine: this file is also the program of its driver. Rows and counters of every micro-batch have to be those of the
same query in the session of the tests, where nothing fails.
"""

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path

import pytest
from conftest import SPARK
from pyspark import TaskContext
from rooms import python_path
from streams import Output, Running, ending, worlds, write
from test_executors import CLUSTER
from test_restart import CASES, KINDS, join, nothing, windows_of

import combinators as C
from slicing import Aggregate

RAISED = ["fail lower", "fail agg"]
LOST = ["lose lower", "lose agg"]
COPIED = ["lag lower", "lag agg", "overtake lower", "overtake agg"]
"""What happens, and in which function of the user: `agg` is of the first stage, `lower` of the second.

"fail" raises, "lose" kills the executor. In "lag" an attempt never ends, and its speculative copy has to do its work;
in "overtake" the copy never ends, and the attempt continues when the copy has come as far as it has.
"""
FILES = 9
"""One a micro-batch, more than there are faults: not every micro-batch has a task that fits."""
HOSTS = "127.0.0.1", "127.0.0.2"
"""All of 127.0.0.0/8 is this machine, on Linux."""
SPECULATION = {
    "spark.cores.max": "4",
    "spark.executor.cores": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    # The start of a worker on a busy machine is not slow by this.
    "spark.speculation.minTaskRuntime": "5s",
    "spark.speculation.quantile": "0.5",
    # Without it a stage of one task, as the first one has here, has nothing to be slow beside, and gets no copy.
    "spark.speculation.task.duration.threshold": "5s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


# --- what runs in the workers ---------------------------------------------------------------------------------------


def disturbed(armed, function):
    """Do what the file says, if it is there and names this function; only one task gets it."""
    task = TaskContext.get()
    if task is None:
        return  # the driver tries functions when the query is built
    mine = copied(armed) if task.attemptNumber() else armed
    try:
        fault, where = mine.read_text().split()
        if where != function:
            return
        mine.rename(mine.with_name("done"))
    except (FileNotFoundError, ValueError):
        return
    if fault == "overtake":
        await_copy(armed, where)
        return
    with (armed.parent / "faults").open("a") as log:
        log.write(json.dumps([f"{fault} {where}", task.stageId(), task.partitionId(), task.taskAttemptId()]) + "\n")
    if fault == "fail":
        raise RuntimeError("power cut")
    if fault == "lose":
        os.kill(_parent(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
    time.sleep(600)


def copied(armed):
    return armed.with_name("copied")


def await_copy(armed, where):
    """Arm a fault for the copy of this task, and wait until it is there."""
    copied(armed).write_text(f"overtaken {where}")
    end = time.monotonic() + 300
    while copied(armed).exists() and time.monotonic() < end:
        time.sleep(0.05)


def _parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def tally(armed, acc, n):
    """Sums, and a failure if it is armed."""
    disturbed(armed, "agg")
    return acc[0] + 1, acc[1] + n % 1009


def mean(armed, partial_):
    """The mean, and a failure if it is armed."""
    if partial_[0]:
        disturbed(armed, "lower")
    return partial_[1] / partial_[0] if partial_[0] else None


# --- the driver -----------------------------------------------------------------------------------------------------


def frame_of(spark, files, armed, case):
    functions = nothing, partial(tally, armed), join
    mine = Aggregate(*functions, lower=partial(mean, armed), partial="n long, total long", returns="double").on("n")
    windowed = windows_of(spark, files, case)
    return windowed.aggregate(records=C.count(), total=C.sum("n"), most=C.max("s"), mine=mine)


class Disturbing(Output):
    """Arms the next fault when a micro-batch is through, or again one that no task has got."""

    def __init__(self, armed, faults):
        super().__init__()
        self.armed, self.faults, self.fault = armed, iter(faults), ""

    def sink(self, frame, batch):
        super().sink(frame, batch)
        # A copy may have been faster than the attempt that waits for it.
        missed = copied(self.armed).exists() or (self.armed.exists() and self.fault)
        copied(self.armed).unlink(missing_ok=True)
        self.fault = self.fault if missed else next(self.faults, "")
        self.armed.write_text(self.fault)


def ran(spark, root, name, faults):
    """Rows and counters of every micro-batch, and what happened."""
    output, case = Disturbing(root / "armed", faults), CASES[name]
    frame = frame_of(spark, root / "files", root / "armed", case)
    with ending(spark, case.emission):
        Running(frame, root / "checkpoint", {"availableNow": True}, output).finish()
    log = root / "faults"
    found = {
        "rows": {batch: sorted(map(repr, found.to_pylist())) for batch, found in output.tables.items()},
        "kinds": sorted({row.get("emission", "") for found in output.tables.values() for row in found.to_pylist()}),
        "counters": {name: output.counters(name) for name in COUNTERS},
        "faults": [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else [],
    }
    return json.loads(json.dumps(found))


COUNTERS = "late", "late_for_some", "no_time", "results", "slices", "partials_written"


def main(root, name, faults):
    """The program of the driver."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    (root / "found").write_text(json.dumps(ran(spark, root, name, faults)))
    spark.stop()


# --- processes ------------------------------------------------------------------------------------------------------


@contextmanager
def started(command, log, cwd, **environment):
    """A process in a group of its own, which is killed if it is still there in the end."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, cwd=cwd, env=os.environ | environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def standalone(root):
    """The address of a master with two workers on two hosts: Spark makes copies of a task on other hosts only."""

    def deployed(name, what, host, *arguments):
        command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{what}", "--host", host]
        command += ["--webui-port", "0", *arguments]
        stack.enter_context(started(command, root / name, root, SPARK_DAEMON_MEMORY="256m"))

    with ExitStack() as stack:
        deployed("master", "master.Master", "127.0.0.1", "--port", "0")
        address = said(root / "master", r"spark://127\.0\.0\.1:\d+")
        for host in HOSTS:
            place = ["--work-dir", str(root / f"work {host}")]
            deployed(f"worker {host}", "worker.Worker", host, "--cores", "2", "--memory", "1g", *place, address)
        yield address


def said(log, pattern):
    """What a process says, once it does."""
    end = time.monotonic() + 120
    while not (found := re.search(pattern, log.read_text(errors="replace"))):
        assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
    return found[0]


def write_files(root, count):
    write(worlds("faults", files=FILES, count=12)[:count], root / "files")


def submitted(root, master, name, faults, files=FILES, settings=None):
    """Run the driver; what it found."""
    write_files(root, files)
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-submit", "--master", master]
    paths = python_path(sysconfig.get_path("purelib"), os.environ.get("PYTHONPATH"))
    more = {"spark.local.dir": str(root / "local"), "spark.executorEnv.PYTHONPATH": paths}
    for option, value in (CLUSTER | more | (settings or {})).items():
        command += ["--conf", f"{option}={value}"]
    environment = {"TZ": "UTC", "PYTHONPATH": paths}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    arguments = [__file__, str(root), name, json.dumps(faults)]
    with started(command + arguments, root / "log", root, **environment) as driver:
        driver.wait(900)
    # What a cluster says while it ends hides why it does; that is in the first error.
    log = (root / "log").read_text(errors="replace")
    assert (root / "found").exists(), log[log.find(" ERROR ") :][:5000]
    return json.loads((root / "found").read_text())


# --- the tests ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def undisturbed(spark, tmp_path_factory):
    """What a query finds where nothing fails; asks for the emission and how many files there are."""

    @cache
    def run(name, files=FILES):
        root = tmp_path_factory.mktemp("undisturbed")
        write_files(root, files)
        return ran(spark, root, name, [])

    return run


def check(whole, cut, name, faults):
    """Assert that the failures were there and changed nothing."""
    assert whole["faults"] == []
    assert [fault for fault, *_ in cut["faults"]] == faults
    assert cut["rows"] == whole["rows"]
    assert sum(map(len, whole["rows"].values())) > 100
    assert set(whole["kinds"]) == {kind or "" for kind in KINDS[name]}
    if SPARK >= COUNTS_ONCE:
        assert cut["counters"] == whole["counters"], "an attempt that failed is not counted"
    else:
        counted = [
            (cut["counters"][name].get(batch, 0), count)
            for name, counts in whole["counters"].items()
            for batch, count in counts.items()
        ]
        assert all(often >= once for often, once in counted), "it is added to those of the attempt that did not"
    assert {name for name, counts in whole["counters"].items() if not counts} == CASES[name].never, "all others count"


COUNTS_ONCE = (4, 3)
"""The first version of Spark that takes observed metrics from the last attempt at a task alone."""
FEW = "local[2,2]", "on_update()", RAISED, 1 + len(RAISED)
ALL = [pytest.param("local-cluster[2,1,1024]", name, RAISED + LOST, FILES, marks=pytest.mark.long) for name in KINDS]


@pytest.mark.slow
@pytest.mark.versions
@pytest.mark.parametrize(("master", "name", "faults", "files"), [FEW, *ALL], ids=["few", *KINDS])
def test_rows_and_counters_are_those_of_a_query_without_failures(tmp_path, undisturbed, master, name, faults, files):
    cut = submitted(tmp_path, master, name, faults, files)
    check(undisturbed(name, files), cut, name, faults)


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_rows_and_counters_are_those_of_a_query_without_speculation(tmp_path, undisturbed, name):
    with standalone(tmp_path) as master:
        settings = SPECULATION | {"spark.eventLog.dir": tmp_path.as_uri()}
        cut = submitted(tmp_path, master, name, COPIED, settings=settings)
    check(undisturbed(name), cut, name, [fault.replace("overtake", "overtaken") for fault in COPIED])
    (log,) = tmp_path.glob("app-*")
    ended = attempts(log)
    for fault, stage, partition, stuck in cut["faults"]:
        assert_copied(ended[stage, partition], stuck, fault.startswith("overtaken"))


def assert_copied(both, stuck, copy):
    """Assert that there were two attempts, one a copy on the other host, and that the one that was stuck was killed."""
    (other,) = both.keys() - {stuck}
    (end, is_copy, host), (other_end, other_is_copy, other_host) = both[stuck], both[other]
    assert (end, other_end) == ("TaskKilled", "Success")
    assert (is_copy, other_is_copy) == (copy, not copy)
    assert {host, other_host} == set(HOSTS)


def attempts(log):
    """How every attempt at a task ended, by stage, partition and attempt; whether it was a copy; and where it was."""
    found = {}
    for event in map(json.loads, log.read_text().splitlines()):
        if event["Event"] == "SparkListenerTaskEnd":
            info = event["Task Info"]
            how = event["Task End Reason"]["Reason"], info["Speculative"], info["Host"]
            found.setdefault((event["Stage ID"], info["Partition ID"]), {})[info["Task ID"]] = how
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
