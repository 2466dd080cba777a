"""The values of records by pair of key and window, asked for in parts, against a loop over records."""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from slicing.content.records import Records
from slicing.engines import values_of_pairs
from slicing.engines.values_of_pairs import ValuesOfPairs
from slicing.windows.families.even import Even

HOPPING = Even(4000, 1000)


class Asked:
    """A family that notes for how many records it is asked for windows."""

    def __init__(self, of, noted):
        self._of, self._noted = of, noted

    def __getattr__(self, name):
        return getattr(self._of, name)

    def first_window(self, index):
        self._noted["records"] += len(index)
        return self._of.first_window(index)


def shipped(rng, keys):
    """Some records in order of arrival, and in the shape in which they are shipped."""
    made = [(rng.randrange(30), rng.choice(keys), rng.uniform(-9, 9)) for _ in range(rng.randrange(80))]
    for start in range(0, len(made), 7):
        index, names, values = zip(*made[start : start + 7], strict=True)
        index = np.array(index, dtype=np.int64)
        yield Records(index, index, pa.table({"k": pa.array(names)}), [pa.array(values)])


def windows_of(slice_):
    index = np.array([slice_])
    low, high = int(HOPPING.first_window(index)[0]), int(HOPPING.last_window(index)[0])
    return [one for one in range(low, high + 1) if HOPPING.first_slice(one) <= slice_ < HOPPING.end_slice(one)]


@pytest.mark.parametrize("parts", [1, 3, 20])
def test_parts_of_keys_have_their_values_and_read_their_records_once(parts):
    for seed in range(40):
        rng, noted = random.Random(seed), Counter()
        records = list(shipped(rng, "abcdefgh"))
        count = sum(len(each.index) for each in records)
        truth = {}
        for each in records:
            for slice_, key, value in zip(
                each.index.tolist(), each.names["k"].to_pylist(), each.values[0].to_pylist(), strict=True
            ):
                for window in windows_of(slice_):
                    truth.setdefault((key, window), []).append(value)
        named = list("hcabzdef")  # of "g" no pair is asked for, of "z" there is no record
        names, pairs = pa.table({"k": named}), sorted((named.index(k), w) for k, w in truth if k in named)
        pairs += [(7, 900)]
        values, found = ValuesOfPairs(records), {}
        for some in np.array_split(np.arange(len(named)), parts):
            part = [pair for pair in pairs if pair[0] in some]
            keys, windows = (np.array([pair[at] for pair in part], dtype=np.int64) for at in (0, 1))
            of, got = values.of(Asked(HOPPING, noted), windows, keys, names)
            assert np.all(np.diff(of) >= 0)
            for pair, value in zip(of.tolist(), got.tolist(), strict=True):
                key, window = part[pair]
                found.setdefault((named[key], window), []).append(value)
        assert found == {pair: some for pair, some in truth.items() if pair[0] in named}, seed
        assert noted["records"] <= count


def test_records_are_joined_and_encoded_once(monkeypatch):
    noted = Counter()
    for name in ("joined", "encode_keys"):
        of = getattr(values_of_pairs, name)
        monkeypatch.setattr(values_of_pairs, name, lambda given, name=name, of=of: (noted.update([name]), of(given))[1])
    index = np.array([3, 4, 5])
    values = ValuesOfPairs([Records(index, index, pa.table({"k": list("aba")}), [pa.array([1, 2, 3])])])
    names = pa.table({"k": list("ab")})
    for key in (0, 1, 0):
        values.of(HOPPING, np.array([3]), np.array([key]), names)
    assert noted == {"joined": 1, "encode_keys": 1}
