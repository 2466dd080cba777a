"""Kafka Streams beside ours, by hand: `python -m benchmarks.kafka_streams`."""
