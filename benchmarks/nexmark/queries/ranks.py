"""The three ranks of prices that queries 15 to 17 count."""

RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 and price < 1000000",
    "rank3": "price >= 1000000",
}
"""Conditions by their names."""
COUNTED = {"total": None} | RANKS
"""The same, and none."""


def filtered(condition: str | None) -> str:
    """Return the clause for an aggregate in SQL."""
    return f" filter (where {condition})" if condition else ""
