"""New auctions."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.nexmark import ids as known
from benchmarks.nexmark import texts
from benchmarks.nexmark.prices import prices

CATEGORIES = (10, 15)
HOT_SELLERS = 4
"""One auction in so many is not of a hot seller."""
BYTES = 500
UNTIL_AS_MANY = known.IN_FLIGHT * known.TOTAL // known.AUCTIONS
"""The events until as many new auctions as are in flight."""


def auctions(
    random: np.random.Generator, ids: np.ndarray, clock: Callable[[np.ndarray], np.ndarray], seed: int
) -> pa.StructArray:
    """Return the auctions with these event ids; `clock` has the time of an id in milliseconds."""
    count, times = len(ids), clock(ids)
    sellers = known.often_hot(random, ids, HOT_SELLERS, known.last_person, known.any_person)
    first_bids, above = prices(random, count), prices(random, count)
    # The horizon is the time until as many auctions more; a mean auction is as long.
    ends = times + 1 + random.integers(0, np.maximum(2 * (clock(ids + UNTIL_AS_MANY) - times), 1))
    names, descriptions = texts.words(random, count, 20), texts.words(random, count, 100)
    sizes = 6 * 8 + texts.lengths_of(names) + texts.lengths_of(descriptions)
    column = {
        "id": pa.array(known.last_auction(ids) + known.FIRST_AUCTION),
        "itemName": names,
        "description": descriptions,
        "initialBid": pa.array(first_bids),
        "reserve": pa.array(first_bids + above),
        "dateTime": milliseconds(times),
        "expires": milliseconds(ends),
        "seller": pa.array(sellers + known.FIRST_PERSON),
        "category": pa.array(random.integers(*CATEGORIES, count)),
        "extra": texts.padding(random, sizes, BYTES, seed),
    }
    return pa.StructArray.from_arrays(list(column.values()), list(column))


def milliseconds(times: np.ndarray) -> pa.Array:
    """Return timestamps, from milliseconds."""
    return pa.array(times * 1000, pa.timestamp("us", "UTC"))
