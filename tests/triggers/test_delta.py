"""The walk of `delta` over the values of new records against a loop over single values."""

import math
import random
import time

import numpy as np
import pytest

from slicing.triggers import by_delta
from slicing.triggers.by_delta import ByDelta, DeltaMemory, find_firings
from slicing.triggers.candidates import Candidates

VALUES = (0.0, -0.0, 1.0, 2.5, -3.0, 7.0, math.inf, -math.inf, 1e308, -1e308)


def one_by_one(pairs, values, reference, newest, threshold):
    reference, newest, fired = reference.tolist(), newest.tolist(), [False] * len(reference)
    for pair, value in zip(pairs, values.tolist(), strict=True):
        newest[pair] = value
        if math.isnan(reference[pair]):
            reference[pair] = value
        elif abs(value - reference[pair]) > threshold:
            reference[pair], fired[pair] = value, True
    return fired, reference, newest


@pytest.mark.parametrize("left", [0, by_delta.LEFT, 1], ids=["one by one", "both", "by passes"])
def test_a_walk_is_that_of_a_loop(monkeypatch, left):
    monkeypatch.setattr(by_delta, "LEFT", left)
    for seed in range(300):
        rng = random.Random(seed)
        count, records = rng.choice([1, 2, 9]), rng.choice([0, 1, 5, 60])
        pairs = np.sort(np.array([rng.randrange(count) for _ in range(records)], dtype=np.int64))
        made = [rng.choice(VALUES) if rng.random() < 0.5 else rng.uniform(-9, 9) for _ in pairs]
        reference = [rng.choice([math.nan, math.nan, *VALUES]) for _ in range(count)]
        newest = [rng.choice([math.nan, *VALUES]) for _ in range(count)]
        threshold = rng.choice([0.0, 0.5, 4.0, 1e9])
        arguments = np.array(made), np.array(reference), np.array(newest), threshold
        for ours, wanted in zip(find_firings(pairs, *arguments), one_by_one(pairs.tolist(), *arguments), strict=True):
            np.testing.assert_array_equal(ours, np.array(wanted), err_msg=f"seed {seed}")


def test_many_firings_of_a_key_cost_time_in_proportion():
    def seconds(records):
        values = np.arange(records) % 2.0
        begun = time.process_time()
        fired, _, _ = find_firings(np.zeros(records, np.int64), values, np.full(1, np.nan), np.full(1, np.nan), 0.5)
        assert fired.all()
        return time.process_time() - begun

    seconds(1_000)
    # A pass over all values for each firing takes 64 times as long for 8 times the records.
    assert min(seconds(160_000) for _ in range(3)) < 24 * min(seconds(20_000) for _ in range(3))


def test_values_are_walked_once_for_a_firing_and_what_is_remembered_of_it():
    asked = []

    def numbers():
        asked.append(1)
        return np.array([0, 0, 1]), np.array([1.0, 9.0, 2.0])

    none = np.full(2, np.nan)
    memory = DeltaMemory(*[np.zeros(2, np.int64)] * 3, none, none)
    pairs = Candidates(*[np.ones(2, np.int64)] * 2, memory, None, None, None, numbers=numbers)
    condition = ByDelta("v", 4.0)
    due = condition.due(pairs, memory, None)
    assert due.tolist() == [True, False]
    noted = condition.noted(pairs, memory, due, ~due)
    assert (noted.reference.tolist(), noted.newest.tolist(), len(asked)) == ([9.0, 2.0], [9.0, 2.0], 1)
