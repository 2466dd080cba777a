"""What users write: traced or said why not, and the same as by rows; what must not be traced is not."""

import datetime as dt
import math
import operator
import pickle
import random
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from slicing import Aggregate, traced
from slicing.aggregates import kernels
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.rows import RowsKernel
from slicing.assembly.choice import choose
from slicing.content.block import Shape, encode_keys
from slicing.content.codec import decode, encode
from slicing.content.folding import fold, from_records
from slicing.engines.bounded import all_frames
from slicing.engines.sliced.bucket import SlicedBucket
from slicing.errors import FunctionFailed, InvalidType, InvalidValue
from slicing.laws import dry_run
from slicing.state.store import MemoryStore
from slicing.tracing import verification
from slicing.tracing.exact import Calculation
from slicing.tracing.formulas import TYPES
from slicing.tracing.showing import NAMES, by_rows, mode
from tests.oracle import FINGERPRINT, hopping, moment, results, windows_of
from tests.tracing import assert_same, both, drawn, exact, float_sums, folded, held, objects, outcome
from tests.user_aggregates import USERS, asserting

TRACED = [name for name, written in USERS.items() if not written.rows]
PARTS = [name for name, written in USERS.items() if "all" not in written.rows]
SLICING = hopping(9, advance=1000)
OTHERS = {
    "string": ("a", "b", "", "é"),
    "decimal(10,2)": (Decimal("1.25"), Decimal("-0.50")),
    "date": (dt.date(2024, 2, 29), dt.date(1969, 12, 31)),
}
"""Values of kinds that are no numbers."""


def tried(name, aggregate, kinds):
    """The kernel of an aggregate after the dry run, which may warn of nothing."""
    made = kernels.kernel(name, aggregate)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dry_run(made, kinds)
    return made


@pytest.mark.parametrize("name", USERS)
def test_what_users_write_is_traced_or_said_why_not(name):
    written = USERS[name]
    made = tried(name, written.aggregate, written.kinds)
    functions = [f for f in NAMES if getattr(written.aggregate, f) is not None]
    if not written.rows:
        assert (mode(made), by_rows(made)) == ("traced", "")
        assert "by rows" not in traced(written.aggregate, *written.kinds)
    elif "all" in written.rows:
        assert mode(made) == "rows"
        assert by_rows(made).startswith("all, since ")
        assert written.rows["all"] in by_rows(made)
    else:
        assert mode(made) == ("rows" if set(functions) == set(written.rows) else "traced in part")
        assert made.by_rows.keys() == written.rows.keys()
        for function, text in zip([f for f in NAMES if f in written.rows], by_rows(made).split("; "), strict=True):
            assert text.startswith(f"`{function}` since it")
            assert written.rows[function] in text
    assert "\n" not in by_rows(made)


def test_most_of_what_users_write_is_traced():
    assert len(USERS) >= 60
    assert len(TRACED) >= 45


def arguments(choice, written, count, calm=True):
    """Columns of values for an aggregate."""

    def value(kind):
        if written.aggregate.nulls and choice.random() < 0.2:
            return None
        found = choice.choice(OTHERS[kind]) if kind in OTHERS else drawn(choice, kind, calm)
        return (1 + abs(found) if kind == "bigint" else 0.5 + abs(found)) if written.positive else found

    return [[value(kind) for _ in range(count)] for kind in written.kinds]


@pytest.mark.parametrize("name", PARTS)
def test_functions_make_the_same_as_by_rows(name):
    """Integers of 64 bits, zeros, NaN and infinities among the values; also where functions raise."""
    written, choice = USERS[name], random.Random(name)
    rows, other = both(replace(written.aggregate, columns=None))
    for calm, groups, most in ((True, 60, 5), (False, 60, 3), (True, 3, 70), (False, 60, 1)):
        sizes = [choice.randint(1, most) for _ in range(groups)]
        starts = np.cumsum([0, *sizes[:-1]])
        columns = arguments(choice, written, sum(sizes), calm) or [[0] * sum(sizes)]
        made = [outcome(_folded, k, columns, written.kinds, starts) for k in (rows, other)]
        # What a large partial adds up in another order may be anything; by position nothing differs.
        assert_same(*made, name, float_sums(other, written.kinds) if calm else _all_floats(other, written))
        if made[0][0] != "made":
            continue
        partials = made[0][1]
        turned = partials[1:] + partials[:1]
        pairs = [("combine", partials, turned), ("lower", partials, ())]
        for function, a, b in pairs:
            found = [outcome(_called, k, function, a, b) for k in (rows, other)]
            assert_same(*found, (name, function))
            if function == "combine" and written.aggregate.invert and found[0][0] == "made":
                assert_same(*(outcome(_called, k, "invert", found[0][1], a) for k in (rows, other)), (name, "invert"))
        found = [outcome(_reduced, k, partials, np.arange(0, len(partials), 4)) for k in (rows, other)]
        assert_same(*found, (name, "reduce"), _all_floats(other, written))


def _folded(kernel, columns, kinds, starts):
    if kinds:
        return folded(kernel, columns, kinds, starts)
    return objects(kernel, kernel.fold([], np.array(starts), len(columns[0])))


def _called(kernel, function, a, b):
    if function == "lower":
        columns = [array.to_pylist() for array in kernel.results_to_arrow(held(kernel, a), None)]
        return list(zip(*columns, strict=True))
    return objects(kernel, getattr(kernel, function)(held(kernel, a), held(kernel, b)))


def _reduced(kernel, partials, starts):
    return objects(kernel, kernel.reduce(held(kernel, partials), starts))


def _all_floats(kernel, written):
    """The fields that may differ where floats of any size are added up; none if none is added up."""
    agg = kernel.traced_agg([TYPES.get(kind, kind) for kind in written.kinds])
    steps = [*(agg.steps or ()), *(kernel.joins or ())] if agg else kernel.joins or ()
    types = kernel.signature.types * 2
    return sorted(
        {at % len(kernel.fields) for at, step in enumerate(steps) if step.op == "add" and types[at] == "float"}
    )


# The same records through streams and bounded input, by rows and traced.


def shape_of(columns):
    """All of the collection in one shape, with functions called in one way."""
    made = [kernels.kernel(f"r{at}", replace(USERS[name].aggregate, columns=columns)) for at, name in enumerate(USERS)]
    return Shape(SLICING, (Field("key0", "bigint"),), tuple(made))


def drawn_batches(choice, batches):
    """Micro-batches of (time, key) with the columns of all aggregates, and a watermark in milliseconds after each."""
    now = 0
    for number in range(batches):
        count = choice.choice((1, 30, 60))
        times = [max(0, now + choice.randint(-4000, 3000)) for _ in range(count)]
        keys = [choice.randint(0, 3) for _ in range(count)]
        values = {name: columns_of(choice, USERS[name], count) for name in USERS}
        now += choice.choice((500, 3000, 6000) if number != batches // 2 else (40_000,))
        yield times, keys, values, max(0, now - 2000) // 1000


def columns_of(choice, written, count):
    columns = arguments(choice, written, count)
    return [pa.array(column, arrow_type(kind)) for column, kind in zip(columns, written.kinds, strict=True)]


def block_of(shape, times, keys, values):
    names = pa.table([pa.array(keys, pa.int64())], shape.key_schema)
    codes, names = encode_keys(names)
    slices = shape.family.slice_at(np.array(times, np.int64))
    return from_records(shape, slices, codes, names, list(values.values()))


def streamed(columns, batches, trees=None):
    """What a stream puts out, each micro-batch in another mode if there are several: the state is the same."""
    store, out = MemoryStore(), {}
    shapes = [shape_of(each) for each in columns]
    trees = trees or [choose(k, SLICING) for k in shapes[0].kernels]
    for number, (times, keys, values, watermark) in enumerate([*batches, ([], [], None, 1 << 40)]):
        shape = shapes[number % len(shapes)]
        bucket = SlicedBucket(shape, trees, 0, FINGERPRINT, store)
        if times:
            cut = len(times) // 2
            parts = [slice(0, cut), slice(cut, len(times))] if cut else [slice(0, len(times))]
            blocks = [
                block_of(shape, times[p], keys[p], {n: [c[p] for c in cs] for n, cs in values.items()}) for p in parts
            ]
            bucket.accept([decode(shape, encode(shape, block)) for block in blocks])
        out |= results(shape, list(bucket.close(moment(watermark))))
    assert not store.pages
    return out


def assert_equal_results(rows, other, values):
    """Bit by bit, floats that are added up within the bound of sums."""
    assert rows.keys() == other.keys()
    for place, (count, *found) in rows.items():
        assert other[place][0] == count
        for name, x, y in zip(USERS, found, other[place][1:], strict=True):
            near = 2e-12 * values[place][name]
            alike = (_alike(*pair, near) for pair in zip(_parts(x), _parts(y), strict=True))
            assert all(alike), (place, name, x, y)


def _parts(value):
    return value if isinstance(value, tuple) else (value,)


def _alike(x, y, near):
    return exact(x) == exact(y) or (isinstance(x, float) and isinstance(y, float) and abs(x - y) <= near)


def sizes_of(batches):
    """By key and window, and by aggregate: the sum of the sizes of the values, as its `degree` says."""
    found = defaultdict(Counter)
    for times, keys, values, _ in batches:
        for at, (instant, key) in enumerate(zip(times, keys, strict=True)):
            for window in windows_of(SLICING, instant):
                for name, columns in values.items():
                    numbers = [c[at].as_py() for c, k in zip(columns, USERS[name].kinds, strict=True) if k in TYPES]
                    sizes = [max(1.0, abs(v or 0)) ** USERS[name].degree for v in numbers]
                    found[key, window][name] += math.prod(sizes)
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(2))
def test_a_stream_by_rows_and_traced(seed):
    batches = list(drawn_batches(random.Random(seed), 4))
    trees = ["three_layer"] * len(USERS) if seed else None
    rows = streamed([False], batches, trees)
    sizes = sizes_of(batches)
    assert len(rows) > 40
    assert_equal_results(rows, streamed([None], batches, trees), sizes)
    assert_equal_results(rows, streamed([None, False], batches, trees), sizes)


def test_bounded_input_by_rows_and_traced():
    batches = list(drawn_batches(random.Random(5), 6))
    found = []
    for columns in (False, None):
        shape = shape_of(columns)
        trees = [choose(k, SLICING) for k in shape.kernels]
        rows = fold(shape, [block_of(shape, *batch[:3]) for batch in batches])
        found.append(results(shape, list(all_frames(shape, trees, rows))))
    assert len(found[0]) > 60
    assert_equal_results(*found, sizes_of(batches))


# What must not be traced.

LIMIT = [10]
TABLE = {0: 5}
PRINTED = []


def counter():
    seen = 0

    def count(acc, v):
        nonlocal seen
        seen += 1
        return acc + seen

    return count


def refusing(acc, v):
    if v == 13:
        raise ValueError(f"{v} is not taken")
    return acc + v


def collecting(acc, v, seen=[]):  # noqa: B006
    seen.append(v)
    return acc + len(seen)


UNTRACED = {
    "a global list": (lambda acc, v: acc + LIMIT[0] * v, "reads the global `LIMIT`, a list"),
    "random": (lambda acc, v: acc + (random.random() < 2), "reads the global `random`, a module"),
    "time": (lambda acc, v: acc + (time.time() > 0), "reads the global `time`, a module"),
    "a clock": (lambda acc, v: acc + (dt.datetime.now().year > 0), "reads the global `dt`, a module"),
    "a counter in a closure": (counter(), "writes `seen` of the function around it"),
    "a list as a default": (collecting, "reads a default, a list"),
    "printing": (lambda acc, v: PRINTED.append(v) or acc + v, "reads the global `PRINTED`, a list"),
    "print": (lambda acc, v: print(v, end="") or acc + v, "calls `print`"),
    "a dict": (lambda acc, v: acc + TABLE.get(v, 1), "reads the global `TABLE`, a dict"),
    "an import": (lambda acc, v: acc + __import__("math").floor(v), "calls `__import__`"),
    "identity": (lambda acc, v: acc + (v is acc), "compares by `is`"),
    "text": (lambda acc, v: acc + int(f"{v}"), "makes text of a value"),
    "a loop": (lambda acc, v: acc + sum(1 for _ in range(v % 3)), "counts or indexes by a value"),
    "a method": (lambda acc, v: acc + v.bit_length(), "the attribute `bit_length`"),
}


@pytest.mark.parametrize("name", UNTRACED)
def test_what_depends_on_more_than_its_arguments_is_not_traced(name, capsys):
    function, why = UNTRACED[name]
    before = len(PRINTED)
    made = kernels.kernel(name, Aggregate(lambda: 0, function, lambda a, b: a + b, laws=False))
    assert made.traced_agg(["int"]) is None
    assert why in made.by_rows["agg"]
    assert (len(PRINTED), capsys.readouterr().out) == (before, ""), "what is refused at sight was not even called"
    if name in ("a counter in a closure", "a list as a default"):
        return
    rows = RowsKernel(name, replace(made.aggregate, columns=False))
    records = [[*range(-20, 40)]]
    assert folded(made, records, ["bigint"], [0, 7, 8]) == folded(rows, records, ["bigint"], [0, 7, 8])


def test_a_counter_in_a_closure_counts_every_record_once():
    made = kernels.kernel("n", Aggregate(lambda: 0, counter(), lambda a, b: max(a, b)))
    assert folded(made, [[5] * 60], ["bigint"], [0, 59]) == [59 * 60 // 2, 60]


RAISING = {
    "on purpose": refusing,
    "by an assertion": asserting,
    "division": lambda acc, v: acc + 60 // (v - 13),
    "a root": lambda acc, v: acc + int(math.sqrt(13 - v)) if v == 14 else acc + v,
    "a logarithm": lambda acc, v: acc + int(math.log(v - 13)) if v == 13 else acc + v,
    "a shift": lambda acc, v: acc + (1 << (v - 14) if v == 13 else v),
}


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize("keys", [1, 90], ids=["few", "many"])
def test_functions_raise_as_by_rows_with_the_same_message_and_place(name, keys):
    records = [v for v in range(90) if v not in (13, 14)]
    records[77] = 14 if name == "a root" else 13
    found = []
    for columns in (False, None):
        made = kernels.kernel("mine", Aggregate(lambda: 0, RAISING[name], lambda a, b: a + b, columns=columns))
        shape = Shape(SLICING, (Field("key0", "bigint"),), (made,))
        if columns is None:
            assert made.traced_agg(["int"]) is not None
        times, users = [1000 * at for at in range(len(records))], [at % keys for at in range(len(records))]
        with pytest.raises(FunctionFailed) as raised:
            block_of(shape, times, users, {"mine": [pa.array(records)]})
        found.append((str(raised.value), repr(raised.value.__cause__)))
    assert found[0] == found[1]
    assert f"for key ({77 % keys},) in slice" in found[0][0]


# What may change, and what must not.


SCALE = 2


def scaled(acc, v):
    return acc + SCALE * v


def test_a_global_that_changes_is_seen(monkeypatch):
    made = kernels.kernel("mine", Aggregate(lambda: 0, scaled, lambda a, b: a + b))
    records = [[1] * 100]
    assert folded(made, records, ["bigint"], [*range(100)]) == [2] * 100
    assert made.traced_agg(["int"]) is not None
    monkeypatch.setitem(globals(), "SCALE", 3)
    assert folded(made, records, ["bigint"], [*range(100)]) == [3] * 100


def test_a_difference_is_reported_and_the_query_runs_by_rows(monkeypatch):
    """Also where the kernel is sent."""
    made = kernels.kernel("mine", Aggregate(lambda: 0, lambda acc, v: acc - v % 7, lambda a, b: a + b))
    original = Calculation._made
    monkeypatch.setattr(
        Calculation, "_made", lambda self, expr: self.of(expr.args[0]) if expr.op == "mod" else original(self, expr)
    )
    with pytest.warns(UserWarning, match="`agg` of `mine` is not the same by columns as by rows. This is a bug"):
        dry_run(made, ["bigint"])
    there = pickle.loads(cloudpickle.dumps(made))
    assert mode(made) == "rows"
    assert made.formulas == {"combine": None, "invert": None, "lower": None}
    assert type(there) is RowsKernel
    for each in (made, there):
        assert folded(each, [[8] * 100], ["bigint"], [*range(100)]) == [-1] * 100


def test_laws_are_tried_on_the_traced_form(monkeypatch):
    """The laws hold by rows: then tracing is at fault, which is said, and rows are used."""
    made = kernels.kernel("mine", Aggregate(lambda: 0, lambda acc, v: acc + v, lambda a, b: a + b, columns=None))
    monkeypatch.setattr(verification, "_Comparison", lambda *_: _Nothing)  # which would have found it
    original = Calculation._made
    monkeypatch.setattr(Calculation, "_made", lambda self, expr: _less(original(self, expr), expr))
    with pytest.warns(UserWarning, match=r"(?s)`mine` violates a law by columns that it keeps by rows.* This is a bug"):
        dry_run(made, ["bigint"])
    assert mode(made) == "rows"


class _Nothing:
    @staticmethod
    def found():
        return ""

    @staticmethod
    def is_steady():
        return True

    is_plain = is_steady


def _less(column, expr):
    if expr.op == "add":
        column.array = column.array - 1
    return column


@pytest.mark.parametrize("columns", [None, False])
def test_a_broken_law_is_the_user_s_fault(columns):
    aggregate = Aggregate(lambda: 0, lambda acc, v: abs(acc - v), lambda a, b: abs(a - b), columns=columns)
    with pytest.raises(InvalidValue, match="cannot be computed from slices"):
        dry_run(kernels.kernel("mine", aggregate), ["bigint"])


# Functions that run by rows.


def many(acc, values):
    return acc + sum(LIMIT[0] * v for v in values)


def one(acc, v):
    return acc + LIMIT[0] * v


def combined(a, b):
    return a + b


@pytest.mark.parametrize("columns", [None, False])
def test_agg_many_is_called_once_for_the_records_of_a_slice_and_key(columns):
    calls = []

    def counted(acc, values):
        found = list(values)
        calls.append(found)
        return many(acc, found)

    aggregate = Aggregate(lambda: 0, one, combined, agg_many=counted, columns=columns)
    made = tried("mine", aggregate, ["bigint"])
    calls.clear()
    assert folded(made, [[1, 2, 3, 4]], ["bigint"], [0, 3]) == [60, 40]
    assert folded(made, [[1, 2, 3, 4]], ["bigint"], [0, 1], onto=[5, 7]) == [15, 97]
    assert calls == [[1, 2, 3], [4], [1], [2, 3, 4]]


def test_agg_many_gets_tuples_of_several_columns_and_nothing_of_none():
    pairs = Aggregate(
        lambda: 0,
        lambda acc, x, y: acc + LIMIT[0] * x * y,
        combined,
        agg_many=lambda acc, pairs: acc + sum(LIMIT[0] * x * y for x, y in pairs),
    )
    made = tried("mine", pairs, ["bigint", "bigint"])
    assert folded(made, [[1, 2, 3], [4, 5, 6]], ["bigint", "bigint"], [0, 1]) == [40, 280]
    count = Aggregate(lambda: 0, lambda n: n + len(LIMIT), combined, agg_many=lambda n, rows: n + len(list(rows)))
    made = tried("mine", count, [])
    assert objects(made, made.fold([], np.array([0, 2]), 7)) == [2, 5]


def test_agg_many_that_raises_says_in_which_slice_and_for_which_key():
    def refused(acc, values):
        if 13 in values:
            raise ValueError("13 is not taken")
        return many(acc, values)

    made = kernels.kernel("mine", Aggregate(lambda: 0, one, combined, agg_many=refused))
    shape = Shape(SLICING, (Field("key0", "bigint"),), (made,))
    with pytest.raises(FunctionFailed, match=r"`agg_many` of `mine` raised ValueError: 13 is not taken for key \(2,\)"):
        block_of(shape, [0, 0, 0, 0], [1, 2, 2, 3], {"mine": [pa.array([1, 2, 13, 4])]})


def test_agg_many_must_be_agg_of_one_record_after_another():
    wrong = Aggregate(lambda: 0, one, combined, agg_many=lambda acc, values: acc + len(list(values)))
    with pytest.raises(
        InvalidValue, match=r"`agg_many` of `mine` must make of records what `agg`.*got \(3,\).*\(60,\)"
    ):
        dry_run(kernels.kernel("mine", wrong), ["bigint"])
    with pytest.raises(InvalidType, match=r"`agg_many` of `mine` must take 2 argument\(s\) \(acc, values\)"):
        dry_run(kernels.kernel("mine", replace(wrong, agg_many=lambda acc: acc)), ["bigint"])
    with pytest.raises(InvalidValue, match="`agg_many` is for functions of single rows"):
        replace(wrong, columns=True)


def test_a_counter_is_called_group_after_group():
    """Whatever runs by rows sees records in one order: slices and keys sorted, and as they came inside."""
    seen = []
    aggregate = Aggregate(lambda: 0, lambda acc, v: seen.append(v) or acc + v, combined, laws=False)
    made = kernels.kernel("mine", aggregate)
    folded(made, [[*range(10)]], ["bigint"], [0, 1, 5, 6])
    assert seen == [*range(10)]


def test_groups_are_folded_by_rows_a_piece_at_a_time(monkeypatch):
    monkeypatch.setattr("slicing.tracing.kernel.PIECE", 4)
    rows, other = both(Aggregate(lambda: 0, lambda acc, v: acc + LIMIT[0] * v if v != 13 else 1 // 0, combined))
    starts = [0, 1, 3, 4, 9, 10, 11, 13, 14]
    for records in ([*range(20, 40)], [20] * 12 + [13] * 8):
        for onto in (None, [*range(9)]):
            made = [outcome(folded, k, [records], ["bigint"], starts, onto) for k in (rows, other)]
            assert_same(*made, records)


def test_partials_are_joined_by_rows_a_piece_at_a_time_and_only_where_there_are_several(monkeypatch):
    """Those that outgrow 64 bits among them, and where `combine` raises in a late piece."""
    monkeypatch.setattr("slicing.tracing.kernel.PIECE", 4)
    seen = []

    def joining(a, b):
        seen.append((a, b))
        return a * LIMIT[0] + b if b != 13 else 1 // 0

    rows, other = both(Aggregate(lambda: 0, lambda acc, v: acc + v, joining))
    starts = np.array([0, 1, 3, 4, 9, 10, 11, 13, 14, 15, 16])
    for partials in ([*range(20, 40)], [2**70, *range(17), 2**90, 1], [5] * 11 + [13] * 9, [13] * 20):
        made = []
        for kernel in (rows, other):
            seen.clear()
            made.append((outcome(_reduced, kernel, partials, starts), list(seen)))
        assert made[0] == made[1]
    assert objects(other, other.reduce(held(other, [13, 7, 13]), np.array([0, 1, 2]))) == [13, 7, 13]
    assert other.reduce(other.spread(0), np.zeros(0, dtype=np.int64))[0].size == 0


def chained(steps):
    def agg(acc, v):
        for _ in range(steps):
            v = v * 0.999 + 0.001
        return acc + v

    return Aggregate(lambda: 0.0, agg, lambda a, b: a + b)


@pytest.mark.parametrize(("steps", "is_traced"), [(90, True), (300, False)])
def test_operations_that_wait_for_each_other_are_traced_up_to_a_limit(steps, is_traced):
    """They are evaluated recursively; without a limit the query is built, and fails at its first batch of records."""
    made = tried("mine", chained(steps), ["double"])
    assert ("agg" in made.by_rows) is not is_traced
    rows, other = both(chained(steps))
    columns, starts = [[at / 7 for at in range(200)]], np.arange(0, 200, 2)
    assert_same(*(outcome(folded, kernel, columns, ["double"], starts) for kernel in (rows, other)), steps, [0])


def test_what_is_derived_of_a_function_may_have_more_operations_than_it():
    def agg(acc, v):
        for at in range(160):
            acc = acc + (v * (1.5 + at) + (0.25 + at)) * v
        return acc

    written = Aggregate(lambda: 0.0, agg, lambda a, b: a + b)
    made = tried("mine", written, ["double"])
    assert not made.by_rows
    assert made.traced_agg(["float"]).steps
    columns, starts = [[at / 7 for at in range(50)]], np.arange(0, 50, 2)
    assert_same(*(outcome(folded, kernel, columns, ["double"], starts) for kernel in both(written)), "sums", [0])


def test_choices_that_are_used_twice_are_evaluated_once():
    """The fifteen largest: the number of paths through their choices is beyond any time."""
    count = 15

    def put(top, v):
        found = []
        for each in top:
            found.append(max(each, v))
            v = min(each, v)
        return tuple(found)

    def merged(a, b):
        for each in b:
            a = put(a, each)
        return a

    partial = ", ".join(f"top{at} double" for at in range(count))
    written = Aggregate(lambda: (-math.inf,) * count, put, merged, partial=partial)
    other = tried("mine", written, ["double"])
    assert not other.by_rows
    choice = random.Random(0)
    sides = [[tuple(sorted((choice.random() for _ in range(count)), reverse=True)) for _ in range(40)] for _ in "ab"]
    found = objects(other, other.combine(*(held(other, side) for side in sides)))
    assert found == [tuple(sorted(a + b, reverse=True)[:count]) for a, b in zip(*sides, strict=True)]


def test_partials_of_numbers_are_columns_between_calls():
    made = kernels.kernel("mine", Aggregate(lambda: (0, 0.0), lambda acc, v: (acc[0] + LIMIT[0], v), lambda a, b: b))
    partials = made.fold([np.arange(50.0)], np.arange(50), 50)
    assert [column.dtype for column in partials] == [np.int64, np.float64]
    assert made.object_bytes == 0
    assert [column.dtype for column in made.reduce(partials, np.array([0, 9]))] == [np.int64, np.float64]


@pytest.mark.parametrize("no", [False, 0, np.False_])
def test_functions_that_must_not_take_columns_run_by_rows(no):
    assert type(kernels.kernel("sum", Aggregate(int, operator.add, operator.add, columns=no))) is RowsKernel
