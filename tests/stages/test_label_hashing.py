"""The hash of text keys, by which the state of a bucket is found, against its formula in Python's integers."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from slicing.content import hashing
from slicing.content.hashing import _hashed_bytes
from slicing.stages.labels import labels_of

BASE = 0x9E3779B97F4A7C15


def formula(value):
    total = len(value)
    for place, byte in enumerate(value):
        total += (byte + 1) * pow(BASE, place + 1, 1 << 64)
    return total % (1 << 64)


@pytest.mark.parametrize("piece", [3, 7, 64, 1 << 17])
def test_pieces_of_any_length_give_the_hash_of_the_formula(piece, monkeypatch):
    monkeypatch.setattr(hashing, "PIECE_BYTES", piece)
    rng = np.random.default_rng(piece)
    values = [bytes(rng.integers(0, 256, rng.choice([0, 1, 3, 63, 64, 65, 300]), np.uint8)) for _ in range(30)]
    for shown in (values, values[5:], [b"", b""], [b"", *values, b""], [None, *values[::2], None]):
        hashed = _hashed_bytes(pa.array(shown, pa.binary())).tolist()
        assert hashed == [formula(value or b"") for value in shown]
    assert _hashed_bytes(pa.array(values, pa.binary())[7:20]).tolist() == [formula(value) for value in values[7:20]]


def test_the_bucket_of_a_long_key_never_changes():
    """Of a key longer than the pieces too; these are those of every checkpoint of this format."""
    keys = pa.array(["", "a", "Zürich", "b" * 300, None, "0123456789" * 1000, "user 000000001", "x" * 200_001])
    assert labels_of(pa.table({"k": keys}), tuple(range(100))).tolist() == [0, 9, 25, 39, 38, 79, 90, 65]
    assert [hex(bits) for bits in _hashed_bytes(keys).tolist()[5:]] == [
        "0xcaedc28c39c87c68",
        "0x1b269d708d6768e0",
        "0xa19b1bf1e81a27ee",
    ]


@pytest.mark.parametrize("keys", [["x" * 8_000_000], [f"{n:05}" * 400 for n in range(4_000)]], ids=["one", "many"])
def test_hashing_takes_less_memory_than_the_keys(keys):
    names, labels = pa.table({"k": pa.array(keys)}), tuple(range(16))
    tracemalloc.start()
    try:
        labels_of(names, labels)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()
