"""Compares Kafka Streams with this framework; run by hand: `python -m benchmarks.kafka_streams`."""
