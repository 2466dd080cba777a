"""A Spark Connect server of two cores."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from servers.process import HOST, free_ports, running

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect(folder: Path, options: Mapping[str, str], env: Mapping[str, str]) -> Iterator[str]:
    """Its address, as `SparkSession.builder.remote` takes it; its log is in `folder`."""
    (port,) = free_ports(1)
    listens = {"spark.connect.grpc.binding.address": HOST, "spark.connect.grpc.binding.port": str(port)}
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER]
    for name, value in {**options, **listens}.items():
        command += ["--driver-memory", value] if name == "spark.driver.memory" else ["--conf", f"{name}={value}"]
    with running(command, folder / "connect.log", port, env={**os.environ, **env}):
        yield f"sc://{HOST}:{port}"
