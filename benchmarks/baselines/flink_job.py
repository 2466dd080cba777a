"""Flink's side of `benchmarks.comparisons.flink`, run by a Python that has pyflink but nothing of this project.

`python -P flink_job.py RECORDS ROWS SIZE ADVANCE BACKEND SCRATCH RUNS`, with size and advance in seconds. A first run
warms up and writes its rows as CSV into the folder ROWS; then so many runs write to the blackhole sink. Prints the
seconds of the fastest of them as the job reports them, its processor time, and Flink's version.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyflink.table import TableEnvironment

# The settings that Flink's documentation recommends for throughput, and enough memory for state; the rest is default.
SETTINGS = {
    "parallelism.default": "2",
    "taskmanager.numberOfTaskSlots": "2",
    "taskmanager.memory.managed.size": "2g",
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.incremental": "true",
    "rest.port": "0",
}
SOURCE = """
    CREATE TABLE records (
        `key` BIGINT, ms BIGINT, v BIGINT,
        ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
    ) WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')"""
SINK = """
    CREATE TABLE {name} (
        `key` BIGINT, window_start TIMESTAMP(3), window_end TIMESTAMP(3), records BIGINT, total BIGINT
    ) WITH ({options})"""
QUERY = """
    INSERT INTO {name}
    SELECT `key`, window_start, window_end, COUNT(*), SUM(v)
    FROM HOP(TABLE records, DESCRIPTOR(ts), INTERVAL '{advance}' SECOND(6), INTERVAL '{size}' SECOND(6))
    GROUP BY `key`, window_start, window_end"""


def main(path: str, rows: str, size: str, advance: str, backend: str, scratch: str, runs: str) -> None:
    """Run the query into both sinks, one after the other, and print the figures as JSON."""
    environment = _environment(backend, scratch)
    environment.execute_sql(SOURCE.format(path=path))
    written = f"'connector' = 'filesystem', 'path' = 'file://{rows}', 'format' = 'csv'"
    _run(environment, "written", written, size, advance)
    seconds, processor = min(_timed(environment, size, advance, number) for number in range(int(runs)))
    print(json.dumps({"seconds": seconds, "processor": processor, "version": version("apache-flink")}))


def _environment(backend: str, scratch: str) -> TableEnvironment:
    # Imported here: asv imports all files of this folder with a Python that has no pyflink.
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    places = {"execution.checkpointing.dir": f"file://{scratch}/checkpoints", "io.tmp.dirs": scratch}
    configuration = Configuration()
    for name, value in (SETTINGS | places | {"state.backend.type": backend}).items():
        configuration.set_string(name, value)
    builder = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration)
    environment = TableEnvironment.create(builder.build())
    environment.get_config().set_local_timezone("UTC")
    return environment


def _timed(environment: TableEnvironment, size: str, advance: str, number: int) -> tuple[float, float]:
    before = _processor_seconds()
    seconds = _run(environment, f"dropped{number}", "'connector' = 'blackhole'", size, advance)
    return seconds, _processor_seconds() - before


def _run(environment: TableEnvironment, name: str, options: str, size: str, advance: str) -> float:
    """Run the job and return its seconds up to the end of the records, without the start of its cluster."""
    environment.execute_sql(SINK.format(name=name, options=options))
    client = environment.execute_sql(QUERY.format(name=name, size=size, advance=advance)).get_job_client()
    return client.get_job_execution_result().result().get_net_runtime() / 1000


def _processor_seconds() -> float:
    """The processor seconds of the JVM that runs everything, which is a child of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    stats = [Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split() for child in children]
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(*sys.argv[1:])
