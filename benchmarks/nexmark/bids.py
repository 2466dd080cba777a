"""Bids.

The reference adds the first id of a person twice, so bidders are from 2000 on and do not join persons. So it is here.
"""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.nexmark import ids as known
from benchmarks.nexmark import texts
from benchmarks.nexmark.prices import prices

HOT_AUCTIONS, HOT_BIDDERS, HOT_CHANNELS = 2, 4, 2
"""One bid in so many is not of a hot auction, bidder or channel."""
HOT = ["Google", "Facebook", "Baidu", "Apple"]
CHANNELS = 10_000
BYTES = 100
SIZE = 4 * 8


def bids(random: np.random.Generator, ids: np.ndarray, times: pa.Array, seed: int) -> pa.StructArray:
    """Return the bids with these event ids."""
    count = len(ids)
    auction = known.often_hot(random, ids, HOT_AUCTIONS, known.last_auction, known.any_auction)
    bidder = known.often_hot(random, ids, HOT_BIDDERS, known.last_person, known.any_person, second=1)
    price = prices(random, count)
    hot = random.integers(0, HOT_CHANNELS, count) > 0
    others = random.integers(0, CHANNELS, count) + len(HOT)
    at = pa.array(np.where(hot, random.integers(0, len(HOT), count), others))
    channels, urls = channels_of(seed)
    column = {
        "auction": pa.array(auction + known.FIRST_AUCTION),
        "bidder": pa.array(bidder + known.FIRST_PERSON + known.FIRST_PERSON),
        "price": pa.array(price),
        "channel": channels.take(at),
        "url": urls.take(at),
        "dateTime": times,
        "extra": texts.padding(random, np.full(count, SIZE), BYTES, seed),
    }
    return pa.StructArray.from_arrays(list(column.values()), list(column))


@cache
def channels_of(seed: int) -> tuple[pa.Array, pa.Array]:
    """Return the names of all channels and their addresses, the hot ones first."""
    random = np.random.default_rng([seed, CHANNELS])
    names = pa.array([*HOT, *(f"channel-{number}" for number in range(CHANNELS))])
    folders = [texts.words(random, len(names), 5, "_") for _ in range(3)]
    base = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    tagged = random.integers(0, 10, CHANNELS) > 0
    tags = [f"&channel_id={_reversed(number)}" if each else "" for number, each in enumerate(tagged)]
    return names, pc.binary_join_element_wise(base, pa.array([""] * len(HOT) + tags), "")


def _reversed(number: int) -> int:
    """The 32 bits in reverse as a signed number, without its sign; of the least number, the sign stays, as in Java."""
    found = int(f"{number:032b}"[::-1], 2)
    return found if found < 1 << 31 else (1 << 32) - found if found > 1 << 31 else -found
