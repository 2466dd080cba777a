"""One Spark session per test process, started by the first test that asks for it. Other tests need no JVM."""

import atexit
import os
import shutil
import sys
import tempfile
import time

import pyspark
import pytest
from rooms import FOLDERS, python_path
from sampling import mark_slow
from spark_home import with_bytecode

from slicing.spark.settings import CHECKPOINTS, SOCKETS, settings_of
from slicing.spark.versions import release

QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""For a JVM that is ready soon rather than fast at last, as a test runs little of anything for long.

It compiles once, without the second, costly compiler, keeps all the code that it makes, and collects in one thread.
"""
sys.path[:0] = [each for each in FOLDERS if each not in sys.path]
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)  # of all drivers, also those that tests start in other processes
SPARK = release(pyspark.__version__)
ADVISED = {each.name: each.value for each in settings_of(pyspark.__version__)}
LOCAL_CHECKPOINTS = ADVISED[CHECKPOINTS.name]
QUIET_SOCKETS = (4, 3)
"""From this version of Spark on `toArrow` closes its socket; before, the garbage collector does, and Python warns."""


def pytest_addoption(parser):
    parser.addoption("--begin-until", type=float, metavar="SECOND", help="since 1970; tests are skipped after it")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """After the last second that tests may begin in, skip, before fixtures start anything."""
    last = item.config.getoption("--begin-until")
    if last is not None and time.time() > last:
        pytest.skip("no time was left")


def pytest_configure(config):
    """Warnings are errors, but for one of Spark's own."""
    if SPARK < QUIET_SOCKETS:
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Files with tests on Spark go first: they take longest, and what needs no JVM fills the processes behind them."""
    mark_slow(items)
    on_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in on_spark)


@pytest.fixture(scope="session", autouse=True)
def _spark_home(tmp_path_factory):
    """Also of the processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(with_bytecode(tmp_path_factory.mktemp("home"))))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A local session with the state store that the stateful operator needs; everything it writes is temporary.

    A query into memory, foreach or foreachBatch has a checkpoint of its own under `java.io.tmpdir`. There is no default
    `checkpointLocation` on purpose: two tests that use the same query name would share one.
    """
    root = tmp_path_factory.mktemp("spark")
    (root / "tmp").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        # Functions of importable modules are pickled by name: workers import the packages, and the test modules too.
        inherited = os.environ.get("PYTHONPATH")
        patch.setenv("PYTHONPATH", python_path(inherited))
        # `collect` gives timestamps in the zone of this process, whatever the zone of the session.
        patch.setenv("TZ", "UTC")
        time.tzset()
        session = _start(root)
        yield session
        for query in session.streams.active:
            query.stop()
        session.stop()
    time.tzset()


@pytest.fixture
def zone(spark):
    """A session whose time zone is not UTC and has summer time."""
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def fresh_workers(spark):
    """Every task gets a new Python process. The setting is the context's, which a local executor shares."""
    settings = spark.sparkContext._jsc.sc().conf()
    settings.set("spark.python.worker.reuse", "false")
    yield
    settings.set("spark.python.worker.reuse", "true")


def _start(root, more=()):
    """Start a session; `more` are options of this one."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in {**options(root), **dict(more)}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def options(root):
    """Those of a local session; all that it writes is below `root`, but for the sockets of its workers."""
    state = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return {
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={root / 'tmp'}",
        "spark.local.dir": str(root / "local"),
        "spark.python.unix.domain.socket.dir": _short_directory(),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        # Compiling whole stages takes longer than it saves on few rows; other sessions that tests start do it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
        "spark.sql.streaming.stateStore.providerClass": state,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **{name: value for name, value in ADVISED.items() if name == SOCKETS.name},
    }


def _short_directory():
    """For sockets, whose names may have 107 characters; it goes with this process."""
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@pytest.fixture(autouse=True)
def _stop_queries(request):
    """Stop what a test left running, so that the next one does not share the two cores with it."""
    session = request.getfixturevalue("spark") if "spark" in request.fixturenames else None
    yield
    if session is not None:
        for query in session.streams.active:
            query.stop()
        session.streams.resetTerminated()


@pytest.fixture(scope="module")
def benchmarks_in_session(spark, tmp_path_factory):
    """Benchmarks run in the session of the tests, and write their workloads into a folder of the test."""
    from benchmarks.running import session  # imported here, because other tests do not need the packages of benchmarks
    from benchmarks.running.side import Settings
    from benchmarks.workloads import workload

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(session._sessions, Settings().master, spark)
        patch.setattr(workload, "FOLDER", tmp_path_factory.mktemp("workloads"))
        yield
