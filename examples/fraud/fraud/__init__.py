"""Features of payment cards: Kafka in, PostgreSQL out."""
