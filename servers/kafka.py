"""A Kafka broker of one node, its own controller (KRaft), from Maven's artifacts alone."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from servers import maven
from servers.process import HOST, LOG_END, free_ports, running

PROJECT = Path(__file__).with_name("broker")
CONNECTOR = Path(__file__).with_name("connector")
"""Spark's, whose jars `maven.jars` names."""
HEAP = "-Xmx1g"
# Event times of tests are long past, and the broker deletes what is older than a week by the record's own time.
PROPERTIES = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers={host}:{controller}
log.dirs={folder}/logs
log.retention.ms=-1
num.partitions=2
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True)
class Broker:
    """`address` as `bootstrap.servers` takes it, and its process."""

    address: str
    process: int


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A broker whose log is in `folder`, empty at first; topics are made at their first use, with two partitions.

    Raises Unavailable if Maven cannot get it.
    """
    java = ["java", HEAP, "-cp", maven.classpath(PROJECT)]
    port, controller = free_ports(2)
    properties = folder / "server.properties"
    properties.write_text(PROPERTIES.format(host=HOST, port=port, controller=controller, folder=folder))
    _format(java, properties)
    with running([*java, "kafka.Kafka", str(properties)], folder / "broker.log", port) as process:
        yield Broker(f"{HOST}:{port}", process.pid)


def _format(java: list[str], properties: Path) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    if cluster.startswith("-"):  # the tool would take it for an option
        cluster = "A" + cluster[1:]
    tool = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster, "-c", str(properties)]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"StorageTool: {(done.stdout + done.stderr)[-LOG_END:]}")
