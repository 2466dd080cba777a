"""How long it takes from a record in Kafka to its value in a reader, run by hand.

    python -m benchmarks.serving_kafka

It needs Java and Maven, which gets Kafka. A broker of one node runs on 127.0.0.1 meanwhile. The time begins before a
record is sent. The figure is kept in the tree, where `make bench` finds it, as it does not run this.
"""

import sys
from contextlib import closing
from typing import Any

from pyspark.sql import functions as F

from benchmarks.report import results
from benchmarks.running import serving
from benchmarks.running.session import add_jars, configured, stop
from benchmarks.running.side import CORES, SLOWER
from benchmarks.workloads.workload import scratch
from servers import maven
from servers.kafka import CONNECTOR, broker
from servers.process import Unavailable

TOPIC = "payments"
TEXT = "org.apache.kafka.common.serialization.StringSerializer"
GOAL = 2.0


def main() -> int:
    """Measure the figure; return 2 if Kafka is not available."""
    try:
        add_jars(maven.jars(CONNECTOR))
        seconds = age()
    except Unavailable as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 2
    finally:
        stop()
    title = f"from a record in Kafka to its value in a reader, trigger 1 s, p50 of {serving.SAMPLES - 5} records"
    figure = results.Figure("Serving-Kafka", title, seconds, "s", GOAL, results.machine(CORES))
    results.keep(figure, results.BY_HAND)
    print(f"{title}: {seconds:.2f} s; {figure.machine}")
    return 0


def age() -> float:
    """Return the median seconds from a record in Kafka to its value in a reader."""
    with scratch() as folder, broker(folder) as server, configured(SLOWER) as spark:
        source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", server.address)
        messages = source.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()
        payment = F.from_json(F.col("value").cast("string"), serving.PAYMENT).alias("payment")
        java: Any = spark._jvm
        clients = java.org.apache.kafka.clients.producer
        options = {"bootstrap.servers": server.address, "key.serializer": TEXT, "value.serializer": TEXT}

        def send(line: str) -> None:
            producer.send(clients.ProducerRecord(TOPIC, line)).get()

        with closing(clients.KafkaProducer(options)) as producer:
            return serving.median_age(messages.select(payment).select("payment.*"), send, folder)


if __name__ == "__main__":
    sys.exit(main())
