"""The persons and auctions that an event may name, by the id of the event."""

from collections.abc import Callable

import numpy as np

PERSONS, AUCTIONS, BIDS = 1, 3, 46
TOTAL = PERSONS + AUCTIONS + BIDS
"""The events of each kind in 50 consecutive ids: persons first, then auctions, then bids."""

FIRST_PERSON, FIRST_AUCTION = 1000, 1000
ACTIVE, IN_FLIGHT, LEAD = 1000, 100, 10
"""Others than hot ones are of the last persons and auctions, or of the next ones, which do not exist yet."""
HOT = 100
"""One person and one auction in so many are hot."""


def last_person(ids: np.ndarray) -> np.ndarray:
    """Return the number of the last person before each event, or of its own."""
    return ids // TOTAL * PERSONS + np.minimum(ids % TOTAL, PERSONS - 1)


def last_auction(ids: np.ndarray) -> np.ndarray:
    """Return the number of the last auction before each event, or of its own; -1 before the first."""
    return ids // TOTAL * AUCTIONS + np.clip(ids % TOTAL - PERSONS, -1, AUCTIONS - 1)


def any_person(random: np.random.Generator, ids: np.ndarray) -> np.ndarray:
    """Return a random active person for each event."""
    persons = last_person(ids) + 1
    active = np.minimum(persons, ACTIVE)
    return persons - active + random.integers(0, active + LEAD)


def any_auction(random: np.random.Generator, ids: np.ndarray) -> np.ndarray:
    """Return a random auction in flight for each event."""
    last = last_auction(ids)
    oldest = np.maximum(last - IN_FLIGHT, 0)
    return oldest + random.integers(0, last - oldest + 1 + LEAD)


def often_hot(
    random: np.random.Generator,
    ids: np.ndarray,
    one_in: int,
    last: Callable[[np.ndarray], np.ndarray],
    other: Callable[[np.random.Generator, np.ndarray], np.ndarray],
    second: int = 0,
) -> np.ndarray:
    """Return the hot one of the last hundred for each event, and for one event in `one_in` any `other`."""
    hot = last(ids) // HOT * HOT + second
    return np.where(random.integers(0, one_in, len(ids)) > 0, hot, other(random, ids))
