"""Payments in messages of Kafka, and the slices of their features."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fraud.features import card
from slicing import plausible

PAYMENT = "card string, ts timestamp, amount decimal(12,2)"
DELAY = "2 minutes"


def parsed(messages: DataFrame) -> DataFrame:
    """Return the payments in messages of Kafka; texts that are no payment are left out."""
    payment = F.from_json(F.col("value").cast("string"), PAYMENT)
    return messages.select(payment.alias("payment")).select("payment.*").where("card IS NOT NULL AND ts IS NOT NULL")


def slices(payments: DataFrame) -> DataFrame:
    """Return the slices of a stream of payments. A clock that is far ahead does not move the watermark."""
    return card.serve(plausible(payments, "ts", ahead="5 minutes").withWatermark("ts", DELAY))
