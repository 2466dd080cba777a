"""Partials that are no numbers of their fields: what a process holds of them, and which kernel a worker has."""

import itertools
import pickle
import random
import struct
import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from slicing import Aggregate
from slicing.aggregates import kernels
from slicing.aggregates.rows import RowsKernel
from slicing.aggregates.spill import FIRST, MOST, SPILL, spilling
from slicing.assembly.choice import choose
from slicing.content.block import Shape, encode_keys
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import InvalidType, TooLarge
from slicing.laws import dry_run
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_update
from tests.oracle import FINGERPRINT, hopping, moment, results, shape_of
from tests.tracing import both, objects, outcome

ODD = {
    "numpy's floats": (lambda: (0, 0.0), lambda acc, v: (acc[0] + 1, acc[1] + np.log(v))),
    "a list": (lambda: (0, 0), lambda acc, v: [acc[0] + 1, acc[1] + v]),
    "beyond 64 bits": (lambda: 0, lambda acc, v: acc + v * 2**62),
    "reserved": (lambda: 0, lambda acc, v: FIRST + v % 1000),
    "numpy's integers": (lambda: 0, lambda acc, v: acc + np.int64(v)),
}


def _joined(a, b):
    return (a[0] + b[0], a[1] + b[1]) if isinstance(a, tuple | list) else a + b


@pytest.mark.parametrize("which", ODD)
def test_nothing_is_held_once_a_unit_of_work_is_over(which):
    init, agg = ODD[which]
    rows, traced = both(Aggregate(init, agg, _joined, laws=False))
    held = len(SPILL.partials)
    for _ in range(5):
        with spilling():
            found = []
            for kernel in (rows, traced):
                values = kernel.values([pa.array([float(at) if "float" in which else at for at in range(1, 401)])])[0]
                made = kernel.fold(values, np.arange(0, 400, 4), 400)
                found.append(
                    [tuple(map(float, p)) if isinstance(p, tuple | list) else int(p) for p in objects(kernel, made)]
                )
            assert found[0] == found[1]
        assert len(SPILL.partials) == held


def test_numbers_of_numpy_become_pythons():
    _, traced = both(Aggregate(*ODD["numpy's floats"], _joined, laws=False))
    values = traced.values([pa.array([1.0 * at for at in range(1, 401)])])[0]
    before = len(SPILL.partials)
    made = objects(traced, traced.fold(values, np.arange(0, 400, 4), 400))
    assert {type(part) for partial in made for part in partial} == {int, float}
    assert len(SPILL.partials) == before


@pytest.mark.parametrize("which", ["numpy's floats", "a list"])
def test_a_worker_has_rows_of_what_is_not_trusted(which):
    made = kernels.kernel("mine", Aggregate(*ODD[which], _joined))
    dry_run(made, ["double" if "float" in which else "bigint"])
    assert type(pickle.loads(cloudpickle.dumps(made))) is RowsKernel


def test_what_is_not_plain_is_found_beyond_the_first_samples():
    """The first records are plain: a list comes where a value is negative and odd."""
    agg = Aggregate(
        lambda: (0, 0), lambda acc, v: [acc[0], v] if v < -4 and v % 2 else (acc[0], v), _joined, laws=False
    )
    made = kernels.kernel("mine", agg)
    dry_run(made, ["bigint"])
    assert type(pickle.loads(cloudpickle.dumps(made))) is RowsKernel


def test_too_many_partials_that_are_no_numbers_are_refused(monkeypatch):
    monkeypatch.setattr("slicing.aggregates.spill.MOST", len(SPILL.partials) + 10)
    assert MOST == 1 << 20
    _, traced = both(Aggregate(lambda: 0, lambda acc, v: acc + v * 2**62, _joined, laws=False))
    values = traced.values([pa.array(range(1, 401))])[0]
    with spilling(), pytest.raises(TooLarge, match=r"at most \d+ partials at a time may be other than numbers"):
        traced.fold(values, np.arange(0, 400, 4), 400)


def test_units_of_work_may_be_interleaved():
    first, second = spilling(), spilling()
    first.__enter__()
    kept = SPILL.put("of the first")
    second.__enter__()
    other = SPILL.put("of the second")
    first.__exit__(None, None, None)
    assert kept not in SPILL.partials
    assert SPILL.partials[other] == "of the second"
    second.__exit__(None, None, None)
    assert other not in SPILL.partials


def nan_of(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


def test_a_nan_of_the_data_is_no_reference():
    """Whatever its bits: else it showed a partial that another aggregate had spilled."""
    with spilling():
        reference = SPILL.put("a partial of another aggregate")
        _, traced = both(Aggregate(lambda: 0.0, lambda acc, v: v, lambda a, b: b, laws=False))
        values = [nan_of(reference), 1.0] * 100
        for kind, given in [("double", values), ("float", None)]:
            if given is None:
                given = [nan_of(0x7FFC_5E1F_0000_0000), 1.0] * 100  # a float of 32 bits keeps the upper ones
            arrays = [pa.array(np.array(given).astype(np.float32 if kind == "float" else np.float64))]
            made = traced.fold(traced.values(arrays)[0], np.arange(200), 200)
            assert all(type(item) is float for item in objects(traced, made))
        stored = [pa.array(np.array(values))]
        assert all(type(item) is float for item in objects(traced, traced.from_arrow(stored)[0]))


def test_a_bucket_that_refers_to_spilled_partials_is_not_kept():
    """What a process keeps between micro-batches outlives them: rows are those of all records all the same."""

    odd = Aggregate(lambda: 0, lambda acc, v: max(acc, FIRST + v % 7), lambda a, b: max(a, b), laws=False)

    family, rng, store = hopping(5), random.Random(1), MemoryStore()
    shape = Shape(family, shape_of(family, []).keys, (kernels.kernel("odd", odd),))
    trees, truth = [choose(shape.kernels[0], family)], {}
    for _ in range(12):
        with spilling():
            slices, keys = (
                np.sort(np.array([rng.randrange(4) for _ in range(60)])),
                [rng.randrange(3) for _ in range(60)],
            )
            values = [rng.randrange(100) for _ in range(60)]
            for window, key, value in zip(slices.tolist(), keys, values, strict=True):
                for at in range(family.first_window(window), family.last_window(window) + 1):
                    truth[key, at] = max(truth.get((key, at), 0), FIRST + value % 7)
            codes, names = encode_keys(
                pa.table([pa.array(keys, field.type) for field in shape.key_schema], schema=shape.key_schema)
            )
            bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store, on_update())
            bucket.accept([from_records(shape, slices, codes, names, [[pa.array(values)]])])
            got = {place: row[1] for place, row in results(shape, list(bucket.close(moment(0)))).items()}
            assert got == {place: truth[place] for place in got}
            assert len(got) > 3
    assert bucket.head.nonce == "" or bucket.head.nonce not in bucket_cache._entries


def test_a_partial_that_no_boolean_holds_is_refused_by_name():
    made = kernels.kernel("any", Aggregate(lambda: False, lambda acc, v: acc or v, lambda a, b: a or b))
    with pytest.raises(InvalidType, match="field `value` of `any` must be of type boolean; got 1"):
        dry_run(made, ["bigint"])
    rows, traced = both(made.aggregate)
    pair = [
        outcome(lambda k=k: k.to_arrow(k.fold(k.values([pa.array([0, 5])])[0], np.arange(2), 2), None))
        for k in (rows, traced)
    ]
    assert pair[0] == pair[1]
    assert pair[0][0] == "failed"


def test_a_function_that_is_not_the_same_twice_is_not_a_bug_of_tracing():
    numbers = itertools.count()
    made = kernels.kernel("drawn", Aggregate(lambda: 0, lambda acc, v: acc + v + next(numbers), _joined, laws=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dry_run(made, ["bigint"])
    assert type(pickle.loads(cloudpickle.dumps(made))) is RowsKernel
