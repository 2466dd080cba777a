"""Functions that take tracing at its weak points: what they catch, what they return, what they are given."""

import builtins
import inspect
import itertools
import math
import pickle
import random
import struct
import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from slicing import Aggregate
from slicing.aggregates import kernels
from slicing.aggregates.dry_run import trial
from slicing.aggregates.rows import RowsKernel
from slicing.aggregates.spill import FIRST, MOST, SPILL, spilling
from slicing.aggregates.tracing.expressions import Graph, Untraceable
from slicing.aggregates.tracing.paths import Path
from slicing.aggregates.tracing.shims import Double, Doubles
from slicing.assembly.choice import choose
from slicing.content.block import Shape, encode_keys
from slicing.content.folding import from_records
from slicing.engines.sliced.bucket import Bucket
from slicing.errors import InvalidType, TooLarge
from slicing.state import bucket_cache
from slicing.state.store import MemoryStore
from slicing.triggers.emission import on_update
from tests.oracle import FINGERPRINT, hopping, moment, results, shape_of
from tests.tracing import assert_same, both, folded, objects, outcome

VALUES = {"bigint": list(range(-100, 100)), "double": [1.37 * at - 40 for at in range(200)]}
STARTS = [*range(0, 200, 2)]


def rounds(acc, v):
    try:
        return acc + round(v, ndigits=-2)
    except TypeError:
        return acc + v


def squares(acc, v):
    try:
        return acc + pow(base=v, exp=2)
    except Exception:
        return acc


def from_bytes(acc, v):
    try:
        return acc + int.from_bytes(b"ab", "big") + v
    except Exception:
        return acc - 1


def floors(acc, v):
    try:
        return acc + math.floor(x=v)
    except TypeError:
        return acc - v


def swallows(acc, v):
    try:
        return acc + float(v.hex())
    except:  # noqa: E722
        return acc + 1


def returns_at_last(acc, v):
    try:
        round(v, ndigits=1).nothing()
    finally:
        return acc + v  # noqa: B012


def matches(acc, v):
    match v:
        case float():
            return acc + v
        case _:
            return acc + 1


def with_start(acc, v):
    return acc + sum((v for _ in range(3)), start=1)


def by_key(acc, v):
    return acc + min(v, 3, key=lambda x: -x)


def of_text(acc, v):
    return acc + len(f"{v}")


def remainder(acc, v):
    return acc + divmod(v, 7)[1]


def walrus(acc, v):
    return acc + n if (n := abs(v)) > 10 else acc


def chained(acc, v):
    return acc + v if -20 < v < 20 else acc


def based(acc, v):
    try:
        return acc + int(v, base=10)
    except TypeError:
        return acc + 2


def too_many(acc, v):
    try:
        return acc + round(v, None, None)
    except TypeError:
        return acc + 3


def inside(acc, v):
    def helper(x):
        try:
            return round(number=x, digits=2)
        except Exception:
            return 0

    return acc + helper(v)


FUNCTIONS = [
    rounds,
    squares,
    from_bytes,
    floors,
    swallows,
    returns_at_last,
    matches,
    with_start,
    by_key,
    of_text,
    remainder,
    walrus,
    chained,
    based,
    too_many,
    inside,
]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("kind", ["bigint", "double"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_what_a_function_catches_is_what_it_catches_by_rows(function, kind):
    init = 0 if kind == "bigint" else 0.0
    rows, traced = both(Aggregate(lambda: init, function, lambda a, b: a + b, laws=False))
    pair = [outcome(folded, kernel, [VALUES[kind]], [kind], STARTS) for kernel in (rows, traced)]
    sums = [0] if traced.traced_agg(["int" if kind == "bigint" else "float"]) else []
    assert_same(pair[0], pair[1], function.__name__, sums if kind == "double" else ())


@pytest.mark.parametrize("name", ["min", "max", "round", "int", "float", "bool", "sum", "divmod", "pow", "isinstance"])
def test_doubles_take_the_keywords_of_what_they_stand_for(name):
    """Or end the trial: no keyword that Python's own takes gives an exception that a function could catch."""
    try:
        known = inspect.signature(getattr(builtins, name)).parameters.values()
    except ValueError:  # int, min and max do not say
        known = ()
    keywords = [each.name for each in known if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    keywords += {"int": ["base"], "min": ["key", "default"], "max": ["key", "default"]}.get(name, [])
    for some in itertools.chain.from_iterable(itertools.combinations(keywords, n) for n in range(len(keywords) + 1)):
        path = Path(Graph(), [])
        double = Doubles(path).builtins[name]
        with suppress(Untraceable):
            try:
                double(**dict.fromkeys(some, 2))
            except TypeError as error:
                with pytest.raises(type(error)):
                    getattr(builtins, name)(**dict.fromkeys(some, 2))


def test_every_double_is_guarded():
    doubles = Doubles(Path(Graph(), []))
    plain = [name for name, double in vars(doubles.math).items() if callable(double) and type(double) is not Double]
    assert plain == []


GUARDS = {
    "raise": "if b > 1000:\n        raise ValueError('too much')",
    "assert": "assert b <= 1000",
    "division": "1 / (b - 1001)",
    "both": "if a + b > 1000:\n        raise ValueError('too much')",
}


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_guard_of_combine_raises_wherever_partials_are_joined(guard):
    names = {}
    exec(f"def combine(a, b):\n    {guard}\n    return a + b", names)  # each guard is code of its own
    aggregate = Aggregate(lambda: 0, lambda acc, v: acc + v, names["combine"], lambda a, b: a - b, laws=False)
    rows, traced = both(aggregate)
    assert traced.combine_ufuncs is None
    values = [[1] * 60 + [1001] + [1] * 60]
    pair = []
    for kernel in (rows, traced):
        made = kernel.fold(kernel.values([pa.array(values[0])])[0], np.arange(121), 121)
        pair.append(outcome(lambda k=kernel, m=made: objects(k, k.reduce(m, np.array([0, 40])))))
    assert pair[0] == pair[1]
    assert pair[0][0] == "failed"


def agg_keyword(acc, v, *, by=1):
    return acc + v * by


def test_changes_of_what_a_function_sees_are_seen():
    scale = partial(agg_keyword, by=3)
    names = {}
    exec("def shadowed(acc, v):\n    return acc + abs(v)", names)

    def shadow():
        names["abs"] = lambda v: v * 10

    def keyword_default():
        agg_keyword.__kwdefaults__["by"] = 7

    for agg, change in [
        (agg_keyword, keyword_default),
        (scale, lambda: scale.keywords.update(by=5)),
        (names["shadowed"], shadow),
    ]:
        rows, traced = both(Aggregate(lambda: 0, agg, lambda a, b: a + b, laws=False))
        values = [list(range(-100, 100))]
        assert folded(traced, values, ["bigint"], STARTS) == folded(rows, values, ["bigint"], STARTS)
        before = folded(traced, values, ["bigint"], STARTS)
        change()
        wanted = folded(rows, values, ["bigint"], STARTS)
        assert wanted != before
        assert folded(traced, values, ["bigint"], STARTS) == wanted
    agg_keyword.__kwdefaults__["by"] = 1


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
    trial(made, ["double" if "float" in which else "bigint"])
    assert type(pickle.loads(cloudpickle.dumps(made))) is RowsKernel


def test_what_is_not_plain_is_found_beyond_the_first_samples():
    """The first records are plain: a list comes where a value is negative and odd."""
    agg = Aggregate(
        lambda: (0, 0), lambda acc, v: [acc[0], v] if v < -4 and v % 2 else (acc[0], v), _joined, laws=False
    )
    made = kernels.kernel("mine", agg)
    trial(made, ["bigint"])
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

    slicing, rng, store = hopping(5), random.Random(1), MemoryStore()
    shape = Shape(slicing, shape_of(slicing, []).keys, (kernels.kernel("odd", odd),))
    trees, truth = [choose(shape.kernels[0], slicing)], {}
    for _ in range(12):
        with spilling():
            slices, keys = (
                np.sort(np.array([rng.randrange(4) for _ in range(60)])),
                [rng.randrange(3) for _ in range(60)],
            )
            values = [rng.randrange(100) for _ in range(60)]
            for window, key, value in zip(slices.tolist(), keys, values, strict=True):
                for at in range(slicing.first_window(window), slicing.last_window(window) + 1):
                    truth[key, at] = max(truth.get((key, at), 0), FIRST + value % 7)
            codes, names = encode_keys(
                pa.table([pa.array(keys, field.type) for field in shape.key_schema], schema=shape.key_schema)
            )
            bucket = Bucket(shape, trees, 0, FINGERPRINT, store, on_update())
            bucket.add([from_records(shape, slices, codes, names, [[pa.array(values)]])])
            got = {place: row[1] for place, row in results(shape, list(bucket.close(moment(0)))).items()}
            assert got == {place: truth[place] for place in got}
            assert len(got) > 3
    assert bucket.head.nonce == "" or bucket.head.nonce not in bucket_cache._kept


def test_a_partial_that_no_boolean_holds_is_refused_by_name():
    made = kernels.kernel("any", Aggregate(lambda: False, lambda acc, v: acc or v, lambda a, b: a or b))
    with pytest.raises(InvalidType, match="field `value` of `any` must be of type boolean; got 1"):
        trial(made, ["bigint"])
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
        trial(made, ["bigint"])
    assert type(pickle.loads(cloudpickle.dumps(made))) is RowsKernel
