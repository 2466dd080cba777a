"""Run the stream: payments from a topic of Kafka, slices of the features of each card in PostgreSQL.

python -m fraud.job --kafka broker:9092 --store postgresql://... --checkpoint /checkpoints/fraud
"""

from argparse import ArgumentParser, Namespace

from prometheus_client import REGISTRY, start_http_server
from pyspark.sql import SparkSession

from fraud.stream import parsed, slices
from slicing import ProgressListener, PrometheusCollector, configure, serve_to


def arguments() -> Namespace:
    """Return the options of the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", required=True, help="the brokers, host:port")
    parser.add_argument("--topic", default="payments")
    parser.add_argument("--store", required=True, help="the address of PostgreSQL")
    parser.add_argument("--checkpoint", required=True, help="a directory that outlives the program")
    parser.add_argument("--partitions", type=int, default=8, help="fixed for the life of the checkpoint")
    parser.add_argument("--records", type=int, default=1_000_000, help="at most so many in a micro-batch")
    parser.add_argument("--metrics", type=int, default=9108, help="the port for Prometheus")
    return parser.parse_args()


def main(given: Namespace) -> None:
    """Start the stream and its metrics; return when the query ends."""
    spark = configure(SparkSession.builder.appName("fraud"), partitions=given.partitions, quiet=True).getOrCreate()
    listener = ProgressListener()
    spark.streams.addListener(listener)
    REGISTRY.register(PrometheusCollector(listener))
    start_http_server(given.metrics)

    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.kafka)
        .option("subscribe", given.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.records)
        .load()
    )
    query = (
        slices(parsed(messages))
        .writeStream.queryName("card_features")
        .outputMode("update")
        .foreachBatch(serve_to(given.store))
        .option("checkpointLocation", given.checkpoint)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(arguments())
