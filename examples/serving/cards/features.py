"""The features of a card. The writer and the service import this definition; it needs no Spark."""

import combinators as C
from slicing import group_by, hopping

LENGTHS = {"1m": "1 minute", "10m": "10 minutes", "1h": "1 hour"}

card = (
    group_by("card")
    .window(**{name: hopping(length, advance="5 seconds") for name, length in LENGTHS.items()}, time="ts", long=True)
    .define(payments=C.count(), cents=C.sum("cents"), largest=C.max("cents"))
)
"""Windows of three lengths, and three results."""
