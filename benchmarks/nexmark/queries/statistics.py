"""Counts of bids, and of distinct bidders and auctions, in all and by rank of price, as queries 15 and 16 ask them."""

from pyspark.sql import Column
from pyspark.sql import functions as F

import combinators as C
from benchmarks.nexmark.queries.ranks import COUNTED, filtered
from slicing import Bound

DISTINCT = {"bidders": "bidder", "auctions": "auction"}


def of_ours() -> dict[str, Bound]:
    """Return our aggregates by the names of the reference."""
    conditions = {name: condition and F.expr(condition) for name, condition in COUNTED.items()}
    found = {f"{name}_bids": C.count(where=where) for name, where in conditions.items()}
    for plural, column in DISTINCT.items():
        found |= {f"{name}_{plural}": C.count_distinct(column, where=where) for name, where in conditions.items()}
    return found


def of_spark() -> list[Column]:
    """Return Spark's aggregates. Its streams refuse `count(distinct)`, so the values are collected as sets."""
    found = [F.expr(f"count(*){filtered(condition)} as {name}_bids") for name, condition in COUNTED.items()]
    for plural, column in DISTINCT.items():
        for name, condition in COUNTED.items():
            found.append(F.expr(f"cast(size(collect_set({column}){filtered(condition)}) as bigint) as {name}_{plural}"))
    return found


def of_sql() -> str:
    """Return the aggregates of the reference."""
    found = [f"count(*){filtered(condition)}" for condition in COUNTED.values()]
    for column in DISTINCT.values():
        found += [f"count(distinct {column}){filtered(condition)}" for condition in COUNTED.values()]
    return ", ".join(found)
