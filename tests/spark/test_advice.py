"""What a session is told, and asked for: one table, and a Python for the workers that can run the program."""

import os
import subprocess
import sys
import venv
from operator import add
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JJavaError

import combinators as C
from slicing import Aggregate, InvalidValue, MissingRequirement, advice, configure, group_by, tumbling
from slicing.spark import bytecode, requirements
from slicing.spark.advice import lines
from slicing.spark.settings import (
    _ALL,
    BATCH_BYTES,
    LOCAL,
    NEEDED,
    PARTITIONS,
    SOCKETS,
    STATE_STORE,
    TRACEBACKS,
    settings_of,
)

pytestmark = pytest.mark.versions
SETTINGS = settings_of(pyspark.__version__)


class Builder:
    """What `SparkSession.Builder` does with options."""

    def __init__(self, **options):
        self.options = options

    def config(self, name, value):
        return Builder(**self.options | {name: value})


def test_configure_sets_what_the_table_says(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    options = configure(Builder(kept="1")).options
    assert options == {"kept": "1"} | {each.name: each.value for each in SETTINGS if each.kind != LOCAL}
    assert "PYSPARK_PYTHON" not in os.environ
    options = configure(Builder(), local=True, partitions=3).options
    assert options == {each.name: each.value for each in SETTINGS} | {PARTITIONS: "3"}
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    configure(Builder(), local=True)
    assert os.environ["PYSPARK_PYTHON"] == "mine"


def test_quiet_logs_are_an_option_of_the_jvm():
    name, own = "spark.driver.defaultJavaOptions", {"spark.driver.extraJavaOptions": "-Dmine=1"}
    assert name not in configure(Builder()).options
    options = configure(Builder(**own), quiet=True).options
    assert options.items() >= own.items()
    option = options[name]
    found = option.removeprefix("-Dlog4j2.configurationFile=file://")
    assert "ThresholdFilter" in Path(found).read_text(encoding="utf-8")


FAILS = """
import tempfile
from pyspark.sql import SparkSession, functions as F
import combinators as C
from slicing import configure, group_by, tumbling

builder = SparkSession.builder.master("local[1]").config("spark.driver.extraJavaOptions", "-Dmine=kept")
spark = configure(builder, partitions=1, quiet=True).getOrCreate()
print(spark._jvm.java.lang.System.getProperty("mine"))
folder = tempfile.mkdtemp()
spark.range(2).selectExpr("id", "timestamp_seconds(id) AS ts").write.parquet(folder + "/in")
stream = spark.readStream.schema("id bigint, ts timestamp").parquet(folder + "/in").withWatermark("ts", "0 seconds")
for made in ("id", "1 / (id - 1)"):
    windowed = group_by(stream.withColumn("n", F.expr(made))).window(tumbling("1 second"), time="ts")
    query = windowed.aggregate(total=C.sum("n")).writeStream.format("noop").trigger(availableNow=True)
    query = query.option("checkpointLocation", tempfile.mkdtemp()).start()
    try:
        query.awaitTermination()
    except Exception as error:
        print(str(error))
spark.stop()
"""


@pytest.mark.slow
def test_a_start_and_a_failure_are_a_few_lines(tmp_path):
    ended = subprocess.run([sys.executable, "-c", FAILS], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("kept\n")
    assert "DIVIDE_BY_ZERO" in ended.stdout
    assert "ERROR MicroBatchExecution: Query [" in ended.stderr
    assert " WARN " not in ended.stderr
    assert "\n\tat " not in ended.stderr
    assert ended.stderr.count("Starting Streaming TransformWithStateInPandas") == 2
    assert ended.stderr.count("TransformWithStateInPandas") == 2


def test_settings_are_those_that_this_version_of_spark_knows(spark):
    """Classes that can be loaded, and entries that are registered; that of changelogs is known to the store alone."""
    java = spark._jvm
    java.java.lang.Class.forName("org.apache.spark.internal.config.Python$")
    known = java.org.apache.spark.internal.config.ConfigEntry

    def there(setting):
        if setting.value.startswith("org."):
            return loads(java, setting.value)
        return known.findEntry(setting.name) is not None

    entries = {each.name for each in (BATCH_BYTES, SOCKETS, TRACEBACKS)}
    looked_at = [each for each in _ALL if each.value.startswith("org.") or each.name in entries]
    assert [each for each in looked_at if there(each)] == [each for each in SETTINGS if each in looked_at]
    assert len(looked_at) == len(_ALL) - 1


def loads(java, name):
    try:
        java.java.lang.Class.forName(name)
    except Py4JJavaError:
        return False
    return True


@pytest.mark.parametrize(
    ("version", "checkpoints", "sockets"),
    [
        ("4.0.5", "streaming.File", False),
        ("4.1.4", "streaming.checkpointing.File", True),
        ("4.3.0-SNAPSHOT", "ing.File", True),
    ],
)
def test_settings_go_by_the_version(version, checkpoints, sockets):
    found = {each.name: each.value for each in settings_of(version)}
    assert len(found) == len(settings_of(version)) == len(_ALL) - 2 + sockets
    assert f"{checkpoints}SystemBased" in found["spark.sql.streaming.checkpointFileManagerClass"]
    assert (SOCKETS.name in found) == sockets


def test_advice_says_what_is_and_what_should_be(spark, capsys):
    found = dict(zip((each.name for each in SETTINGS), lines(spark), strict=False))
    for each in SETTINGS:
        is_so = spark.conf.get(each.name, None) == each.value
        assert found[each.name].startswith("ok: " if is_so else f"{each.kind}: ")
        assert is_so == (each.why not in found[each.name])
    spark.conf.set(STATE_STORE.name, "another")
    spark.conf.set(PARTITIONS, "200")
    try:
        advice(spark)
        printed = capsys.readouterr().out.splitlines()
    finally:
        spark.conf.set(STATE_STORE.name, STATE_STORE.value)
        spark.conf.set(PARTITIONS, "2")
    assert printed[0].startswith(f"{NEEDED}: {STATE_STORE.name} = {STATE_STORE.value}, now another: Spark's stateful")
    assert printed[len(SETTINGS)].startswith(f"worth it: {PARTITIONS}, now 200: about the cores")
    assert lines(spark)[len(SETTINGS)] == f"ok: {PARTITIONS} = 2"


def test_advice_says_whether_workers_import_bytecode(spark, monkeypatch):
    said = lines(spark)[len(SETTINGS) + 1 :]
    assert [line.startswith("ok: Python workers import bytecode, from ") for line in said] == [True, True]
    monkeypatch.delenv("SPARK_HOME")
    archives, made = bytecode.archives(), lines(spark)[len(SETTINGS) + 1]
    assert made.startswith(
        "ok: " if all(map(bytecode.has_bytecode, archives)) else f"worth it: `{bytecode.COMMAND}`, once"
    )


@pytest.mark.skipif(
    SOCKETS not in SETTINGS, reason="this version of Spark has no such setting that counts from its start"
)
def test_of_settings_that_are_fixed_when_spark_starts_advice_says_how_it_was_started(spark):
    assert f"ok: {SOCKETS.name} = true" in lines(spark)
    type(spark).builder.config(SOCKETS.name, "false").getOrCreate()
    told = spark._jsparkSession.sessionState().conf()
    assert told.getConfString(SOCKETS.name) == "false", "so would `spark.conf` say"
    assert f"ok: {SOCKETS.name} = true" in lines(spark)
    told.unsetConf(SOCKETS.name)


def bare(folder):
    """An environment with nothing in it, and its directory of programs."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    return Path(folder) / "bin"


def test_workers_outside_of_the_environment_are_refused_at_once(spark, tmp_path, monkeypatch):
    frame = spark.sql("select timestamp'2024-05-01' ts")
    windowed = group_by(frame).window(tumbling("1 hour"), time="ts")
    programs = bare(tmp_path / "bare")
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(MissingRequirement) as raised:
        windowed.aggregate(n=C.count())
    for part in (f"{programs}/python3 has no pyspark, pyarrow", sys.prefix, 'os.environ["PYSPARK_PYTHON"] = sys.exec'):
        assert part in str(raised.value)
    assert lines(spark)[-1] == str(raised.value)
    for name, value in (("PYSPARK_PYTHON", "given"), ("PATH", str(Path(sys.executable).parent))):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            windowed.aggregate(n=C.count())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "base_prefix", sys.prefix)
        windowed.aggregate(n=C.count())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="python3 is not there"):
        windowed.aggregate(n=C.count())


def test_another_python_is_said(monkeypatch):
    done = subprocess.CompletedProcess([], 0, stdout="2.7\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    assert requirements._lacks("/one") == f"is Python 2.7 and not {sys.version_info.major}.{sys.version_info.minor}"


def test_advice_prints_the_configuration_of_a_pipeline(capsys):
    """Its values are text, as a spec wants them, and what is for one machine alone is left out."""
    advice(pipeline=True, partitions=8)
    head, *printed = capsys.readouterr().out.splitlines()
    assert head == "configuration:"
    found = {name.strip(): value.partition(" #")[0] for name, value in (line.split(": ", 1) for line in printed)}
    wanted = {each.name: f'"{each.value}"' for each in SETTINGS if each.kind != LOCAL}
    assert found == wanted | {PARTITIONS: '"8"'}
    with pytest.raises(InvalidValue, match=r"advice\(pipeline=True\)"):
        advice()


def seen(acc, _=None):
    """Add the daemon that forked this worker."""
    return f"{acc}{os.getppid()};"


@pytest.mark.parametrize("simplified", ["false", "true"])
def test_both_stages_have_the_workers_of_one_daemon(spark, tmp_path, simplified):
    """The first stage adds a record, the second makes the result; with the other setting each has its own daemon."""
    spark.range(4).selectExpr("id", "timestamp_seconds(id) AS ts").write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema("id bigint, ts timestamp").parquet(str(tmp_path / "in"))
    windowed = group_by(stream.withWatermark("ts", "0 seconds"), "id").window(tumbling("1 second"), time="ts")
    made = Aggregate(lambda: "", seen, add, lower=seen, returns="string", columns=False, laws=False).on("id")
    spark.conf.set(TRACEBACKS.name, simplified)
    try:
        writer = windowed.aggregate(seen=made).writeStream.format("memory").queryName(f"workers_{simplified}")
        query = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
    finally:
        spark.conf.set(TRACEBACKS.name, TRACEBACKS.value)
    texts = [text for row in spark.table(f"workers_{simplified}").collect() for text in row.seen.split(";")[:-1]]
    assert len(texts) == 2 * 3
    assert len({*texts}) == (1 if simplified == "false" else 2)
