"""The features of a card: its payments of the last ten minutes up to the last seven days, in one query."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import combinators as C
from slicing import group_by, hopping, on_update, plausible

PAYMENT = "card string, ts timestamp, amount double"
LENGTHS = {"10m": "10 minutes", "1h": "1 hour", "6h": "6 hours", "1d": "1 day", "7d": "7 days"}
ADVANCE = "1 minute"
DELAY = "2 minutes"

card_features = (
    group_by("card")
    .window(**{name: hopping(length, advance=ADVANCE) for name, length in LENGTHS.items()}, time="ts")
    .emit(on_update(latest_only=True))
    .define(
        payments=C.count(),
        spent=C.sum("amount"),
        mean=C.mean("amount"),
        largest=C.max("amount"),
    )
)
"""A row for each card with new payments: `window_end`, and the columns `payments_10m`, ..., `largest_7d`."""


def parsed(messages: DataFrame) -> DataFrame:
    """Return the payments in messages of Kafka; a text that is no payment becomes one without card and time."""
    payment = F.from_json(F.col("value").cast("string"), PAYMENT)
    return messages.select(payment.alias("payment")).select("payment.*")


def features(payments: DataFrame) -> DataFrame:
    """Return the features of a stream of payments. A clock that is far ahead does not close all windows."""
    return plausible(payments, "ts", ahead="5 minutes").withWatermark("ts", DELAY).transform(card_features)
