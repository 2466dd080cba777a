"""Values that are kept whole: arrays, maps and structs, and every atomic order of `min_by` and `max_by`."""

import datetime as dt
import random
from collections import defaultdict
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from oracle import Case, hopping, results, windows_of
from scenarios.kind import PARTIALS, RECORDS
from scenarios.kinds.even import Even
from scenarios.scenario import Scenario
from test_more_combinators import EMISSIONS, random_records

import combinators as C
from combinators._common import ANY_NESTED, CARRIED
from combinators.catalogue import CATALOGUE, MORE
from slicing import laws
from slicing.aggregates.aggregate import EVENT_TIME
from slicing.aggregates.fields import Field, arrow_type
from slicing.aggregates.kernels import kernel
from slicing.assembly.assembling import assemble
from slicing.content.block import Shape, encode_keys
from slicing.content.codec import decode, encode
from slicing.content.folding import fold, from_records
from slicing.content.sizes import memory, row_sizes
from slicing.errors import InvalidType, InvalidValue, RowFailure, TooLarge

ENTRIES = [entry for entry in (*CATALOGUE, *MORE) if ANY_NESTED in entry.kinds]
KIND = "struct<n:bigint,s:string>"
VALUES = {
    KIND: [
        {"n": 5, "s": "x"},
        {"n": 1, "s": "z"},
        {"n": 1, "s": "a"},
        {"n": None, "s": "a"},
        {"n": 1, "s": None},
    ],
    "struct<x:double,y:array<float>>": [
        {"x": 0.0, "y": [-0.0]},
        {"x": -0.0, "y": [0.0]},
        {"x": 1.5, "y": None},
        {"x": None, "y": [2.5]},
    ],
    "array<string>": [["a"], [], ["a", "b"], [None], ["b"], ["a", ""]],
    "map<string,double>": [
        [("a", 1.0)],
        [("b", 1.0), ("a", 2.0)],
        [("a", 2.0), ("b", 1.0)],
        [],
        [("a", None)],
        [("a", 1.0), ("b", 0.5)],
    ],
    "struct<at:timestamp,m:map<string,array<date>>>": [
        {"at": dt.datetime(2024, 5, 1, tzinfo=dt.UTC), "m": [("k", [dt.date(2024, 5, 1), None])]},
        {"at": dt.datetime(1960, 5, 1, tzinfo=dt.UTC), "m": None},
        {"at": None, "m": []},
    ],
}
ORDERS = {
    "bigint": [3, -1, 7, None],
    "boolean": [True, False, None],
    "double": [0.5, -3.0, 1e6, None],
    "decimal(10,2)": [Decimal("9.00"), Decimal("10.00"), Decimal("-3.50"), None],
    "string": ["9", "10", "", None],
    "binary": [b"9", b"10", b"", None],
    "date": [dt.date(2024, 5, 1), dt.date(1969, 1, 1), None],
    "timestamp": [dt.datetime(2024, 5, 1, tzinfo=dt.UTC), dt.datetime(1969, 1, 1, tzinfo=dt.UTC), None],
}
FAMILY, ATOMIC_VALUES = hopping(5, 10), {"bigint": [4, 2, None, 9], "string": ["b", "a", None, "ab"]}


def order(value):
    """Null first, then field by field, element by element, entry by entry."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    return (0,) if value is None else (1, value) if inner is None else (1, *map(order, inner))


def same(value):
    """A value as one that is equal to it: the entries of maps in order."""
    value = [*value.values()] if isinstance(value, dict) else value
    if not isinstance(value, (list, tuple)):
        return value
    is_map = any(isinstance(each, tuple) for each in value)
    return tuple(map(same, sorted(value, key=order) if is_map else value))


def drawn(kind, by="bigint", seed=1):
    """Records (instant, value, order) of one key, many at one time and with one order."""
    rng = random.Random(f"{kind} {by} {seed}")
    values = [*VALUES.get(kind, ()), *ATOMIC_VALUES.get(kind, ()), None]
    return [(rng.randrange(120), rng.choice(values), rng.choice(ORDERS[by])) for _ in range(150)]


def through(bound, kinds, records, tree):
    """The results by start of windows, of records in two blocks that have been stored."""
    shape = Shape(FAMILY, (Field("k", "bigint"),), (kernel("r", bound.resolve(kinds[: len(bound.columns)])),))
    blocks = []
    for some in (records[::2], records[1::2]):
        times = pa.array([time for time, *_ in some], pa.int64())
        codes, names = encode_keys(pa.table({"k0": pa.array([7] * len(some), pa.int64())}))
        columns = {EVENT_TIME: times}
        kind_of = dict(zip(bound.columns, kinds, strict=False))
        for at, column in enumerate("xy"):
            if column in kind_of:
                columns[column] = pa.array([row[1 + at] for row in some], arrow_type(kind_of[column]))
        if "positive" in bound.columns:
            columns["positive"] = pa.array([row[2] is not None and row[2] > 0 for row in some])
        given = [columns[name] for name in bound.columns]
        block = from_records(shape, FAMILY.slice_at(np.asarray(times)), codes, names, [given])
        assert memory(shape, block) > 0
        assert np.all(np.asarray(row_sizes(shape, block)) > 0)
        blocks.append(decode(shape, encode(shape, block)))
    found = results(shape, assemble(shape, [tree], fold(shape, blocks)))
    return {window: result for (_, window), (_, result) in found.items()}


def held(records):
    found = defaultdict(list)
    for record in records:
        for window in windows_of(FAMILY, record[0]):
            found[window].append(record)
    return found


def end(records, last, place):
    known = [record for record in records if record[place] is not None]
    ends = sorted({record[place] for record in known})
    tied = [record[1] for record in known if record[place] == ends[-1 if last else 0]]
    return min(tied, key=order, default=None)


def listed(records, nulls=False):
    known = [record for record in records if nulls or record[1] is not None]
    return [value for _, value, _ in sorted(known, key=lambda record: (record[0], order(record[1])))]


TRUTHS = {
    "first": lambda records: end(records, False, 0),
    "last": lambda records: end(records, True, 0),
    "min_by": lambda records: end(records, False, 2),
    "max_by": lambda records: end(records, True, 2),
    "collect_list": listed,
    "first_n": lambda records: listed(records, nulls=True)[:3],
    "last_n": lambda records: listed(records, nulls=True)[-3:],
    "count_distinct": lambda records: len({*map(same, listed(records))}),
    "approx_count_distinct": lambda records: len({*map(same, listed(records))}),
}


def test_what_keeps_values_whole():
    assert {entry.name for entry in ENTRIES} == TRUTHS.keys()
    assert all(entry.kinds == CARRIED for entry in ENTRIES)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_results_are_those_of_all_records(entry, kind):
    by = "double" if entry.others else "bigint"
    records = drawn(kind, by)
    for tree in ("recompute", "three_layer"):
        found = through(entry.of("x", "y"), (kind, by), records, tree)
        assert found == {window: TRUTHS[entry.name](some) for window, some in held(records).items()}, tree


@pytest.mark.parametrize("kind", [KIND, "bigint", "string"])
@pytest.mark.parametrize("by", ORDERS)
@pytest.mark.parametrize("name", ["min_by", "max_by"])
def test_every_atomic_order(name, by, kind):
    records = drawn(kind, by)
    found = through(getattr(C, name)("x", "y"), (kind, by), records, "three_layer")
    assert found == {window: TRUTHS[name](some) for window, some in held(records).items()}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_laws(entry, kind):
    bound = entry.of("x", "y")
    by_time = EVENT_TIME in bound.columns
    records = [(value, time if by_time else by)[: len(bound.columns)] for time, value, by in drawn(kind, "double")[:12]]
    found = laws.check(bound, records, kinds=(kind, "bigint" if by_time else "double")[: len(bound.columns)], rounds=10)
    assert found is None, str(found)


@pytest.mark.parametrize("by", ORDERS)
def test_laws_of_every_order(by):
    records = [(value, by) for _, value, by in drawn(KIND, by)[:12]]
    for combinator in (C.min_by, C.max_by):
        found = laws.check(combinator("x", "y"), records, kinds=(KIND, by), rounds=10)
        assert found is None, str(found)


def by_place(place, last):
    """The place of a record in an order by two columns; without the second, behind the others."""
    return lambda record: (record[0], (record[place] is not None) == last, order(record[place]))


def nearest(records, last):
    """The value of the record at an end of event time and `by`; ties: the smaller value."""
    place = by_place(2, last)
    ends = sorted(map(place, records))
    return min((r[1] for r in records if place(r) == ends[-1 if last else 0]), key=order, default=None)


def by_both(records, last):
    return [r[1] for r in sorted(records, key=lambda r: (*by_place(2, last)(r), order(r[1])))]


def best(records, down):
    """The values by `by`, null left out; ties: the smaller value first."""
    known = sorted((r for r in records if r[2] is not None), key=lambda r: order(r[1]))
    return [r[1] for r in sorted(known, key=lambda r: order(r[2]), reverse=down)]


def known(records):
    return [record for record in records if record[1] is not None]


IN_ORDER = {
    "last by": (C.last("x", by="y"), lambda records: nearest(records, True)),
    "first by": (C.first("x", by="y"), lambda records: nearest(records, False)),
    "last known": (C.last("x", ignore_nulls=True), lambda records: end(known(records), True, 0)),
    "first known by": (C.first("x", by="y", ignore_nulls=True), lambda records: nearest(known(records), False)),
    "last_n by": (C.last_n("x", 3, by="y"), lambda records: by_both(records, True)[-3:]),
    "first_n by": (C.first_n("x", 3, by="y"), lambda records: by_both(records, False)[:3]),
    "last_n known": (C.last_n("x", 3, ignore_nulls=True), lambda records: listed(records)[-3:]),
    "last_n known by": (
        C.last_n("x", 3, by="y", ignore_nulls=True),
        lambda records: by_both(known(records), True)[-3:],
    ),
    "max_by": (C.max_by("x", "y", 3), lambda records: best(records, True)[:3]),
    "min_by": (C.min_by("x", "y", 3), lambda records: best(records, False)[:3]),
}


@pytest.mark.parametrize(
    ("by", "kind"), [("bigint", KIND), ("decimal(10,2)", "bigint"), ("double", "string"), ("boolean", "bigint")]
)
@pytest.mark.parametrize("name", IN_ORDER)
def test_ends_of_two_orders(name, by, kind):
    bound, truth = IN_ORDER[name]
    records = drawn(kind, by)
    kinds = tuple({"x": kind, "y": by}.get(column, "bigint") for column in bound.columns)
    wanted = {window: truth(some) for window, some in held(records).items()}
    assert through(bound, kinds, records, "three_layer") == wanted
    of_law = [(r[1], *((r[0],) if EVENT_TIME in bound.columns else ()), r[2])[: len(kinds)] for r in records[:12]]
    assert laws.check(bound, of_law, kinds=kinds, rounds=10) is None


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("kind", ["bigint", "decimal(10,2)", "timestamp"])
def test_the_largest_values_with_another_column(kind, down):
    records = [(time, by, value) for time, value, by in drawn("string", kind)]
    bound = (C.largest if down else C.smallest)("x", 3, with_="y")
    found = through(bound, (kind, "string"), records, "three_layer")
    pairs = {w: [(r[0], r[2], r[1]) for r in some] for w, some in held(records).items()}
    for window, some in pairs.items():
        in_line = sorted((r for r in some if r[2] is not None), key=lambda r: order(r[1]))
        in_line.sort(key=lambda r: r[2], reverse=down)
        assert found[window] == [{"x": r[2], "y": r[1]} for r in in_line[:3]]


def sum_of(values):
    known = [value for value in values if value is not None]
    return sum(known) if known else None


INNER = {
    "count": (C.count(), lambda some: len(some)),
    "sum": (C.sum("y"), lambda some: sum_of([r[2] for r in some])),
    "max": (C.max("y"), lambda some: max((r[2] for r in some if r[2] is not None), default=None)),
    "last": (C.last("y"), lambda some: end([(r[0], r[2]) for r in some], True, 0)),
    "collect": (C.collect_set("y", limit=9), lambda some: sorted({r[2] for r in some if r[2] is not None})),
    "positive": (C.count(where="positive"), lambda some: sum(r[2] is not None and r[2] > 0 for r in some)),
}


@pytest.mark.parametrize("kind", ["string", "double", "decimal(10,2)"])
@pytest.mark.parametrize("name", INNER)
def test_a_result_for_each_value_of_a_second_key(name, kind):
    inner, truth = INNER[name]
    values = {"string": ["b", "a\0", "", None], "double": [0.0, -0.0, 2.5, None]}.get(kind, ORDERS.get(kind))
    rng = random.Random(kind)
    records = [(rng.randrange(120), rng.choice(values), rng.choice([3, -1, 7, None])) for _ in range(150)]
    bound = C.by("x", inner, limit=5)
    kinds = tuple({"x": kind, "y": "bigint", "positive": "boolean"}.get(column, "bigint") for column in bound.columns)
    wanted = {}
    for window, some in held(records).items():
        keys = sorted({r[1] for r in some if r[1] is not None})
        wanted[window] = [(key, truth([r for r in some if r[1] == key])) for key in keys]
    trees = ["recompute", "three_layer"] + ["two_layer"] * (bound.resolve(kinds).invert is not None)
    for tree in trees:
        assert through(bound, kinds, records, tree) == wanted, tree
    rows = {"x": 1, EVENT_TIME: 0, "y": 2}
    of_law = [
        tuple(r[2] is not None and r[2] > 0 if c == "positive" else r[rows[c]] for c in bound.columns)
        for r in records[:12]
    ]
    assert laws.check(bound, of_law, kinds=kinds, rounds=10) is None


def test_values_of_a_second_key_have_a_limit():
    records = [(1, f"{at}", at) for at in range(4)] + [(1, "2", 5), (1, "3", 5)]
    with pytest.raises(RowFailure, match=r"`by\(x, count\(\)\)` keeps a result for every value .* most 2 ") as caught:
        through(C.by("x", C.count(), limit=2), ("string",), records, "recompute")
    assert caught.value.kind is TooLarge
    found = through(C.by("x", C.count(), limit=3, full="frequent"), ("string",), records, "recompute")
    assert found[0] == [("0", 1), ("2", 2), ("3", 2)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: C.by("x", "y", limit=3), InvalidType, "`by` takes one result, for example"),
        (lambda: C.by("x", C.struct(a=C.count()), limit=3), InvalidType, "write `by` for each"),
        (lambda: C.by("x", C.count(), limit=0), InvalidValue, "`limit` must be a positive integer"),
        (lambda: C.by("x", C.count(), limit=3, full="drop"), InvalidValue, "one of error, frequent; got 'drop'"),
        (lambda: C.by("x", C.count(), limit=3).resolve(("array<int>",)), InvalidType, "takes a column of one of"),
    ],
)
def test_second_keys_that_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def named(values):
    return [{"n": value, "s": str(value)} for value in values]


def structs(column):
    return pa.StructArray.from_arrays([column, column.cast(pa.string())], ["n", "s"])


STREAMED = [
    Case(C.last("x").resolve((KIND, "bigint")), lambda times: named(times and [max(times)])[0], structs, timed=True),
    Case(C.first_n("x", 2).resolve((KIND, "bigint")), lambda times: named(sorted(times)[:2]), structs, timed=True),
    Case(C.collect_list("x").resolve((KIND, "bigint")), lambda times: named(sorted(times)), structs, timed=True),
]
"""Records whose value is their time."""


@pytest.mark.parametrize("name", ["eager", "close", "update", "change", "counted"])
def test_streams_are_right_in_every_micro_batch(name):
    emission = EMISSIONS[name]
    content, grace = RECORDS if name == "eager" else PARTIALS, 2000 if emission.fires_late else 0
    rng, one = np.random.default_rng(5), Scenario(Even.of(8, 1), emission, grace, content, STREAMED)
    newest, rows = 5000, 0
    for step in range(6):
        newest += int(rng.integers(0, 4000))
        records = [(time, key, time) for time, key in random_records(rng, one.family, newest, 8)]
        rows += len(one.step(records, newest // 1000 - 3, now=step * 1000))
    assert rows > 10


def test_partials_are_typed():
    both = C.last("x").resolve(("struct<n:bigint,s:array<date>>", "bigint"))
    assert both.partial == "time bigint, level tinyint, value struct<n:bigint,s:array<date>>"
    assert both.returns == "struct<n:bigint,s:array<date>>"
    assert C.max_by("x", "y").resolve(("map<string,int>", "decimal(10,2)")).partial == (
        "by decimal(10,2), level tinyint, value map<string,int>"
    )


def test_orders_and_values_that_are_not_taken():
    with pytest.raises(
        InvalidType, match=r"`max_by\(x, y\)` takes a column of one of .*; got struct<n:int>\. Order by"
    ):
        C.max_by("x", "y").resolve(("int", "struct<n:int>"))
    for other in (C.max, C.min, C.mode, C.collect_set):
        with pytest.raises(InvalidType, match="got struct<n:int>"):
            other("x").resolve(("struct<n:int>",))
