"""Random texts."""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SHORTEST = 3
POOL = 1 << 20
"""The characters of the text whose parts are paddings."""
DIGITS = 6
"""The characters that one random number gives."""


def words(random: np.random.Generator, count: int, limit: int, special: str = " ") -> pa.Array:
    """Return texts of 3 to `limit` - 1 letters; one in 13 is `special`, and spaces at the ends are removed."""
    lengths = random.integers(SHORTEST, limit, count)
    letters = random.integers(ord("a"), ord("z") + 1, lengths.sum(), dtype=np.uint8)
    letters[random.integers(0, 13, len(letters)) == 0] = ord(special)
    return pc.utf8_trim(_texts(lengths, letters), " ")


def padding(random: np.random.Generator, sizes: np.ndarray, average: int, seed: int) -> pa.Array:
    """Return texts that fill up events of `sizes` bytes to `average` bytes, give or take a fifth of what is missing."""
    missing = average - sizes
    spread = np.floor(missing * 0.2 + 0.5).astype(np.int64)
    lengths = missing - spread + random.integers(0, 2 * spread)
    pool = _pool(seed)
    starts = random.integers(0, len(pool) - lengths)
    ends = np.cumsum(lengths)
    return _texts(lengths, pool[np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)])


def one_of(random: np.random.Generator, texts: list[str], count: int) -> pa.Array:
    """Return any of the texts, `count` times."""
    return pa.array(texts).take(pa.array(random.integers(0, len(texts), count)))


def lengths_of(texts: pa.Array) -> np.ndarray:
    """Return the number of characters of each text."""
    return pc.utf8_length(texts).to_numpy().astype(np.int64)


@cache
def _pool(seed: int) -> np.ndarray:
    """Characters from `H` to `z`: the reference takes remainders of signed numbers, so half of them are negative."""
    numbers = np.random.default_rng([seed, POOL]).integers(-(1 << 31), 1 << 31, -(-POOL // DIGITS))
    quotients = [np.trunc(numbers / 26**digit).astype(np.int64) for digit in range(DIGITS)]
    return (ord("a") + np.fmod(np.stack(quotients, axis=1), 26)).astype(np.uint8).ravel()[:POOL]


def _texts(lengths: np.ndarray, letters: np.ndarray) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(letters))
