"""The repository in examples/fraud: the program with Kafka and PostgreSQL: `make test-fraud`."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from copies import PATIENCE, copied, environment, path
from pyspark.sql import functions as F

from servers import maven
from servers.kafka import CONNECTOR, broker
from servers.postgres import postgres
from servers.process import HOST, Unavailable, free_ports

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def copy(tmp_path):
    """The repository, copied as a team does."""
    return copied("fraud", tmp_path)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    pytest.importorskip("psycopg", reason="it is in the group `servers`")
    pytest.importorskip("prometheus_client", reason="it is in the group `servers`")
    try:
        with broker(tmp_path_factory.mktemp("broker")) as kafka, postgres() as database:
            yield kafka.address, database
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture(scope="module")
def writer(servers, tmp_path_factory):
    from conftest import _start

    root = tmp_path_factory.mktemp("writer")
    (root / "tmp").mkdir()
    session = _start(root, {"spark.jars": maven.jars(CONNECTOR)})
    yield session
    session.stop()


def payments(seed, first, count=500):
    """Payments of ten cards in an hour, out of order by less than the delay."""
    choice = random.Random(seed)
    for at in sorted(choice.uniform(first, first + 1) for _ in range(count)):
        yield {
            "card": f"card {choice.randrange(10)}",
            "ts": START + timedelta(hours=at, seconds=-choice.uniform(0, 100)),
            "amount": Decimal(choice.randrange(1, 500)),
        }


def send(spark, address, made):
    lines = [(json.dumps({**each, "ts": each["ts"].isoformat(), "amount": float(each["amount"])}),) for each in made]
    # One partition, so that micro-batches are in the order of time.
    frame = spark.createDataFrame(lines, "value string").coalesce(1).withColumn("partition", F.lit(0))
    frame.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", "payments").save()


@contextmanager
def running(copy, address, database, port):
    """The program, in a process group of its own that is killed at the end, as a power cut does it."""
    options = {
        "spark.jars": maven.jars(CONNECTOR),
        "spark.master": "local[2]",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": HOST,
        "spark.ui.enabled": "false",
        "spark.local.dir": str(copy / "local"),
    }
    submit = [*(part for name, value in options.items() for part in ("--conf", f"{name}={value}")), "pyspark-shell"]
    command = [sys.executable, "-m", "fraud.job", "--kafka", address, "--store", database, "--partitions", "2"]
    command += ["--checkpoint", str(copy / "checkpoint"), "--metrics", str(port), "--records", "200"]
    env = environment(PYSPARK_SUBMIT_ARGS=" ".join(submit), PYTHONPATH=path(copy))
    with (copy / "log").open("a") as log:
        job = subprocess.Popen(command, cwd=copy, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        yield lambda: (job.poll() is None, (copy / "log").read_text(errors="replace")[-3000:])
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def scraped(port):
    """What Prometheus would read of the query: values by name and labels, as written."""
    try:
        with urlopen(f"http://{HOST}:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    except URLError:
        return {}
    return {
        name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name and name[0] != "#"
    }


def wait(condition, job):
    end = time.monotonic() + PATIENCE
    while not condition():
        runs, log = job()
        assert runs, log
        assert time.monotonic() < end, log
        time.sleep(0.1)


def committed(copy):
    return len(list((copy / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.servers
def test_served_features_have_all_payments_over_a_kill(copy, servers, writer, monkeypatch):
    address, database = servers
    (port,) = free_ports(1)
    made = list(payments(1, first=0))
    send(writer, address, made)
    with running(copy, address, database, port) as job:
        wait(lambda: committed(copy) >= 2, job)
    more = list(payments(2, first=1))
    send(writer, address, more)
    # What a kill leaves that comes when the store has rows whose micro-batch is not committed yet.
    last = max((copy / "checkpoint" / "commits").glob("[0-9]*"), key=lambda each: int(each.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    made += more

    for folder in (copy, copy / "tests"):
        monkeypatch.syspath_prepend(str(folder))
    from fraud.features import card
    from test_features import expected

    from slicing.serving import Reader

    at = (max(each["ts"] for each in made) + timedelta(minutes=1)).replace(second=0, microsecond=0)
    wanted = {name: expected(made, name, at) for name in {each["card"] for each in made}}
    reader = Reader(database, card)

    def is_complete():
        return {name: dict(reader.read(name, at=at)) for name in wanted} == wanted

    with running(copy, address, database, port) as job:
        wait(is_complete, job)
        time.sleep(2)
        wait(lambda: 'slicing_records_total{query="card_features"}' in scraped(port), job)
        metrics = scraped(port)
    reader.close()
    assert metrics['slicing_refused_records_total{cause="late",query="card_features"}'] == 0
    assert metrics['slicing_required_delay_seconds_bucket{le="+Inf",query="card_features"}'] > 0
