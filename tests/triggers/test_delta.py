"""The walk of `delta` over the values of new records against a loop over single values."""

import math
import random
import time
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from pyspark.sql import types as T

from slicing.content.signals import FIRST, NUMBER, WHEN
from slicing.engines.rows.pairs import WindowPairs
from slicing.errors import InvalidType, InvalidValue
from slicing.spark.resolution import _read
from slicing.stages.support_of import support_of
from slicing.triggers import by_delta
from slicing.triggers.by_delay import ByEventDelay
from slicing.triggers.by_delta import ByDelta, DeltaMemory, find_firings
from slicing.triggers.by_records import ByRecords
from slicing.triggers.by_signal import BySignal
from slicing.triggers.candidates import Candidates
from slicing.triggers.condition import OfColumn
from slicing.triggers.early import Early
from slicing.triggers.trigger import NUMBERS
from slicing.windows.session import session
from slicing.windows.sliding import sliding
from slicing.windows.unbounded import unbounded

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


@dataclass(frozen=True)
class Highest(OfColumn):
    """A condition on the values of new records, whatever their order."""

    name, signals = "highest", (NUMBER,)
    asks = frozenset({NUMBERS})

    def __repr__(self):
        return f"highest={self.column!r}"


def test_conditions_of_one_memory_or_signal_are_refused_together():
    one, other = ByDelta("speed", 5.0), ByDelta("warmth", 2.0)
    told = r"delta=\('speed', 5.0\) and delta=\('warmth', 2.0\) exclude each other: a window remembers values for one"
    with pytest.raises(InvalidValue, match=told):
        Early((ByRecords(3), one, other))
    with pytest.raises(InvalidValue, match="highest='n' exclude each other: one column can be read for a signal"):
        Early((one, Highest("n")))
    assert Early((one, BySignal("is_last"), ByEventDelay(1000))).signals == (NUMBER, WHEN, FIRST)


def test_windows_that_do_not_keep_values_refuse_conditions_on_them():
    trigger = Early((Highest("n"),))
    for window in (session("1 hour"), sliding("1 hour")):
        with pytest.raises(InvalidValue, match=r"highest='n'.* compares values of records one by one"):
            support_of(window).check("auto", False, trigger, True)
    support_of(unbounded()).check("auto", False, trigger, True)


def test_values_that_pairs_do_not_have_are_not_taken_for_none():
    none = dict.fromkeys(("windows", "keys", "names", "counts", "panes", "new", "bounds", "signals", "latest"))
    with pytest.raises(AssertionError, match="has not asked for values"):
        WindowPairs(**none).numbers()


def test_an_error_names_the_condition_that_reads_the_column():
    names = SimpleNamespace(field=lambda column, _: T.StructField(column, T.StringType()), code=str)
    with pytest.raises(InvalidType, match="`highest` takes a column of numbers; `n` is string"):
        Early((Highest("n"),)).reading(partial(_read, names))
